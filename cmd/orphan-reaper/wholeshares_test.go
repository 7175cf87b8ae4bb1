package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeShares checks that one other user's excess of something is a doubt about no other pod and fits into the
// unit's memory limit. Each row is a reader of data that processes control; without a share per user it exceeds a
// look's time or memory.
func TestWholeShares(t *testing.T) {
	testkit.NeedUsers(t)
	testkit.NeedProcesses(t)
	group := newMemoryGroup(t)
	for _, row := range []struct {
		reader, kind, what string
		most               int64 // MiB of a look, if memory is limited
	}{
		{"descriptors", "bytes", "fds 60 long", 512},
		{"descriptors", "entries", "fds 400 short", 512},
		{"descriptors", "time", "fds 40 slow", 512},
		{"cwd, root, exe", "time", "threads 400", 512},
		{"maps", "bytes", "maps 12 60000 long", 16},
		{"maps", "line", "deep 80000", 512},
		{"maps", "entries", "files 110000", 512},
		{"maps", "time", "maps 16 60000 slow", 512},
		{"mountinfo", "bytes", "mounts 10 20000 long", 64},
		{"mountinfo", "entries", "mounts 30 60000 short", 512},
		{"mountinfo", "time", "mounts 12 20000 slow", 512},
		{"pod directories", "entries", "names 300000", 64},
	} {
		t.Run(row.reader+", "+row.kind, func(t *testing.T) {
			n := newWholeNode(t)
			testkit.Mount(t, "tmpfs", n.path("root"), "tmpfs", 0, "mode=0755,size=4g")
			n.pod(1, false)
			n.open()
			began := time.Now()
			n.hostile(t, row.what)
			made := time.Since(began)
			began = time.Now()
			out, code := group.run(n, "sweep", "--dry-run", "-o", "json")
			took, peak := time.Since(began), group.peak()>>20
			t.Logf("%s: made in %s; a look takes %s and %d MiB", row.what, made.Round(time.Millisecond), took.Round(time.Millisecond), peak)
			if got := n.outcomes(out)[wholeUID(1)]; code != 0 && code != 3 || got != "would-remove" || peak > row.most {
				t.Errorf("exit %d, %q, %d MiB of %d: %s", code, got, peak, row.most, out)
			}
		})
	}
}

const unitMemory = 512 << 20

// memoryGroup is a memory cgroup of its own, of either version.
type memoryGroup struct {
	t                           *testing.T
	dir, below, limit, peakFile string
}

func newMemoryGroup(t *testing.T) *memoryGroup {
	t.Helper()
	var why error
	for _, g := range []memoryGroup{
		{t: t, dir: "/sys/fs/cgroup", below: "cgroup", limit: "memory.max", peakFile: "memory.peak"},
		{t: t, dir: "/sys/fs/cgroup/memory", below: "cgroup/memory", limit: "memory.limit_in_bytes", peakFile: "memory.max_usage_in_bytes"},
	} {
		name := fmt.Sprintf("/orphan-reaper-test-%d", os.Getpid())
		g.dir, g.below = g.dir+name, g.below+name
		if why = os.Mkdir(g.dir, 0o755); why != nil {
			continue
		}
		t.Cleanup(func() { testkit.Must(t, os.Remove(g.dir)) })
		if why = setTo(g.dir+"/"+g.limit, unitMemory); why == nil {
			return &g
		}
	}
	testkit.Skip(t, "no memory cgroup is available: ", why)
	return nil
}

// setTo writes a number into a file of the kernel.
func setTo(file string, n int) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(n))
	return errors.Join(err, f.Close())
}

// run runs the program in the group, with a cgroup root that has its limit.
func (g *memoryGroup) run(n *wholeNode, args ...string) (stdout string, code int) {
	n.t.Helper()
	n.write(g.below+"/"+g.limit, strconv.Itoa(unitMemory))
	_ = setTo(g.dir+"/"+g.peakFile, 0) // if the kernel supports it
	cmd := n.command(args...)
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, g.dir + "/cgroup.procs", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	stdout, stderr, code := outputOf(n.t, cmd)
	if code < 0 {
		n.t.Fatalf("%v: %s\n%s", args, cmd.ProcessState, stderr)
	}
	return stdout, code
}

func (g *memoryGroup) peak() int64 {
	text, err := os.ReadFile(g.dir + "/" + g.peakFile)
	if err != nil {
		return 0 // before Linux 5.19
	}
	peak, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return peak
}

// open lets other users reach the node's directory.
func (n *wholeNode) open() {
	n.t.Helper()
	for dir := n.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		testkit.Must(n.t, os.Chmod(dir, 0o755))
	}
}

const (
	hostileEnv = "ORPHAN_REAPER_TEST_HOSTILE"
	stranger   = 65534
)

// hostile runs user 65534's program in a directory of its own until the test ends. Mounts are made in a user
// namespace, and files in an emptyDir of another dead pod.
func (n *wholeNode) hostile(t *testing.T, what string) {
	t.Helper()
	dir := n.path("root/stranger")
	if strings.HasPrefix(what, "names") {
		n.pod(2, false)
		dir = n.path("root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~empty-dir/d")
	}
	testkit.Must(n.t, os.MkdirAll(dir, 0o755))
	testkit.Must(n.t, os.Chown(dir, stranger, stranger))
	cmd := exec.CommandContext(context.WithoutCancel(n.t.Context()), "/proc/self/exe")
	cmd.Env = append(os.Environ(), hostileEnv+"="+what)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if strings.HasPrefix(what, "mounts") {
		one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: stranger, Size: 1}}
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = one, one
		cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
	}
	testkit.UntilReady(t, cmd)
}

