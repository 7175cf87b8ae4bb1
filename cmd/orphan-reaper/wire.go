package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/cnisweep"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// procDir is where the kernel shows processes.
const procDir = "/proc"

func realDeps() deps {
	return deps{
		configFile: defaultConfigFile,
		survey:     survey, list: listQuarantine, history: history, breaker: breaker, restore: restore, purge: purge, resume: resume,
		archives: listArchives, restoreCNI: restoreCNI, restoreBatch: restoreBatch, dropArchive: dropArchive,
		discover: discoverRoot, agrees: agrees, now: now,
	}
}

func discoverRoot(ctx context.Context) (dir, origin string, ok bool) {
	dir, origin, err := probe.KubeletRootDir(ctx, procDir)
	if err != nil {
		return "", err.Error(), false
	}
	return dir, origin, true
}

// agrees asks outside of a look, for config check.
func agrees(ctx context.Context, cfg Config) policy.Fact {
	clock, err := state.NewClock()
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	p, err := probe.New(probing(cfg, nil, clock))
	if err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	return p.Agrees(ctx)
}

// rulesOf are the operator's choices as policy knows them.
func rulesOf(c Config) policy.Rules {
	return policy.Rules{
		Hold: c.Hold, Settle: c.Settle, Confirm: c.Confirm, Retention: c.Retention, CNIOlderThan: c.CNIOlderThan,
		MaxPerLook: c.MaxPerLook, Observe: c.Observe(), Waive: c.Waive(),
		RemoveSandboxes: c.RemoveSandboxes,
		NeedAPI:         c.Kubeconfig != none && c.APIUnreachable != unreachableIgnore,
	}
}

// probing is where the node's things are, as probe knows it.
func probing(c Config, log *slog.Logger, clock probe.Clock) probe.Config {
	unless := func(word, v string) string {
		if v == word {
			return ""
		}
		return v
	}
	return probe.Config{
		NodeRoot: c.NodeRoot, RootDir: c.RootDir, RootDirSet: c.named("root_dir"), QuarantineDir: c.QuarantineDir, CgroupRoot: c.CgroupRoot,
		NodeNamespacesSelf: c.NodeNamespaces == self, Waive: c.Waive(),
		RuntimeEndpoint: c.RuntimeEndpoint, Logger: log, Clock: clock,
		CNICacheDirs: []string{c.CNICacheDir}, CNIDataDirs: []string{c.CNIDataDir}, CNIConfDir: c.CNIConfDir,
		CNIConfDirSet:            c.named("cni_conf_dir"),
		KubeletTokenFile:         unless(none, c.KubeletTokenFile),
		KubeletClientCertificate: unless(none, c.KubeletClientCertificate),
		KubeletClientKey:         unless(none, c.KubeletClientKey),
		Kubeconfig:               unless(none, c.Kubeconfig), NodeName: unless(auto, c.NodeName),
	}
}

// checkCredentials looks at the files with which the kubelet and the API server are asked. What
// will never be taken is an error with exit code 2. What may be mended by others while we
// run (a file that is not there yet, a certificate that has expired) is a note: until then
// the facts are unknown.
func checkCredentials(ctx context.Context, c Config, now time.Time) (notes []string, err error) {
	var refused []error
	for _, err := range probe.CheckCredentials(ctx, probing(c, nil, nil), now) {
		if _, ok := errors.AsType[*probe.RefusedError](err); ok {
			refused = append(refused, err)
		} else {
			notes = append(notes, err.Error())
		}
	}
	if len(refused) > 0 {
		return notes, &statusError{code: exitUsage, err: errors.Join(refused...)}
	}
	return notes, nil
}

// newReaper puts the rooms together. With a store that is open for reading only nothing
// can be changed, whoever asks.
func newReaper(ctx context.Context, cfg Config, store *state.Store, log *slog.Logger, teller reaper.Teller, meter reaper.Meter) (*reaper.Reaper, error) {
	clock, err := state.NewClock()
	if err != nil {
		return nil, err
	}
	if cfg.Waive() {
		if err := probe.CheckWaived(ctx, procDir, cfg.RootDir, probe.UsualSockets(cfg.NodeRoot)); err != nil {
			return nil, &statusError{code: exitUsage, err: err}
		}
	}
	p, err := probe.New(probing(cfg, log, clock))
	if err != nil {
		return nil, err
	}
	rem, err := removal.Open(removal.Config{
		PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir, Logger: log, CNIDirs: p.CNIDirs, Used: p.Used,
	})
	if err != nil {
		return nil, err
	}
	r := &reaper.Reaper{
		Prober: p, Remover: rem, Ledger: store, Store: store, Clock: clock,
		Teller: teller, Meter: meter, Log: log, Rules: rulesOf(cfg),
		CNI: &cnisweep.Sweeper{Prober: cniProber{p}, Remover: rem, Archive: cniArchive{store}, Ledger: store, Clock: clock, Log: log},
	}
	return r, r.Load()
}

