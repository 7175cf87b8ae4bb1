package packages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guest is a Debian that has booted in a container, with a systemd of its own as PID 1 and its journald. Its
// changes are in a tmpfs over the tree that trees.sh made.
type guest struct {
	dir    string
	cmd    *exec.Cmd
	done   chan struct{}
	leader int // its PID 1, as we see it
}

// setUp prepares the container, in a mount namespace of its own: a cgroup file system that is all version 2,
// whatever this machine has, and the tree. The layer is what an administrator has installed.
const setUp = `set -e
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd
mount -t tmpfs -o mode=0755 tmpfs /run/systemd
mount -t tmpfs -o mode=0755 tmpfs "$1/over"
mkdir -m 0755 "$1/over/upper" "$1/over/work"
mount -t overlay -o "lowerdir=$1/layer:$2,upperdir=$1/over/upper,workdir=$1/over/work" overlay "$1/root"
exec systemd-nspawn --boot --register=no --keep-unit --private-network --console=pipe \
	--link-journal=no --resolv-conf=off --timezone=off --machine=orpkg --directory="$1/root" \
	--system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self'
`

// boot starts the guest and waits until its systemd has started its units. The layer is in dir already.
func boot(t *testing.T, release, dir string) *guest {
	t.Helper()
	tree, err := filepath.Abs(treeOf(release))
	if err != nil {
		t.Fatal(err)
	}
	if !exists(tree) {
		t.Fatalf("%s is not there; make test-packages makes it", tree)
	}
	for _, name := range []string{"over", "root"} {
		mkdir(t, filepath.Join(dir, name))
	}
	g := &guest{dir: dir, done: make(chan struct{})}
	cgroup := g.cgroup(t)
	defer func() { _ = cgroup.Close() }()
	log, err := os.OpenFile(filepath.Join(dir, "console.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	g.cmd = exec.Command("sh", "-c", setUp, "sh", dir, tree)
	g.cmd.Stdout, g.cmd.Stderr = log, log
	// Unshareflags makes all mounts private, too (syscall.SysProcAttr); a session of its own
	// keeps the guest from our terminal.
	g.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Unshareflags: unix.CLONE_NEWNS, UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	g.cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "SYSTEMD_LOG_LEVEL=info"}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(g.done)
		_ = g.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() { g.stop(t) })
	eventually(t, time.Minute, func() string {
		if !g.running() {
			t.Fatalf("the guest has not booted: %s", g.tail())
		}
		if g.leader == 0 {
			g.leader = firstOf(g.cmd.Process.Pid)
		}
		if g.leader == 0 || !exists(g.path("/run/systemd/private")) {
			return "no systemd: " + g.tail()
		}
		out, _ := g.try("systemctl", "is-system-running") // degraded is an exit code, too
		return missing(out == "running" || out == "degraded", "it is %s: %s", out, g.tail())
	})
	return g
}

// firstOf returns the child that is PID 1 of a PID namespace below, 0 where there is none.
func firstOf(parent int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return 0
	}
	for child := range strings.FieldsSeq(string(b)) {
		status, err := os.ReadFile("/proc/" + child + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == "1" {
				pid, err := strconv.Atoi(child)
				if err == nil {
					return pid
				}
			}
		}
	}
	return 0
}

func (g *guest) cgroup(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(mkdir(t, g.ownCgroup()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The kernel removes a process from its cgroup a moment after it has ended.
		eventually(t, 10*time.Second, func() string {
			for _, dir := range slices.Backward(below(g.ownCgroup())) {
				if err := unix.Rmdir(dir); err != nil {
					return err.Error()
				}
			}
			return ""
		})
	})
	return f
}

func (g *guest) ownCgroup() string {
	return filepath.Join(place, "cgroup", tag+"-"+filepath.Base(g.dir))
}

// stop shuts the guest down, and if that does not help, kills it like a power cut.
func (g *guest) stop(t *testing.T) {
	t.Helper()
	if t.Failed() {
		g.keepJournal()
	}
	if g.leader != 0 && g.running() {
		const powerOff = 34 + 4 // SIGRTMIN+4 (systemd(1), Signals)
		_ = unix.Kill(g.leader, powerOff)
		select {
		case <-g.done:
			return
		case <-time.After(30 * time.Second):
			t.Errorf("the guest did not stop within 30 s of SIGRTMIN+4: %s", g.tail())
		}
	}
	// With PID 1 the kernel ends all of its namespace (pid_namespaces(7)), and systemd-nspawn waits for it;
	// then all processes that are still in the cgroup.
	if g.leader != 0 {
		_ = unix.Kill(g.leader, unix.SIGKILL)
		select {
		case <-g.done:
		case <-time.After(10 * time.Second):
		}
	}
	for range 100 {
		pids := g.inCgroup()
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
	}
	<-g.done
}

func (g *guest) running() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// tail returns the end of the console's output.
func (g *guest) tail() string {
	b, err := os.ReadFile(filepath.Join(g.dir, "console.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// inCgroup are the guest's processes.
func (g *guest) inCgroup() []int {
	var pids []int
	for _, dir := range below(g.ownCgroup()) {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for s := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(s); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// keepJournal writes the guest's journal beside the console's output, where keepLogs finds it.
func (g *guest) keepJournal() {
	if g.leader == 0 {
		return
	}
	out, _ := g.try("journalctl", "--no-pager", "-o", "short-precise")
	_ = os.WriteFile(filepath.Join(g.dir, "journal.log"), []byte(out), 0o600)
}

// path is a path of the guest as we can use it: /proc/PID/root leads into its mount
// namespace (proc_pid_root(5)). No symlink in it may be absolute.
func (g *guest) path(path string) string {
	return filepath.Join("/proc", strconv.Itoa(g.leader), "root", path)
}

// try runs a command in all the guest's namespaces, and returns its output without the end of line. It remains
// in our cgroup, so journald assigns it to no unit.
func (g *guest) try(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(g.leader), "--all", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, e.Stderr, out)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// run is try for what must go well.
func (g *guest) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := g.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unit runs a command as a unit of its own: systemd-run(1) keeps the exit code.
func (g *guest) unit(t *testing.T, args ...string) string {
	t.Helper()
	return g.run(t, append([]string{"systemd-run", "--wait", "--pipe", "--collect", "--quiet"}, args...)...)
}
