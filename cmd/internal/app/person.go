package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Person is the operator who runs a command that changes something.
type Person struct {
	Stderr io.Writer // for records and log lines without a journal
	// Commands adds this call's flags to the commands in a text.
	Commands func(text string) string
	// LoginUID is the kernel's file with the user who logged in. SudoUser is $SUDO_USER, which any program can set.
	LoginUID, SudoUser string
}

// user returns the operator for the records, as far as the files can be read.
func (by Person) user(cfg config.Config) *policy.User {
	return policy.UserOf(firstMiB(by.LoginUID), firstMiB(filepath.Join(cfg.NodeRoot, "etc/passwd")), by.SudoUser)
}

// firstMiB returns the first MiB of a file, "" if it cannot be read.
func firstMiB(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer closeQuietly(f)
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20)) // what was read before an error counts
	return string(b)
}

// options returns the options of a command that changes something. Its records go where the daemon's go.
func (by Person) options(cfg config.Config, access Access) options {
	return options{
		access: access, by: by.user(cfg), log: newLogger(cfg, by.Stderr, logLevel(cfg)),
		recorder: newRecorder(cfg, by.Stderr, logLevel(cfg), by.Commands),
	}
}

// act opens the node for one command, and calls do.
func act[T any](ctx context.Context, by Person, cfg config.Config, do func(*Node) (T, error)) (result T, err error) {
	defer progress.From(ctx).End()
	n, err := open(ctx, cfg, by.options(cfg, Acts))
	if err != nil {
		return result, err
	}
	defer n.Close()
	return do(n)
}

// Restore puts a pod directory back, if it is one of the entries shown to the operator.
func (by Person) Restore(ctx context.Context, cfg config.Config, uid parsers.PodUID, shown []policy.EntryState) (policy.Outcome, error) {
	return act(ctx, by, cfg, func(n *Node) (policy.Outcome, error) {
		progress.From(ctx).Begin("putting the directory back", "", 0) // one rename
		return n.Reaper.Restore(ctx, uid, shown)
	})
}

// Purge permanently removes the entries shown to the operator. If a pod has more entries than those, it removes none of that
// pod. It removes entries of pods that live again only with force.
func (by Person) Purge(ctx context.Context, cfg config.Config, shown []policy.EntryState, force bool) ([]policy.Outcome, error) {
	return act(ctx, by, cfg, func(n *Node) (outs []policy.Outcome, err error) {
		progress.From(ctx).Begin("removing permanently", "entry", 0)
		var errs []error
		uids := make([]parsers.PodUID, 0, len(shown))
		for _, e := range shown {
			uids = append(uids, e.UID)
		}
		slices.Sort(uids)
		for some := range slices.Chunk(slices.Compact(uids), policy.BatchSize) {
			done, failed, err := n.Reaper.PurgeEntries(ctx, some, shown, force)
			outs, errs = append(outs, done...), append(errs, err)
			for _, uid := range slices.Sorted(maps.Keys(failed)) {
				last, readErr := LastOutcome(cfg, uid)
				if errors.Is(failed[uid], reaper.ErrNotThere) && readErr == nil && last.Kind == policy.KindRemoved { // by a concurrent purge
					gone := policy.Action{Kind: policy.Purge, UID: uid, Entry: last.Entry}
					outs = append(outs, policy.Outcome{Action: gone, Result: policy.Gone})
					continue
				}
				errs = append(errs, failed[uid])
			}
		}
		return outs, errors.Join(errs...)
	})
}

// Resume closes the breaker.
func (by Person) Resume(ctx context.Context, cfg config.Config) error {
	_, err := act(ctx, by, cfg, func(n *Node) (none struct{}, err error) { return none, n.Reaper.Resume(ctx) })
	return err
}

// Forget ends the protection of restored pods, and returns those pods.
func (by Person) Forget(ctx context.Context, cfg config.Config, uids []parsers.PodUID) ([]parsers.PodUID, error) {
	return act(ctx, by, cfg, func(n *Node) ([]parsers.PodUID, error) { return n.Reaper.Forget(ctx, uids) })
}

// RestoreCNI puts back the files of an archive, or those of one pod from all archives.
func (by Person) RestoreCNI(ctx context.Context, cfg config.Config, which string) (cni.Restored, error) {
	return by.actCNI(ctx, cfg, func(s *cni.Sweeper) (cni.Restored, error) { return s.Restore(ctx, which) })
}

// RestoreBatch puts back the files of all archives of one sweep.
func (by Person) RestoreBatch(ctx context.Context, cfg config.Config, batch string) (cni.Restored, error) {
	return by.actCNI(ctx, cfg, func(s *cni.Sweeper) (cni.Restored, error) { return s.RestoreBatch(ctx, batch) })
}

// DropArchive removes one archive of CNI files.
func (by Person) DropArchive(ctx context.Context, cfg config.Config, name string) error {
	_, err := by.actCNI(ctx, cfg, func(s *cni.Sweeper) (none cni.Restored, err error) { return none, s.Archive.DropArchive(name) })
	return err
}

// actCNI is act for CNI, with the ledger locked.
func (by Person) actCNI(ctx context.Context, cfg config.Config, do func(*cni.Sweeper) (cni.Restored, error)) (cni.Restored, error) {
	return act(ctx, by, cfg, func(n *Node) (done cni.Restored, err error) {
		err = n.Reaper.Locked(ctx, func() error {
			done, err = do(n.CNI)
			return err
		})
		return done, err
	})
}

// Sweep does the daemon's work once, for the pods in only, or for all if that is empty. With noWait it leaves pods that must
// wait to the next run. It writes the daemon's metrics file, because cron jobs run it in place of the daemon.
func (by Person) Sweep(ctx context.Context, cfg config.Config, version string, only []parsers.PodUID, noWait bool) (rep reaper.Report, err error) {
	work := progress.From(ctx)
	defer work.End()
	if _, err := CheckCredentials(ctx, cfg, time.Now()); err != nil {
		return reaper.Report{}, err
	}
	limitHeap()
	o := by.options(cfg, Runs)
	o.metrics = newMetricsFile(ctx, cfg, version, o.log, slog.LevelDebug)
	n, err := open(ctx, cfg, o)
	if err != nil {
		return reaper.Report{}, err
	}
	defer n.Close()
	return n.Reaper.Sweep(ctx, reaper.SweepOptions{
		Options: reaper.Options{Only: only},
		Read:    func(ctx context.Context) []reported.Claim { return recentClaims(ctx, cfg, n.Reaper.Clock, o.log) },
		NoWait:  noWait,
		Progress: func(rep reaper.Report, wait time.Duration) {
			work.Begin("waiting until "+rep.Look.At.Wall.Add(wait).UTC().Format(time.TimeOnly)+" UTC", "", 0)
		},
		Sleep: sleep,
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