// cniProber gives the probe's sweep the loop's type.
type cniProber struct{ *probe.Probe }

func (p cniProber) SweepCNI() cnisweep.Looks { return p.Probe.SweepCNI() }

// cniArchive gives the state's archives the loop's type.
type cniArchive struct{ *state.Store }

func (s cniArchive) Archives() ([]cni.ArchiveState, error) {
	infos, err := s.Store.Archives()
	var archives []cni.ArchiveState
	for _, i := range infos {
		a := cni.ArchiveState{Name: i.Name, At: i.At, Files: int64(i.Files), Bytes: i.Bytes}
		if i.Err != nil {
			a.Err = i.Err.Error()
		}
		archives = append(archives, a)
	}
	return archives, err
}

// now tells the time as passes do; without a boot ID it is the wall clock's alone.
func now() policy.Instant {
	clock, err := state.NewClock()
	if err != nil {
		return policy.Instant{Wall: time.Now()}
	}
	return clock.Now()
}

// tellUnlisted says once, at the start, what lies in quarantine without the ledger's knowledge.
func tellUnlisted(r *reaper.Reaper, log *slog.Logger) {
	names, err := r.Remover.List()
	if err != nil {
		log.Warn("cannot list the quarantine", slog.Any("error", err))
		return
	}
	if n := len(reaper.Unlisted(names, r.Ledger.Entries())); n > 0 {
		log.Warn("the ledger does not know all that lies in quarantine; it is left alone: orphan-reaper quarantine list", slog.Int("entries", n))
	}
}

// mostShown bounds the files of CNI that are told one by one, in the table and in JSON, of those
// that go and of those that stay: 300,000 in JSON took 2.4 GB. All of them are counted, and the
// archives have what was taken.
const mostShown = 1000

// survey takes one look for scan and explain: a dry run on a state that is only read.
func survey(ctx context.Context, cfg Config, uids []parsers.PodUID) (reaper.Report, error) {
	log := slog.New(slog.DiscardHandler)
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{Log: log})
	if err != nil {
		return reaper.Report{}, err
	}
	defer closeQuietly(store)
	r, err := newReaper(ctx, cfg, store, log, silent{}, silent{})
	if err != nil {
		return reaper.Report{}, err
	}
	rep, err := r.Pass(ctx, reaper.Options{DryRun: true, CNI: true, CNIFiles: mostShown, Only: uids, Claims: hear(ctx, cfg, r.Clock, log)})
	return rep, noNode(err)
}

// noNode adds what to do where there is no pods directory at all.
func noNode(err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	return failf("is this a Kubernetes node? --root-dir names the kubelet's root directory where it is another", "%w", err)
}

// byPerson opens the state for one action of a person, beside a daemon that may run. The
// record of it goes where the daemon's go; the metrics are the daemon's.
func byPerson(ctx context.Context, cfg Config, act func(*reaper.Reaper) error) error {
	log := newLogger(cfg, os.Stderr)
	store, err := state.Open(cfg.StateDir, state.Options{Log: log})
	if err != nil {
		return err
	}
	defer closeQuietly(store)
	if err := sameQuarantine(cfg, store); err != nil {
		return err
	}
	cfg.Mode = modeEnforce // a person's word is not observing
	r, err := newReaper(ctx, cfg, store, log, newTeller(cfg, os.Stderr), silent{})
	if err != nil {
		return err
	}
	return act(r)
}

func restore(ctx context.Context, cfg Config, uid parsers.PodUID) (o policy.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		o, err = r.Restore(ctx, uid)
		return err
	})
	return o, err
}

func purge(ctx context.Context, cfg Config, uids []parsers.PodUID, living bool) ([]policy.Outcome, error) {
	var outs []policy.Outcome
	err := byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		var errs []error
		for _, uid := range uids {
			done, err := r.PurgeEntries(ctx, uid, living)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			outs = append(outs, done...)
		}
		return errors.Join(errs...)
	})
	return outs, err
}

