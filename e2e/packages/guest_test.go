package packages

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// guest is a Debian whose changes are in a tmpfs over the tree made by trees.sh.
type guest struct {
	kit.Machine

	dir string
}

// setUp prepares the container, in a mount namespace of its own: a cgroup file system of version 2 only, whatever
// this machine has, and the tree. The layer has the administrator's files.
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

// boot starts the guest and waits until its systemd has started its units. The layer is already in dir.
func boot(t *testing.T, release, dir string) *guest {
	t.Helper()
	tree := filepath.Join(trees, release)
	if !kit.Exists(tree) {
		t.Fatalf("%s does not exist; make test-packages makes it", tree)
	}
	for _, name := range []string{"over", "root"} {
		kit.Mkdir(t, filepath.Join(dir, name))
	}
	g := &guest{dir: dir}
	cgroup := g.cgroup(t)
	defer func() { _ = cgroup.Close() }()
	g.Machine = kit.Boot(t, filepath.Join(dir, "console.log"), unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())},
		"-c", setUp, "sh", dir, tree)
	t.Cleanup(func() { g.stop(t) })
	g.Booted(t, time.Minute)
	return g
}

func (g *guest) cgroup(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(kit.Mkdir(t, g.ownCgroup()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The kernel removes a process from its cgroup shortly after its end.
		kit.Eventually(t, 10*time.Second, func() string {
			for _, dir := range slices.Backward(kit.Below(g.ownCgroup())) {
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

// stop shuts the guest down, or kills it like a power cut if that fails.
func (g *guest) stop(t *testing.T) {
	t.Helper()
	if t.Failed() {
		g.KeepJournal(filepath.Join(g.dir, "journal.log"))
	}
	if g.Leader != 0 && g.Running() {
		const powerOff = 34 + 4 // SIGRTMIN+4 (systemd(1), Signals)
		_ = unix.Kill(g.Leader, powerOff)
		select {
		case <-g.Done:
			return
		case <-time.After(30 * time.Second):
			t.Errorf("the guest did not stop within 30 s of SIGRTMIN+4: %s", g.Tail(20))
		}
	}
	// When PID 1 ends, the kernel ends its whole namespace (pid_namespaces(7)), and systemd-nspawn waits for it; then
	// for all processes that are still in the cgroup.
	if g.Leader != 0 {
		_ = unix.Kill(g.Leader, unix.SIGKILL)
		select {
		case <-g.Done:
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
	<-g.Done
}

// inCgroup returns the guest's processes.
func (g *guest) inCgroup() []int {
	var pids []int
	for _, dir := range kit.Below(g.ownCgroup()) {
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
