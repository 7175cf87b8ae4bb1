package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// Pod is a pod that an argument of a command may name.
type Pod struct {
	UID  parsers.PodUID
	Name string // NAMESPACE/NAME, "" if it is not known
	// Certain marks a name from the runtime or the kubelet's log directories. Another name may come from etc-hosts, which
	// the pod's containers can write.
	Certain bool
	Where   string // for messages
	Entry   string // in quarantine, "" for any other place
	Past    bool   // only the ledger has it
}

// RootThere returns an error if the kubelet's root directory is known not to exist.
func RootThere(cfg config.Config) error {
	switch _, err := os.Stat(cfg.RootDir + "/."); {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Failf(noNodeHint, "cannot find the kubelet's root directory %s", cfg.RootDir)
	case errors.Is(err, unix.ENOTDIR):
		return exit.Failf(noNodeHint, "cannot find the kubelet's root directory %s: it is no directory", cfg.RootDir)
	}
	return nil
}

// NameThere reports whether the pods directory has an entry of this name, a pod's or any other.
func NameThere(cfg config.Config, name string) bool {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return false
	}
	_, err := os.Lstat(cfg.PodsDir() + "/" + name)
	return err == nil
}

const noNodeHint = "is this a Kubernetes node? --root-dir names the kubelet's root directory where it is another"

// noNode returns the error of RootThere in place of the error of a missing file.
func noNode(cfg config.Config, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	return cmp.Or(RootThere(cfg), exit.Failf(noNodeHint, "%w", err))
}

// PodsHere lists the pods of one look, of the quarantine and, with past, of the ledger: a pod once for each place. It reads no
// log, so it is faster than Look. It changes nothing.
func PodsHere(ctx context.Context, cfg config.Config, past bool) ([]Pod, error) {
	defer progress.From(ctx).End()
	n, err := open(ctx, cfg, options{})
	if err != nil {
		return nil, err
	}
	defer n.Close()
	rep, err := n.Reaper.Pass(ctx, reaper.Options{DryRun: true})
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for p := range policy.At(rep.Pods, policy.InPlace, policy.InRuntime) {
		where := "on disk"
		if p.RuntimeOnly {
			where = "only in the runtime"
		}
		if p.Living() {
			where += ", lives"
		}
		if p.UID != "" {
			pods = append(pods, Pod{UID: p.UID, Name: policy.FullName(p.Namespace, p.PodName), Certain: p.CertainName, Where: where})
		}
	}
	more, _ := unlisted(n.Reaper.Remover, n.Store) // what is done with the pod has the error, too
	for _, e := range append(rep.Entries, more...) {
		pods = append(pods, Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName), Where: "in quarantine", Entry: e.Entry})
	}
	if !past {
		return pods, nil
	}
	return append(pods, ledgersPods(n.Store)...), nil
}

// ledgersPods lists the pods of the ledger's records, each with its last name. It stops at an unreadable record: a whole UID
// needs no ledger.
func ledgersPods(store *state.Store) (pods []Pod) {
	at := map[parsers.PodUID]int{}
	for r, err := range store.Records() {
		if err != nil {
			break
		}
		if r.UID == "" {
			continue
		}
		if _, ok := at[r.UID]; !ok {
			at[r.UID] = len(pods)
			pods = append(pods, Pod{UID: r.UID, Where: "in the ledger", Past: true})
		}
		if name := r.FullName(); name != "" {
			pods[at[r.UID]].Name = name
		}
	}
	return pods
}