func init() {
	words := strings.Fields(os.Getenv(hostileEnv))
	if len(words) == 0 {
		return
	}
	if err := errors.Join(beStranger(), hostile(words[0], words[1:])); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	testkit.WaitToEnd()
}

func beStranger() error {
	if os.Getuid() == 0 && !inUserNamespace() {
		var lim unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &lim)
		most := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &most) != nil { // needs CAP_SYS_RESOURCE
			lim.Cur = lim.Max
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
		}
		return errors.Join(syscall.Setgroups(nil), syscall.Setgid(stranger), syscall.Setuid(stranger))
	}
	return nil
}

func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Fields(string(text))[1] == strconv.Itoa(stranger)
}

func hostile(what string, args []string) error {
	number := func(i int) int { n, _ := strconv.Atoi(args[i]); return n }
	switch what {
	case "fds":
		return hostileFDs(number(0), args[1])
	case "threads":
		return hostileThreads(number(0))
	case "maps":
		return hostileMaps(number(0), number(1), args[2])
	case "files":
		return hostileFiles(number(0))
	case "mounts":
		return hostileMounts(number(0), number(1), args[2])
	case "deep":
		return errors.Join(deepest(number(0)), mapOnce("f"))
	case "names":
		return hostileNames(number(0))
	}
	return errors.New("no such hostile: " + what)
}

// deep makes nested directories below the working directory and changes to the last: a long path of few names, or a
// slow one of very many. A file's path there is no longer than the kernel's limit for a link.
func deep(how string) error {
	name, most := "d", 3000
	if how == "long" {
		name = strings.Repeat("d", 250)
	}
	if how == "short" {
		most = 0
	}
	at, err := os.Getwd()
	if err != nil {
		return err
	}
	for size := len(at); size+len(name)+1 < most; size += len(name) + 1 {
		if err := unix.Mkdir(name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if err := unix.Chdir(name); err != nil {
			return err
		}
	}
	return nil
}

// deepest makes a path of that many bytes.
func deepest(size int) error {
	name := strings.Repeat("d", 250)
	for ; size > 0; size -= len(name) {
		if err := errors.Join(unix.Mkdir(name, 0o755), unix.Chdir(name)); err != nil {
			return err
		}
	}
	return nil
}

func mapOnce(name string) error {
	_, err := mapFile(name, 1)
	return err
}

// forks makes copies of this process that wait for its end. The child makes raw calls only: it has this one thread of
// the runtime.
func forks(n int) error {
	for range n {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
			for {
				_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	return nil
}

// hostileFDs starts processes with as many descriptors each as the limit allows.
func hostileFDs(processes int, how string) error {
	if err := deep(how); err != nil {
		return err
	}
	fd, err := unix.Open("f", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	for err == nil {
		_, err = unix.Dup(fd)
	}
	if !errors.Is(err, unix.EMFILE) {
		return err
	}
	return forks(processes - 1)
}

// hostileThreads starts threads, each with that many descriptors of its own.
func hostileThreads(n int) error {
	if err := hostileFDs(1, "short"); err != nil {
		return err
	}
	debug.SetMaxThreads(2*n + 1000)
	began := make(chan error)
	for range n {
		go func() {
			runtime.LockOSThread()
			began <- unix.Unshare(unix.CLONE_FILES | unix.CLONE_FS)
			select {}
		}()
		if err := <-began; err != nil {
			return err
		}
	}
	return nil
}

// hostileMaps starts processes with that many mappings of one file each.
func hostileMaps(processes, each int, how string) error {
	if err := deep(how); err != nil {
		return err
	}
	if _, err := mapFile("f", each); err != nil {
		return err
	}
	return forks(processes - 1)
}

func mapFile(name string, times int) (at []unsafe.Pointer, err error) {
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // the file is mapped
	if err := unix.Ftruncate(fd, 8<<10); err != nil {
		return nil, err
	}
	for i := range times { // adjacent mappings with other offsets are not merged
		p, err := unix.MmapPtr(fd, int64(i%2)<<12, nil, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		at = append(at, p)
	}
	return at, nil
}

// hostileFiles maps that many files once each.
func hostileFiles(n int) error {
	for from := 0; from < n; {
		var all []unsafe.Pointer
		for ; from < n && len(all) < 60_000; from++ {
			if from%1000 == 0 {
				if err := unix.Mkdir(strconv.Itoa(from/1000), 0o755); err != nil {
					return err
				}
			}
			at, err := mapFile(fmt.Sprintf("%d/%d", from/1000, from), 1)
			if err != nil {
				return err
			}
			all = append(all, at...)
		}
		if err := forks(1); err != nil { // the copy keeps the mappings
			return err
		}
		for _, p := range all {
			if err := unix.MunmapPtr(p, 4096); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostileMounts makes that many mounts in each of that many mount namespaces.
func hostileMounts(namespaces, each int, how string) error {
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), deep(how)); err != nil {
		return err
	}
	const at = 1000
	for i := range each / at {
		if err := unix.Mkdir(strconv.Itoa(i), 0o755); err != nil {
			return err
		}
	}
	for i := range at {
		name := fmt.Sprintf("0/%d", i)
		if err := errors.Join(unix.Mkdir(name, 0o755), unix.Mount(name, name, "", unix.MS_BIND, "")); err != nil {
			return err
		}
	}
	for i := 1; i < each/at; i++ {
		if err := unix.Mount("0", strconv.Itoa(i), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	for range namespaces - 1 {
		if err := forks(1); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return err
		}
	}
	return nil
}

// hostileNames makes files whose names have the maximum length.
func hostileNames(n int) error {
	for i := range n {
		if err := unix.Mknod(fmt.Sprintf("%0255d", i), unix.S_IFREG|0o644, 0); err != nil {
			return err
		}
	}
	return nil
}
