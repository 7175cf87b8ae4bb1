package packages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/await"
)

// tag begins the names of our cgroups.
const tag = "orpkg"

// What make test-packages says: the releases to boot, and where the packages lie: those of
// this tree, and the same with a higher version.
var (
	releases = strings.Fields(os.Getenv("PACKAGES_RELEASES"))
	dist     = os.Getenv("PACKAGES_DIST")
	next     = os.Getenv("PACKAGES_NEXT")
)

// place is where the suite's files lie; bin in it holds the stand-ins.
var place string

// The suite's words for how it waits.
var (
	eventually = await.Eventually
	throughout = await.Throughout
	missing    = await.Missing
)

// patience is how long a step may take here.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "packages:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// Killed with unshare(1), all mounts and processes of the suite are gone.
	if os.Getuid() != 0 || os.Getpid() != 1 || len(releases) == 0 {
		return 1, errors.New("run this as root with make test-packages")
	}
	if place, err = os.MkdirTemp("/var/tmp", "orphan-reaper-packages-"); err != nil {
		return 1, err
	}
	cgroups := filepath.Join(place, "cgroup")
	defer func() { err = errors.Join(err, unix.Unmount(cgroups, 0), os.RemoveAll(place)) }()
	if err := mountCgroups(cgroups); err != nil {
		return 1, err
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-o", filepath.Join(place, "kubelet"), "./standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("cannot build the stand-ins: %w\n%s", err, out)
	}
	code = m.Run()
	if code != 0 {
		keepLogs()
	}
	return code, nil
}

// mountCgroups mounts the cgroup file system, of which a machine may have none that is all
// version 2, and takes away what a run that was killed has left: cgroups without a process.
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
		for _, dir := range slices.Backward(below(top)) {
			errs = append(errs, unix.Rmdir(dir))
		}
	}
	return errors.Join(errs...)
}

// keepLogs saves the consoles and the journals of a run that failed where a person finds them.
func keepLogs() {
	to := filepath.Join("..", "..", ".cache", "packages", "logs")
	_ = os.RemoveAll(to)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return
	}
	logs, err := filepath.Glob(place + "/*/*.log")
	if err != nil {
		return
	}
	for _, log := range logs {
		if b, err := os.ReadFile(log); err == nil {
			_ = os.WriteFile(filepath.Join(to, filepath.Base(filepath.Dir(log))+"-"+filepath.Base(log)), b, 0o600)
		}
	}
	_, _ = fmt.Fprintln(os.Stderr, "packages: the logs are in .cache/packages/logs")
}

// everywhere runs a test on each release, all at once.
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

// steps goes through them; each stands on those before.
func steps(t *testing.T, n *node, all []step) {
	t.Helper()
	for _, s := range all {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, n) }) {
			return
		}
	}
}

// below are the directory and all below it, parents first.
func below(top string) []string {
	var all []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// lay writes a file that everybody in the guest may read.
func lay(t *testing.T, path, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
