package packages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// tag is the prefix of our cgroups' names.
const tag = "orpkg"

// The parameters from make test-packages: the releases to boot, and the directories of the packages of this tree, of the
// same with a higher version, and of what trees.sh makes.
var (
	releases = strings.Fields(os.Getenv("PACKAGES_RELEASES"))
	dist     = os.Getenv("PACKAGES_DIST")
	next     = os.Getenv("PACKAGES_NEXT")
	trees    = os.Getenv("PACKAGES_TREES")
)

// place is the directory of the suite's files. It is also its lock: two runs at once would treat each other's cgroups
// as residue.
const place = "/var/tmp/orphan-reaper-packages"

// patience is the time limit of a step.
const patience = 40 * time.Second

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "packages:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// If it is killed below unshare(1), all mounts and processes of the suite disappear.
	if os.Getuid() != 0 || os.Getpid() != 1 || len(releases) == 0 {
		return 1, errors.New("run this as root with make test-packages")
	}
	lock, err := kit.TakePlace(place)
	if err != nil {
		return 1, err
	}
	defer func() { _ = lock.Close() }()
	cgroups := filepath.Join(place, "cgroup")
	defer func() { err = errors.Join(err, unix.Unmount(cgroups, 0), os.RemoveAll(place)) }()
	if err := mountCgroups(cgroups); err != nil {
		return 1, err
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace,nethttpomithttp2", "-o", filepath.Join(place, "kubelet"), "./standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("cannot build the stand-in: %w\n%s", err, out)
	}
	code = m.Run()
	if code != 0 {
		kit.KeepLogs("packages", place+"/*/*.log", filepath.Join(trees, "logs"))
	}
	return code, nil
}

// mountCgroups mounts the cgroup file system, since a machine may have none of version 2 only, and removes the
// residue of a killed run: cgroups without a process.
func mountCgroups(on string) error {
	if err := errors.Join(os.Mkdir(on, 0o755), unix.Mount("cgroup2", on, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")); err != nil {
		return fmt.Errorf("cannot mount cgroup2: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(on, tag+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range left {
		for _, dir := range slices.Backward(kit.Below(top)) {
			errs = append(errs, unix.Rmdir(dir))
		}
	}
	return errors.Join(errs...)
}

// everywhere runs a test on all releases at once.
func everywhere(t *testing.T, test func(t *testing.T, release string)) {
	t.Helper()
	t.Parallel()
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			test(t, release)
		})
	}
}

// step is one of several on one node.
type step struct {
	name string
	run  func(*testing.T, *node)
}

// steps runs the steps in order; each depends on the earlier ones.
func steps(t *testing.T, n *node, all []step) {
	t.Helper()
	for _, s := range all {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, n) }) {
			return
		}
	}
}
