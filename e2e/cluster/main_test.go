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

// The parameters from make e2e-cluster: the programs of Kubernetes, the Debian to boot, helm, and the program
// under test.
var (
	bin     = os.Getenv("CLUSTER_BIN")
	tree    = os.Getenv("CLUSTER_TREE")
	helm    = os.Getenv("CLUSTER_HELM")
	program = os.Getenv("CLUSTER_PROGRAM")
)

// place is the directory of the suite's files and its lock.
const place = "/var/tmp/orphan-reaper-cluster"

// tag is the prefix of our cgroups' names.
const tag = "orcluster"

// patience is the time limit of a step.
const patience = 2 * time.Minute

// Short names of what the suites share.
var (
	eventually = kit.Eventually
	throughout = kit.Throughout
	missing    = kit.Missing
	below      = kit.Below
	mkdir      = kit.Mkdir
	exists     = kit.Exists
)

// steps are the scenarios, in order.
var steps = []struct {
	name string
	run  func(*testing.T, *cluster)
}{
	{"the daemons become ready", ready},
	{"pods end", end},
	{"a mount after the daemon's start", mountedLater},
	{"the daemon's token is refused", refused},
	{"a certificate by helm", certified},
	{"the Job sweeps", swept},
	{"a kubeconfig", kubeconfig},
	{"a kubelet that is not heard", deaf},
	{"orphans of real pods", reaped},
	{"the API server down and up", away},
	{"upgrade and drain", rollout},
}

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
	if err := dropCgroups(); err != nil { // of a killed run
		return 1, err
	}
	defer func() { err = errors.Join(err, dropCgroups(), os.RemoveAll(place)) }()
	if err := build(); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		kit.KeepLogs("cluster", place+"/logs/*", filepath.Join(filepath.Dir(bin), "logs", "cluster"))
	}
	for _, line := range shown {
		_, _ = fmt.Println(line)
	}
	return code, nil
}

// shown is the summary at the end of the run.
var shown []string

// timed adds the duration of a part to the summary.
func timed(what string, do func()) {
	began := time.Now()
	do()
	shown = append(shown, fmt.Sprintf("%6.1f s %s", time.Since(began).Seconds(), what))
}

func TestCluster(t *testing.T) {
	var c *cluster
	timed("start of the cluster", func() { c = newCluster(t) })
	timed("helm install", func() { c.install(t) })
	before := c.startLiving(t)
	for _, s := range steps {
		timed(s.name, func() { t.Run(s.name, func(t *testing.T) { s.run(t, c) }) })
		c.sameLife(t, before)
	}
}

// build makes the images: the one that the pods run, and the daemon's under the tags before and after an upgrade.
func build() error {
	pause, images := filepath.Join(place, "pause"), filepath.Join(place, "images")
	if err := os.Mkdir(images, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", pause, "../pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build pause: %w\n%s", err, out)
	}
	if err := image.Write(filepath.Join(images, "pause.tar"), pause); err != nil {
		return err
	}
	content := filepath.Join(place, "image")
	if err := os.Mkdir(content, 0o755); err != nil {
		return err
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(content, "orphan-reaper"), b, 0o755); err != nil {
		return err
	}
	for _, version := range []string{tagBefore, tagAfter} {
		cmd := exec.Command("sh", "../../packaging/image.sh", version, "0", "", "", runtime.GOARCH+"="+content)
		cmd.Stderr = os.Stderr
		image, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("cannot make the daemon's image: %w", err)
		}
		if err := os.WriteFile(filepath.Join(images, version+".tar"), image, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// dropCgroups removes our cgroups from every hierarchy; they contain no process.
func dropCgroups() error { return dropCgroupsOf("*") }

func dropCgroupsOf(node string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/" + tag + "-" + node)
	if err != nil {
		return err
	}
	v1, err := filepath.Glob("/sys/fs/cgroup/*/" + tag + "-" + node)
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range append(tops, v1...) {
		all := below(top)
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