func resume(ctx context.Context, cfg Config) error {
	return byPerson(ctx, cfg, func(r *reaper.Reaper) error { return r.Resume(ctx) })
}

func restoreCNI(ctx context.Context, cfg Config, which string) (outs []cni.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		outs, err = r.RestoreCNI(ctx, which)
		return err
	})
	return outs, err
}

func restoreBatch(ctx context.Context, cfg Config, batch string) (outs []cni.Outcome, err error) {
	err = byPerson(ctx, cfg, func(r *reaper.Reaper) error {
		outs, err = r.RestoreBatch(ctx, batch)
		return err
	})
	return outs, err
}

func dropArchive(ctx context.Context, cfg Config, name string) error {
	return byPerson(ctx, cfg, func(r *reaper.Reaper) error { return r.DropArchive(ctx, name) })
}

func listArchives(_ context.Context, cfg Config) ([]cni.ArchiveState, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	return cniArchive{store}.Archives()
}

func history(_ context.Context, cfg Config, uid parsers.PodUID) ([]policy.Record, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	return store.History(uid)
}

func breaker(_ context.Context, cfg Config) (*policy.Record, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	if r, open := store.Breaker(); open {
		return &r, nil
	}
	return nil, nil //nolint:nilnil // that it goes on is an answer, not an error
}

func listQuarantine(_ context.Context, cfg Config) ([]policy.EntryState, error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return nil, err
	}
	defer closeQuietly(store)
	known := store.Entries()
	var entries []policy.EntryState
	for _, e := range known {
		entries = append(entries, *e)
	}
	rem, err := removal.Open(removal.Config{PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir})
	if err != nil {
		return nil, err
	}
	// Who may not read the quarantine is shown what the ledger knows.
	if names, err := rem.List(); err == nil {
		entries = append(entries, reaper.Unlisted(names, known)...)
	}
	slices.SortFunc(entries, func(a, b policy.EntryState) int { return cmp.Compare(a.Entry, b.Entry) })
	return entries, nil
}

// closeQuietly closes what was synced already.
func closeQuietly(c io.Closer) { _ = c.Close() }

// underJournal says whether our log should go to the journal itself: systemd runs us with
// stderr connected to it (systemd.exec(5), $JOURNAL_STREAM).
func underJournal(cfg Config) bool {
	if cfg.LogFormat == auto {
		ok, err := journal.StderrIsJournalStream()
		return err == nil && ok
	}
	return cfg.LogFormat == "journal"
}

func newLogger(cfg Config, stderr io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(stderr, opts)
	switch {
	case cfg.LogFormat == "json":
		h = slog.NewJSONHandler(stderr, opts)
	case underJournal(cfg):
		h = audit.NewHandler(level, h)
	}
	return slog.New(h)
}

// newTeller says where records go: to the journal where there is one, else to stderr.
func newTeller(cfg Config, fallback io.Writer) *audit.Journal {
	format := audit.FormatText
	if cfg.LogFormat == "json" {
		format = audit.FormatJSON
	}
	return audit.NewJournal(audit.JournalOptions{
		Fallback: fallback, Format: format,
		NoJournal: cfg.LogFormat == "text" || cfg.LogFormat == "json" || (cfg.LogFormat == auto && cfg.elsewhere()),
	})
}

// silent tells nobody and counts nothing.
type silent struct{}

func (silent) Success(policy.Instant)                            {}
func (silent) Tell(policy.Record) error                          { return nil }
func (silent) Sighting(parsers.Report)                           {}
func (silent) Look(policy.Look, []policy.Verdict, time.Duration) {}
func (silent) Outcome(policy.Outcome)                            {}
func (silent) Quarantine(map[string]*policy.EntryState)          {}
func (silent) Breaker(bool)                                      {}
func (silent) CNI(cni.Census)                                    {}
func (silent) Slow()                                             {}
func (silent) Flush() error                                      { return nil }

// lockRun makes this process the only one that takes pods by itself.
func lockRun(store *state.Store) (release func(), err error) {
	release, err = store.LockRun()
	if err != nil {
		return nil, failf("the daemon does by itself what sweep does: systemctl status orphan-reaper", "%w", err)
	}
	return release, nil
}

// errNoSource is for a configuration whose logs cannot be followed.
var errNoSource = fmt.Errorf("no log can be followed")
