package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// The parameters from make e2e-cluster: the programs of Kubernetes, the Debian to boot, helm, and the program under test.
var (
	bin     = os.Getenv("CLUSTER_BIN")
	tree    = os.Getenv("CLUSTER_TREE")
	helm    = os.Getenv("CLUSTER_HELM")
	program = os.Getenv("CLUSTER_PROGRAM")
)

const (
	root  = "../.."
	chart = root + "/packaging/chart"
	// place is the directory of the suite's files and its lock.
	place = "/var/tmp/orphan-reaper-cluster"
	// prefix is that of our cgroups' names.
	prefix = "orcluster"
	// imageTag is the tag of the daemon's image.
	imageTag = "e2e"
	// patience is the time limit of a step.
	patience = 2 * time.Minute
)

// Short names of what the suites share.
var (
	eventually = kit.Eventually
	throughout = kit.Throughout
	missing    = kit.Missing
	mkdir      = kit.Mkdir
	exists     = kit.Exists
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "cluster:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// If it is killed below unshare(1), all mounts, links and processes of the suite disappear.
	if os.Getuid() != 0 || os.Getpid() != 1 || bin == "" {
		return 1, errors.New("run this as root with make e2e-cluster")
	}
	lock, err := kit.TakePlace(place)
	if err != nil {
		return 1, err
	}
	defer func() { _ = lock.Close() }()
	if err := dropCgroups("*"); err != nil { // of a killed run
		return 1, err
	}
	defer func() { err = errors.Join(err, dropCgroups("*"), os.RemoveAll(place)) }()
	if err := build(); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		kit.KeepLogs("cluster", place+"/logs/*", filepath.Join(filepath.Dir(bin), "logs", "cluster"))
	}
	return code, nil
}

// build makes the images: the one that the pods run, and the daemon's.
func build() error {
	images, content := filepath.Join(place, "images"), filepath.Join(place, "image")
	for _, dir := range []string{images, content} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	pause := filepath.Join(place, "pause")
	cmd := exec.Command("go", "build", "-trimpath", "-o", pause, root+"/e2e/pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build pause: %w\n%s", err, out)
	}
	if err := image.Write(filepath.Join(images, "pause.tar"), pause); err != nil {
		return err
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(content, "orphan-reaper"), b, 0o755); err != nil {
		return err
	}
	cmd = exec.Command("sh", root+"/packaging/image.sh", imageTag, "0", "", "", runtime.GOARCH+"="+content)
	cmd.Stderr = os.Stderr
	made, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot make the daemon's image: %w", err)
	}
	return os.WriteFile(filepath.Join(images, imageTag+".tar"), made, 0o600)
}

// dropCgroups removes the cgroups of a node from every hierarchy; they have no process.
func dropCgroups(node string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/" + prefix + "-" + node)
	if err != nil {
		return err
	}
	v1, err := filepath.Glob("/sys/fs/cgroup/*/" + prefix + "-" + node)
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range append(tops, v1...) {
		all := kit.Below(top)
		for i := range all {
			if err := unix.Rmdir(all[len(all)-1-i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("cannot remove %s: %w", all[len(all)-1-i], err))
			}
		}
	}
	return errors.Join(errs...)
}

// lay writes a file and the directories above it.
func lay(t *testing.T, path, text string) string {
	t.Helper()
	return kit.Lay(t, path, text, 0o600)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// command runs a command to its end, and returns its output without the end of line.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "HOME=" + place}
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, e.Stderr, out)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
