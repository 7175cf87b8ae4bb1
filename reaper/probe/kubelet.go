package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// defaultRootDir is the kubelet's own default of --root-dir.
const defaultRootDir = "/var/lib/kubelet"

// kubelet is one running kubelet, alone or inside a larger program.
type kubelet struct {
	id      policy.KubeletID
	parent  int
	name    string   // kubelet, hyperkube, k3s, kubelite
	args    []string // its command line after the name
	flags   flags    // what the kubelet itself is given
	rootDir string
	rootErr error // why rootDir is not known
	script  bool  // an interpreter that runs a script of that name
}

// findKubelet says whether one kubelet with our root directory runs, and which: nil where
// that is not known. It returns in bounded time whatever hangs.
func (p *Probe) findKubelet(ctx context.Context) (policy.Fact, *kubelet) {
	type found struct {
		k   *kubelet
		err error
	}
	f, err := guarded(ctx, &p.guard, "kubelet", p.patience, func() found {
		k, err := oneKubelet(p.cfg.ProcDir, p.cfg.RootDir)
		return found{k, err}
	})
	if err == nil {
		err = f.err
	}
	fact := policy.Fact{Origin: p.cfg.ProcDir}
	switch {
	case err != nil:
		fact.Detail = fmt.Sprintf("cannot tell which kubelet runs: %v", err)
		return fact, nil
	case f.k == nil:
		fact.Truth, fact.Detail = policy.No, "no kubelet runs with the root directory "+p.cfg.RootDir
		return fact, nil
	}
	fact.Truth, fact.Detail = policy.Yes, f.k.String()
	return fact, f.k
}

// String describes it for people.
func (k kubelet) String() string {
	return fmt.Sprintf("%s, PID %d, root directory %s", k.name, k.id.PID, k.rootDir)
}

// oneKubelet returns the kubelet that has the root directory, nil where there is none,
// and an error where there may be several or where it cannot be told.
func oneKubelet(procDir, rootDir string) (*kubelet, error) {
	all, err := scanner{procDir: procDir}.kubelets()
	if err != nil {
		return nil, err
	}
	var ours []*kubelet
	for _, k := range all {
		same, err := k.hasRoot(rootDir)
		if err != nil {
			return nil, err
		}
		if same {
			ours = append(ours, k)
		}
	}
	switch len(ours) {
	case 0:
		return nil, nil //nolint:nilnil // no kubelet is an answer, not an error
	case 1:
		return ours[0], nil
	}
	return nil, fmt.Errorf("several kubelets run with the root directory %s: PIDs %s", rootDir, pids(ours))
}

func pids(ks []*kubelet) string {
	var list []string
	for _, k := range ks {
		list = append(list, fmt.Sprint(k.id.PID))
	}
	return strings.Join(list, " and ")
}

// hasRoot says whether its root directory is dir, by whatever path. Only where the paths
// differ is the disk asked, and then whether both are the same directory: that holds
// through symlinks, and through the kubelet's bind mount of its root on itself.
func (k kubelet) hasRoot(dir string) (bool, error) {
	if k.rootErr != nil {
		return false, fmt.Errorf("root directory of %s (PID %d): %w", k.name, k.id.PID, k.rootErr)
	}
	if filepath.Clean(k.rootDir) == filepath.Clean(dir) {
		return true, nil
	}
	theirs, err := os.Stat(k.rootDir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // it sees another tree than we, so it is no kubelet of ours
	}
	if err != nil {
		return false, err
	}
	ours, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(theirs, ours), nil
}

// KubeletRootDir finds the root directory of the kubelet that runs on this node, for the
// default of --root-dir, and words that say where it comes from. With no kubelet running
// it is the kubelet's own default. Kubelets with different root directories are an error:
// only a person can choose.
func KubeletRootDir(ctx context.Context, procDir string) (dir, from string, err error) {
	type found struct {
		ks  []*kubelet
		err error
	}
	f, err := guarded(ctx, new(guard), "kubelet", startPatience, func() found {
		ks, err := scanner{procDir: procDir}.kubelets()
		return found{ks, err}
	})
	if err == nil {
		err = f.err
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot look for the kubelet: %w; set --root-dir", err)
	}
	var first *kubelet
	for _, k := range f.ks {
		switch {
		case k.rootErr != nil:
			return "", "", fmt.Errorf("cannot tell the root directory of %s (PID %d): %w; set --root-dir", k.name, k.id.PID, k.rootErr)
		case first == nil:
			first = k
		default:
			if same, err := k.hasRoot(first.rootDir); err != nil || !same {
				return "", "", fmt.Errorf("several kubelets run: %s; %s; set --root-dir", first, k)
			}
		}
	}
	if first == nil {
		return defaultRootDir, "the kubelet's default; no kubelet runs", nil
	}
	return first.rootDir, fmt.Sprintf("the running %s, PID %d", first.name, first.id.PID), nil
}
