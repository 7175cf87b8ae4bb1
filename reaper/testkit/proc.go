package testkit

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FakeProc is one process of a made /proc.
type FakeProc struct {
	PID, Parent int
	Comm        string
	Args        []string
	Raw         string // the content of cmdline, in place of Args
	State       string // default S
	UID         string // default 0
	NSpid       string // default the PID
	Cwd         string
	Root        string // its root, if it is not the host's
	Start       int64  // ticks
	Cgroup      string // the path, default none
}

// hostMount is the mountinfo of all processes with the host's root.
const hostMount = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"

// ProcTree makes a /proc with the given processes and some usual ones, such as PID 1. A given process replaces the usual one
// with its PID.
func ProcTree(t *testing.T, procs ...FakeProc) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range [...]FakeProc{
		{PID: 1, Comm: "systemd", Args: []string{"/sbin/init"}},
		{PID: 2, Comm: "kthreadd"},
		{PID: 300, Comm: "kube-proxy", Args: []string{"kube-proxy", "--config=/x"}},
	} {
		if !slices.ContainsFunc(procs, func(given FakeProc) bool { return given.PID == p.PID }) {
			procs = append(procs, p)
		}
	}
	AddProc(t, dir, procs...)
	return dir
}

// AddProc adds processes to a made /proc.
func AddProc(t *testing.T, procDir string, procs ...FakeProc) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Join(procDir, "self"), 0o700))
	WriteText(t, filepath.Join(procDir, "self", "mountinfo"), hostMount)
	for _, p := range procs {
		dir := filepath.Join(procDir, strconv.Itoa(p.PID))
		Must(t, os.Mkdir(dir, 0o700))
		cmdline := p.Raw
		if cmdline == "" && p.Args != nil {
			cmdline = strings.Join(p.Args, "\x00") + "\x00"
		}
		state, uid, nspid := cmp.Or(p.State, "S"), cmp.Or(p.UID, "0"), cmp.Or(p.NSpid, strconv.Itoa(p.PID))
		mountinfo := hostMount
		if p.Root != "" {
			mountinfo = fmt.Sprintf("%d 1 0:90 / / rw,relatime master:1 - overlay overlay rw\n", 1000+p.PID)
			Must(t, os.Symlink(p.Root, filepath.Join(dir, "root")))
		}
		if p.Cgroup != "" {
			WriteText(t, filepath.Join(dir, "cgroup"), "0::"+p.Cgroup+"\n")
		}
		for name, text := range map[string]string{
			"comm":    p.Comm + "\n",
			"cmdline": cmdline,
			"stat": fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 %d 123 45 18446744073709551615\n",
				p.PID, p.Comm, state, p.Parent, p.Start),
			"mountinfo": mountinfo,
			"status":    fmt.Sprintf("Name:\t%s\nPPid:\t%d\nUid:\t%s\t%s\t%s\t%s\nNSpid:\t%s\n", p.Comm, p.Parent, uid, uid, uid, uid, nspid),
		} {
			WriteText(t, filepath.Join(dir, name), text)
		}
		if p.Cwd != "" {
			Must(t, os.Symlink(p.Cwd, filepath.Join(dir, "cwd")))
		}
	}
}

// WriteText writes a file and returns its path.
func WriteText(t *testing.T, path, text string) string {
	t.Helper()
	Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// StaleSocket returns a socket file on which nothing listens, as a killed runtime leaves it.
func StaleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	Must(t, err)
	l.SetUnlinkOnClose(false)
	Must(t, l.Close())
	return path
}

// MuteSocket returns a socket whose server sends a greeting to each client, and then nothing.
func MuteSocket(t *testing.T, greeting string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mute")
	l, err := net.Listen("unix", path)
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			_, _ = c.Write([]byte(greeting))
		}
	}()
	return path
}
