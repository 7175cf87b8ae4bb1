package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// These are the times of this suite. The kubelet makes a living pod's directory again at its next sync, up to 1.5
// times its syncFrequency later, which is 1 min by default; so the default --confirm is 2 min, and with a
// syncFrequency of 5 s, 20 s are equivalent.
const (
	syncFrequency = "5s"
	confirm       = 20 * time.Second
	hold          = 5 * time.Second
)

// versions are the kubelets of the run; E2E_VERSIONS selects them, make e2e builds them.
var versions = strings.Fields(os.Getenv("E2E_VERSIONS"))

// machine is the host that the suite must restore.
var machine *host

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		_, _ = fmt.Fprintln(os.Stderr, "e2e: run this as root with make e2e")
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	machine, err = newHost()
	if err != nil {
		return 1, err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-stop
		_, _ = fmt.Fprintln(os.Stderr, "e2e: cut short;", machine.restore())
		os.Exit(1)
	}()
	if err := errors.Join(build(machine.dir), mountNetns()); err != nil {
		return 1, errors.Join(err, machine.restore())
	}
	if err := chooseSnapshotter(machine.dir); err != nil {
		return 1, errors.Join(err, machine.restore())
	}
	code = m.Run()
	left := machine.left()
	if code != 0 {
		kit.KeepLogs("e2e", machine.dir+"/*/*.log", filepath.Join("..", ".cache", "e2e", "logs"))
	}
	if err := machine.restore(); err != nil {
		return 1, err
	}
	if left = append(left, machine.changed()...); len(left) > 0 {
		return 1, fmt.Errorf("residue of the suite:\n  %s", strings.Join(left, "\n  "))
	}
	return code, nil
}

// mountNetns has ip-netns(8) mount the directory of the network namespaces on itself, as it does once. Done later, it would
// mount all of a runtime a second time.
func mountNetns() error {
	for _, do := range []string{"add", "delete"} {
		if out, err := exec.Command("ip", "netns", do, "cni-"+tag+"m").CombinedOutput(); err != nil {
			return fmt.Errorf("ip netns %s: %w %s", do, err, out)
		}
	}
	return nil
}

// snapshotter is the variable that selects the snapshotter for ctr(8).
const snapshotter = "CONTAINERD_SNAPSHOTTER"

// chooseSnapshotter keeps containerd's default unless dir is on an overlay itself, as in a container: an overlay
// cannot have its upper layer there.
func chooseSnapshotter(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return os.Setenv(snapshotter, "native")
	}
	return os.Setenv(snapshotter, "overlayfs")
}

// build copies the program of ORPHAN_REAPER_PROGRAM or builds it, builds testdata/node, and makes the image that the pods run.
func build(dir string) error {
	programs := []struct{ in, name, pkg string }{{".", "pause", "./pause"}, {"..", "node", "./testdata/node"}}
	if program := os.Getenv("ORPHAN_REAPER_PROGRAM"); program == "" {
		programs = append(programs, struct{ in, name, pkg string }{"..", "orphan-reaper", "./cmd/orphan-reaper"})
	} else if out, err := exec.Command("cp", program, filepath.Join(dir, "orphan-reaper")).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy ORPHAN_REAPER_PROGRAM: %w\n%s", err, out)
	}
	for _, c := range programs {
		cmd := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace,nethttpomithttp2", "-o", filepath.Join(dir, c.name), c.pkg)
		cmd.Dir = c.in
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", c.name, err, out)
		}
	}
	if err := image.Write(filepath.Join(dir, "image.tar"), filepath.Join(dir, "pause")); err != nil {
		return err
	}
	if err := writeDaemonImage(dir); err != nil {
		return fmt.Errorf("cannot make the daemon's image: %w", err)
	}
	return nil
}

// TestBesideKubelets runs the scenarios beside all kubelets at once, each with a runtime of its own. The scenarios of
// one kubelet follow each other, and each begins and ends with the same living pods, which must not be affected.
func TestBesideKubelets(t *testing.T) {
	t.Parallel()
	if len(versions) == 0 {
		t.Fatal("E2E_VERSIONS names no kubelet; make e2e does")
	}
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			beside(t, newNode(t, machine, version, i))
		})
	}
}

func beside(t *testing.T, n *node) {
	living := n.livingPods(t)
	for _, p := range living {
		n.run(t, p)
	}
	waiting := n.waitingPod(t)
	n.run(t, waiting)
	eventually(t, 90*time.Second, func() string {
		if !n.kubelet.Running() {
			return "the kubelet has ended: " + n.kubelet.Tail(5)
		}
		for _, p := range living {
			if m := n.beating(p); m != "" {
				return m + "\n" + n.kubelet.Tail(3)
			}
		}
		return missing(exists(filepath.Join(n.pods, waiting.uid)), "no directory of the pod that waits")
	})
	before := n.census(living)
	for _, scenario := range []struct {
		name  string
		short bool // make e2e-short runs it
		run   func(*testing.T, *node)
	}{
		{"leftovers", true, leftovers},
		{"returning", true, returning},
		{"restarts", false, restarts},
		{"busy", false, busy},
		{"lost", true, lost},
		{"successor", true, successor},
		{"cni", true, cniLeft},
		{"backlog", false, backlog},
		{"hidden", true, hidden},
		{"runtime", false, runtimeFails},
		{"alive", true, alive},
		{"daemonset", true, daemonset},
	} {
		if engine == crio && !besideCRIO[scenario.name] || testing.Short() && !scenario.short {
			continue
		}
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, n) })
		n.sameLife(t, before, living)
	}
	t.Run("reboot", func(t *testing.T) { reboot(t, n, append(living, waiting)) })
}
