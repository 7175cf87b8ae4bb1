package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/look"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/remove"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/person"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// procDir is where the kernel shows processes.
const procDir = "/proc"

// DiscoverRoot finds the root directory of the kubelet that runs here, and says in words where
// it was read. It is false, and the words say why, where only a person can choose.
func DiscoverRoot(ctx context.Context) (dir, origin string, ok bool) {
	dir, origin, err := kubelet.RootDir(ctx, procDir)
	if err != nil {
		return "", err.Error(), false
	}
	return dir, origin, true
}

// Agrees reports whether what was set agrees with the kubelet that runs here: outside of a look,
// for config check.
func Agrees(ctx context.Context, cfg config.Config) policy.Fact {
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

// Rules are the operator's choices as policy knows them.
func Rules(c config.Config) policy.Rules {
	return policy.Rules{
		Hold: c.Hold, HoldReported: c.HoldReported, Settle: c.Settle, Confirm: c.Confirm, Retention: c.Retention, CNIOlderThan: c.CNIOlderThan,
		MaxPerLook: c.MaxPerLook, Observe: c.Observe(), Waive: c.Waive(),
		NeedAPI: c.Kubeconfig != config.None && c.APIUnreachable != config.UnreachableIgnore,
	}
}

// probing is where the node's things are, as probe knows it.
func probing(c config.Config, log *slog.Logger, clock probe.Clock) probe.Config {
	unless := func(word, v string) string {
		if v == word {
			return ""
		}
		return v
	}
	return probe.Config{
		NodeRoot: c.NodeRoot, RootDir: c.RootDir, RootDirSet: c.Named("root_dir"), QuarantineDir: c.QuarantineDir, CgroupRoot: c.CgroupRoot,
		NodeNamespacesSelf: c.NodeNamespaces == config.Self, Waive: c.Waive(),
		RuntimeEndpoint: c.RuntimeEndpoint, Logger: log, Clock: clock,
		KubeletTokenFile:         unless(config.None, c.KubeletTokenFile),
		KubeletClientCertificate: unless(config.None, c.KubeletClientCertificate),
		KubeletClientKey:         unless(config.None, c.KubeletClientKey),
		Kubeconfig:               unless(config.None, c.Kubeconfig), NodeName: unless(config.Auto, c.NodeName),
	}
}

// CheckCredentials looks at the files with which the kubelet and the API server are asked. What
// will never be taken is an error with exit code 2. What may be mended by others while we
// run (a file that is not there yet, a certificate that has expired) is a note: until then
// the facts are unknown.
func CheckCredentials(ctx context.Context, c config.Config, now time.Time) (notes []string, err error) {
	var refused []error
	p := probing(c, nil, nil)
	lists := podlists.Reader{
		KubeletTokenFile: p.KubeletTokenFile, KubeletClientCertificate: p.KubeletClientCertificate, KubeletClientKey: p.KubeletClientKey,
		Kubeconfig: p.Kubeconfig, Now: func() time.Time { return now }, Guard: &bounded.Guard{},
	}
	for _, err := range lists.CheckCredentials(ctx) {
		if _, ok := errors.AsType[*kube.RefusedError](err); ok {
			refused = append(refused, err)
		} else {
			notes = append(notes, err.Error())
		}
	}
	for _, server := range []struct{ key, which string }{{"web.token_review", c.WebTokenReview}, {"orphan_report", c.OrphanReport}} {
		_, err := openAPIServer(ctx, &bounded.Guard{}, server.which, now)
		if err == nil {
			continue
		}
		if _, ok := errors.AsType[*kube.RefusedError](err); ok {
			refused = append(refused, fmt.Errorf("%s: %w", server.key, err))
		} else {
			notes = append(notes, server.key+": "+err.Error())
		}
	}
	if len(refused) > 0 {
		return notes, &exit.Error{Code: exit.UsageCode, Err: errors.Join(refused...)}
	}
	return notes, nil
}

// newReaper puts the rooms together. With a store that is open for reading only nothing
// can be changed, whoever asks.
func newReaper(ctx context.Context, cfg config.Config, store *state.Store, log *slog.Logger, teller reaper.Teller, meter meter) (*reaper.Reaper, error) {
	clock, err := state.NewClock()
	if err != nil {
		return nil, err
	}
	if cfg.Waive() {
		if err := kubelet.CheckWaived(ctx, procDir, cfg.RootDir, cri.UsualSockets(cfg.NodeRoot)); err != nil {
			return nil, &exit.Error{Code: exit.UsageCode, Err: err}
		}
	}
	p, err := probe.New(probing(cfg, log, clock))
	if err != nil {
		return nil, err
	}
	rem, err := removal.Open(removal.Config{
		PodsDir: cfg.PodsDir(), QuarantineDir: cfg.QuarantineDir, Logger: log, Used: p.Used,
	})
	if err != nil {
		return nil, err
	}
	r := &reaper.Reaper{
		Prober: prober{p, cfg}, Remover: rem, Ledger: store, Store: store, Clock: clock,
		Teller: teller, Meter: meter, Log: log, Rules: Rules(cfg),
	}
	if r.CNI, err = newSweeper(cfg, p, store, log, clock, meter); err != nil {
		return nil, err
	}
	return r, r.Load()
}

// meter counts for the metrics of both products.
type meter interface {
	reaper.Meter
	cni.Meter
}

// newSweeper puts the rooms of CNI together, beside those of the core.
func newSweeper(cfg config.Config, p *probe.Probe, store *state.Store, log *slog.Logger, clock cni.Clock, meter cni.Meter) (*cni.Sweeper, error) {
	reader, err := look.New(look.Reader{
		Node: p, NodeRoot: cfg.NodeRoot, CacheDirs: []string{cfg.CNICacheDir}, DataDirs: []string{cfg.CNIDataDir},
		ConfDir: cfg.CNIConfDir, ConfDirSet: cfg.Named("cni_conf_dir"), Now: clock.Now,
	})
	if err != nil {
		return nil, err
	}
	remover, err := remove.Open(reader.Dirs, log)
	if err != nil {
		return nil, err
	}
	return &cni.Sweeper{
		Prober: reader, Remover: remover, Archive: remove.ArchiveStore{Store: store}, Ledger: store, Clock: clock, Meter: meter, Log: log,
	}, nil
}

// sweeperOf returns the sweeper of a reaper that newReaper has made.
func sweeperOf(r *reaper.Reaper) *cni.Sweeper {
	s, ok := r.CNI.(*cni.Sweeper)
	if !ok {
		return &cni.Sweeper{}
	}
	return s
}

// prober says of a root directory that is not there what every command says.
type prober struct {
	*probe.Probe
	cfg config.Config
}

// Look is the probe's.
func (p prober) Look(ctx context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	look, err := p.Probe.Look(ctx, parked, only)
	return look, noNode(p.cfg, err)
}

// Now tells the time as passes do; without a boot ID it is the wall clock's alone.
func Now() policy.Instant {
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
	if n := len(person.Unlisted(names, r.Ledger.Entries())); n > 0 {
		log.Warn("the ledger does not know all that lies in quarantine; it is left alone: orphan-reaper quarantine list", slog.Int("entries", n))
	}
}

// mostShown bounds the files of CNI that are told one by one, in the table and in JSON, of those
// that go and of those that stay: 300,000 in JSON took 2.4 GB. All of them are counted, and the
// archives have what was taken.
const mostShown = 1000

// Survey takes one look for scan and explain: a dry run on a state that is only read.
func Survey(ctx context.Context, cfg config.Config, uids []parsers.PodUID) (reaper.Report, error) {
	defer progress.From(ctx).End()
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
	sweeperOf(r).Files = mostShown
	rep, err := r.Pass(ctx, reaper.Options{DryRun: true, CNI: true, Only: uids, Claims: hear(ctx, cfg, r.Clock, log)})
	if err == nil {
		err = ctx.Err() // half of a look would pass for the whole
	}
	return rep, err
}

// errNoSource is for a configuration whose logs cannot be followed.
var errNoSource = fmt.Errorf("no log can be followed")

// closeQuietly closes what was synced already.
func closeQuietly(c io.Closer) { _ = c.Close() }
