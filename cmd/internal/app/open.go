package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/look"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/remove"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// procDir is where the kernel shows processes.
const procDir = "/proc"

// DiscoverRoot returns the root directory of the running kubelet, and where it was read. With ok false, origin is the
// reason why the operator must set it.
func DiscoverRoot(ctx context.Context) (dir, origin string, ok bool) {
	dir, origin, err := kubelet.RootDir(ctx, procDir)
	if err != nil {
		return "", err.Error(), false
	}
	return dir, origin, true
}

// CheckConfig checks a configuration beyond its values: the files of credentials and of the web server, and whether it agrees
// with the running kubelet and the disk. What can be repaired later is a note.
func CheckConfig(ctx context.Context, cfg config.Config, now time.Time) (notes []string, contradicts bool, err error) {
	notes, err = CheckCredentials(ctx, cfg, now)
	if err != nil {
		return nil, false, err
	}
	notes = append(cfg.Notes(), notes...)
	note, err := checkWeb(cfg)
	if err != nil {
		return nil, false, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	if f := settingsAgree(ctx, cfg); f.Truth != policy.Yes {
		notes, contradicts = append(notes, "nothing will be removed: "+f.Detail), f.Truth == policy.No
	}
	if err := RootThere(cfg); err != nil {
		notes, contradicts = append(notes, err.Error()), contradicts || cfg.Named("root_dir")
	}
	return notes, contradicts, nil
}

// settingsAgree returns whether the settings agree with the running kubelet.
func settingsAgree(ctx context.Context, cfg config.Config) policy.Fact {
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

// Rules returns the settings for policy.
func Rules(c config.Config) policy.Rules {
	return policy.Rules{
		Hold: c.Hold, Confirm: c.Confirm, Retention: c.Retention, CNIOlderThan: c.CNIOlderThan,
		MaxPerLook: c.MaxPerLook, Observe: c.Observe(), Waive: c.Waive(),
		NeedAPI: c.Kubeconfig != config.None && c.APIUnreachable != config.UnreachableIgnore,
	}
}

// probing returns the settings for probe.
func probing(c config.Config, log *slog.Logger, clock probe.Clock) probe.Config {
	emptyIf := func(word, v string) string {
		if v == word {
			return ""
		}
		return v
	}
	return probe.Config{
		NodeRoot: c.NodeRoot, RootDir: c.RootDir, RootDirSet: c.Named("root_dir"), QuarantineDir: c.QuarantineDir, CgroupRoot: c.CgroupRoot,
		NodeNamespacesSelf: c.NodeNamespaces == config.Self, Waive: c.Waive(),
		RuntimeEndpoint: c.RuntimeEndpoint, Logger: log, Clock: clock,
		KubeletTokenFile:         emptyIf(config.None, c.KubeletTokenFile),
		KubeletClientCertificate: emptyIf(config.None, c.KubeletClientCertificate),
		KubeletClientKey:         emptyIf(config.None, c.KubeletClientKey),
		Kubeconfig:               emptyIf(config.None, c.Kubeconfig), NodeName: emptyIf(config.Auto, c.NodeName),
	}
}

// CheckCredentials checks the files of credentials for the kubelet and the API server. What is never accepted is an error
// with exit code 2. What can be repaired while the daemon runs (a missing file, an expired certificate) is a note: until
// then the facts are unknown.
func CheckCredentials(ctx context.Context, c config.Config, now time.Time) (notes []string, err error) {
	var refused []error
	add := func(key string, err error) {
		if err != nil && key != "" {
			err = fmt.Errorf("%s: %w", key, err)
		}
		if _, ok := errors.AsType[*kube.RefusedError](err); ok {
			refused = append(refused, err)
		} else if err != nil {
			notes = append(notes, err.Error())
		}
	}
	p := probing(c, nil, nil)
	lists := podlists.Reader{
		KubeletTokenFile: p.KubeletTokenFile, KubeletClientCertificate: p.KubeletClientCertificate, KubeletClientKey: p.KubeletClientKey,
		Kubeconfig: p.Kubeconfig, Now: func() time.Time { return now }, Guard: &bounded.Guard{},
	}
	for _, err := range lists.CheckCredentials(ctx) {
		add("", err)
	}
	if len(refused) > 0 {
		return notes, &exit.Error{Code: exit.UsageCode, Err: errors.Join(refused...)}
	}
	return notes, nil
}

// Access is a command's access to the node.
type Access int

// The kinds of access.
const (
	Reads Access = iota // changes nothing: the state directory is opened for reading only
	Acts                // an operator's command, which may run beside the daemon
	Runs                // the daemon or a sweep, one at a time
)

// options are the options of open.
type options struct {
	access   Access
	log      *slog.Logger    // nil discards
	by       *policy.User    // the operator in the records
	recorder reaper.Recorder // nil discards
	metrics  *metricsFile    // of a daemon or a sweep, nil for others
}

// Node is one node, opened for one command.
type Node struct {
	Store  *state.Store
	Reaper *reaper.Reaper
	CNI    *cni.Sweeper
	probe  *probe.Probe

	cfg   config.Config
	log   *slog.Logger
	close []func()
	// misplaced is why the ledger's entries are not in the configured quarantine. Only a command that reads goes on then.
	misplaced error
}

// Close releases the lock and closes the state directory.
func (n *Node) Close() {
	for _, closing := range slices.Backward(n.close) {
		closing()
	}
}

// open opens the node. All commands that look at it or change it use open.
func open(ctx context.Context, cfg config.Config, o options) (*Node, error) {
	n := &Node{cfg: cfg, log: o.log}
	if o.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if o.recorder == nil {
		o.recorder = silent{}
	}
	if o.metrics == nil { // count them, and write no file
		without := cfg
		without.MetricsFile = config.None
		o.metrics = newMetricsFile(ctx, without, "", n.log, slog.LevelDebug)
	}
	err := n.openState(ctx, o)
	if err == nil {
		if changes, ok := ctx.Value(changesKey{}).(*atomic.Bool); ok && o.access != Reads {
			changes.Store(true)
		}
		err = n.openReaper(ctx, o)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// changesKey is the context's key of the flag of WithChanges.
type changesKey struct{}

// WithChanges returns a context for one command, and a flag that becomes true when the command may begin to change the node.
func WithChanges(ctx context.Context) (context.Context, *atomic.Bool) {
	changes := new(atomic.Bool)
	return context.WithValue(ctx, changesKey{}, changes), changes
}

// openReaper opens what looks at the node and changes it.
func (n *Node) openReaper(ctx context.Context, o options) error {
	cfg := n.cfg
	clock, err := state.NewClock()
	if err != nil {
		return err
	}
	if cfg.Waive() {
		if err := kubelet.CheckWaived(ctx, procDir, cfg.RootDir, cri.UsualSockets(cfg.NodeRoot)); err != nil {
			return &exit.Error{Code: exit.UsageCode, Err: err}
		}
	}
	p, err := probe.New(probing(cfg, n.log, clock))
	if err != nil {
		return err
	}
	n.probe = p
	remover, err := removal.Open(removal.Config{PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir, Logger: n.log, Used: p.Used})
	if err != nil {
		return err
	}
	w := metered{p, n.Store, o.recorder, cfg, o.metrics}
	if err := n.openCNI(p, clock, w); err != nil {
		return err
	}
	rules := Rules(cfg)
	rules.Observe = rules.Observe && o.access != Acts // an operator's command acts in mode observe, too
	n.Reaper = &reaper.Reaper{
		Prober: w, Remover: remover, Ledger: w, Store: n.Store, Clock: clock, Recorder: w, Meter: w.metrics, Log: n.log, Rules: rules, CNI: n.CNI,
	}
	if err := n.Reaper.Load(); err != nil {
		return err
	}
	if o.access == Runs {
		n.warnUnlisted()
	}
	return nil
}

// openState opens the state directory, and locks it for the daemon or a sweep.
func (n *Node) openState(ctx context.Context, o options) (err error) {
	if o.access == Reads {
		n.Store, err = state.OpenReadOnly(n.cfg.StateDir, state.Options{Log: n.log})
	} else {
		n.Store, err = state.Open(n.cfg.StateDir, state.Options{Log: n.log, By: o.by})
	}
	if err != nil {
		return err
	}
	n.close = append(n.close, func() { closeQuietly(n.Store) })
	switch o.access {
	case Reads:
		if _, wrong := sameQuarantine(n.cfg, n.Store); wrong != nil {
			n.misplaced = exit.WithHint(wrong)
		}
	case Acts:
		_, err = sameQuarantine(n.cfg, n.Store)
	case Runs:
		var release func()
		if release, err = lockQuarantine(ctx, n.cfg, n.Store); err == nil {
			n.close = append(n.close, release)
		}
	}
	return err
}

// openCNI opens the sweeper of CNI files.
func (n *Node) openCNI(p *probe.Probe, clock reaper.Clock, w metered) error {
	reader, err := look.New(look.Reader{
		Node: p, NodeRoot: n.cfg.NodeRoot, Self: n.cfg.NodeNamespaces == config.Self, CacheDirs: []string{n.cfg.CNICacheDir}, DataDirs: []string{n.cfg.CNIDataDir},
		ConfDir: n.cfg.CNIConfDir, ConfDirSet: n.cfg.Named("cni_conf_dir"), Now: clock.Now,
	})
	if err != nil {
		return err
	}
	remover, err := remove.Open(reader.Dirs, n.log)
	if err != nil {
		return err
	}
	n.CNI = &cni.Sweeper{
		Prober: reader, Remover: remover, Archive: remove.ArchiveStore{Store: n.Store}, Ledger: w, Clock: clock, Meter: w.metrics, Log: n.log,
		Files: mostShown,
	}
	return nil
}

// reading calls do with the state directory, opened for reading only.
func reading[T any](cfg config.Config, do func(*state.Store) (T, error)) (result T, err error) {
	store, err := state.OpenReadOnly(cfg.StateDir, state.Options{})
	if err != nil {
		return result, err
	}
	defer closeQuietly(store)
	return do(store)
}

// metered counts failures in the metrics.
type metered struct {
	reaper.Prober
	reaper.Ledger
	reaper.Recorder

	cfg     config.Config
	metrics *metricsFile
}

// Look writes the metrics file after a failure: the loop writes it only after a look that succeeded. If the root directory is
// missing, it returns the same error as other commands.
func (w metered) Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	look, err := w.Prober.Look(ctx, parked, only)
	if err != nil && ctx.Err() == nil {
		w.metrics.Failure(audit.OpLook)
		w.metrics.Flush()
	}
	return look, noNode(w.cfg, err)
}

func (w metered) Append(rs ...policy.Record) ([]policy.Record, error) {
	rs, err := w.Ledger.Append(rs...)
	if err != nil {
		w.metrics.Failure(audit.OpLedger)
	}
	return rs, err
}

func (w metered) Record(r policy.Record) error {
	err := w.Recorder.Record(r)
	if err != nil {
		w.metrics.Failure(audit.OpJournal)
	}
	return err
}

// Now returns the time as passes use it. If the boot ID cannot be read, it has only the wall clock.
func Now() policy.Instant {
	clock, err := state.NewClock()
	if err != nil {
		return policy.Instant{Wall: time.Now()}
	}
	return clock.Now()
}

// warnUnlisted logs how many entries are in quarantine that the ledger does not have.
func (n *Node) warnUnlisted() {
	names, err := n.Reaper.Remover.List()
	if err != nil {
		n.log.Warn("cannot list the quarantine", slog.Any("error", err))
		return
	}
	if entries := len(decide.Unlisted(names, n.Store.Entries())); entries > 0 {
		n.log.Warn("quarantine holds entries that the ledger does not have; they are kept (quarantine list shows them)",
			slog.Int("entries", entries))
	}
}

// mostShown limits the CNI files in the table and in JSON: 300,000 in JSON needed 2.4 GB. The totals count all, and the
// archives contain all that were removed.
const mostShown = 1000

// Survey is the result of one look, and what the state directory adds to it.
type Survey struct {
	reaper.Report
	Unlisted []policy.EntryState // directories in quarantine that the ledger does not have
	Daemon   summary.Daemon
	History  []policy.Record // the ledger's records of the pod, if the look is at one
}

// Look looks once and changes nothing.
func Look(ctx context.Context, cfg config.Config, uids []parsers.PodUID) (s Survey, err error) {
	defer progress.From(ctx).End()
	n, err := open(ctx, cfg, options{})
	if err != nil {
		return s, err
	}
	defer n.Close()
	s.Unlisted, _ = unlisted(n.Reaper.Remover, n.Store) // the pass has the error, too
	s.Daemon = findDaemon(ctx, cfg, n.Store)
	if len(uids) == 1 {
		if s.History, err = n.Store.History(uids[0]); err != nil {
			return s, fmt.Errorf("cannot read what was done with %s: %w", uids[0], err)
		}
	}
	s.Report, err = n.Reaper.Pass(ctx, reaper.Options{DryRun: true, CNI: true, Only: uids, Claims: recentClaims(ctx, cfg, n.Reaper.Clock, n.log)})
	s.Misplaced(n.misplaced)
	if err == nil {
		err = ctx.Err() // an interrupted look is incomplete
	}
	return s, err
}

// closeQuietly closes a file that was read, or synced before.
func closeQuietly(c io.Closer) { _ = c.Close() }
