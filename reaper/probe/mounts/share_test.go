package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// ofProcess reads the mounts of a made process 7.
func ofProcess(t *testing.T, text, uid, caps, user, root, cgroup string, w parsers.PodSet, patience time.Duration) (*Answer, error) {
	t.Helper()
	dir := testkit.ProcMounts(t, map[string]string{"7": text})
	for _, name := range []string{"7/ns", "self/ns"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	testkit.Must(t, os.Symlink(user, filepath.Join(dir, "7/ns/user")))
	testkit.Must(t, os.Symlink("user:[1]", filepath.Join(dir, "self/ns/user")))
	testkit.Must(t, os.Symlink(root, filepath.Join(dir, "7/root")))
	testkit.WriteText(t, filepath.Join(dir, "7/cgroup"), "0::/kubepods/pod"+cgroup+"/c\n")
	testkit.WriteText(t, filepath.Join(dir, "7/status"), "Name:\tx\nUid:\t"+strings.Repeat(uid+"\t", 4)+"\nCapPrm:\t"+caps+"\nx\n")
	proc, err := procfs.Open(dir)
	testkit.Must(t, err)
	s := scan{Reader: reader(t, dir), proc: proc, known: map[string]bool{}, buf: make([]byte, 64<<10)}
	s.Guard = &bounded.Guard{Patience: patience}
	m := newAnswer(dir)
	m.where = regions{pods: []region{{Dev: "8:1", Path: "/var/lib/kubelet/pods", FSType: "ext4"}}, user: "user:[1]"}
	return m, s.thread(m, "7", w)
}

// TestMountsOverTheirShare: what a process has too much of is a doubt about its pod, and about the
// node only where it may enter other pods' directories and has them before it.
func TestMountsOverTheirShare(t *testing.T) {
	own, dead := newUID(), newUID()
	const pods = "/var/lib/kubelet/pods"
	long := strings.Repeat("/"+strings.Repeat("d", 250), 100)
	paths := line(1, "/rootfs", "/") + line(2, pods+"/"+string(own)+"/v"+long, "/data"+long)
	var many strings.Builder
	many.WriteString(line(1, "/rootfs", "/"))
	for i := range mostLines {
		fmt.Fprintf(&many, "%d 1 0:9 / /x rw - tmpfs t rw\n", i+2)
	}
	var named strings.Builder
	named.WriteString(line(1, "/rootfs", "/"))
	for i := range mostKept / 4000 {
		named.WriteString(line(i+2, pods+"/"+string(own)+"/v"+long[:4000], "/data"+long[:4000]))
	}
	slow := line(1, "/rootfs", "/") + strings.Repeat(line(2, "/x", "/x"), 100)
	for share, text := range map[string]string{"paths": paths, "entries": many.String(), "bytes": named.String(), "time": slow} {
		patience := time.Minute
		if share == "time" {
			patience = time.Nanosecond
		}
		for name, tt := range map[string]struct {
			more, uid, caps, user, root, cgroup string
			node                                bool
		}{
			"its own, in a user namespace":    {"", "100000", "1ffffffffff", "user:[2]", "/", string(own), false},
			"its own":                         {"", "0", "a80425fb", "user:[1]", "/", string(own), false},
			"of no pod, a user":               {"", "65534", "0", "user:[2]", "/", "", false},
			"another root":                    {"", "0", "a80425fb", "user:[1]", "/x", string(own), true},
			"all pods":                        {line(9, pods, "/p"), "0", "a80425fb", "user:[1]", "/", string(own), true},
			"all pods, and may enter none":    {line(9, pods, "/p"), "65534", "0", "user:[1]", "/", string(own), false},
			"the node's root":                 {line(9, "/", "/host"), "0", "a80425fb", "user:[1]", "/", string(own), true},
			"another pod":                     {line(9, pods+"/"+string(dead)+"x/v", "/p"), "0", "0", "user:[1]", "/", string(own), true},
			"all pods, in a user namespace":   {line(9, pods, "/p"), "100000", "1ffffffffff", "user:[2]", "/", string(own), false},
			"another namespace's file":        {line(9, "mnt:[4]", "/p"), "0", "1ffffffffff", "user:[1]", "/", string(own), true},
			"root of the node in no pod":      {line(9, pods, "/p"), "0", "1ffffffffff", "user:[1]", "/", "", true},
			"user ID 0 in another user space": {line(9, pods, "/p"), "0", "0", "user:[2]", "/", string(own), true},
		} {
			t.Run(share+", "+name, func(t *testing.T) {
				m, err := ofProcess(t, text+tt.more, tt.uid, tt.caps, tt.user, tt.root, tt.cgroup, parsers.PodSet{own: true, dead: true}, patience)
				if errors.Is(err, errShare) != tt.node || !tt.node && err != nil {
					t.Fatalf("%v, want a doubt about the node: %v", err, tt.node)
				}
				if got := m.Fact(dead); !tt.node && got.Truth != policy.No {
					t.Errorf("an unrelated pod: %+v", got)
				}
				if _, found := m.Pods[own]; !tt.node && tt.cgroup != "" && !found && m.Fact(own).Truth != policy.Unknown {
					t.Errorf("its own pod: %+v", m.Fact(own))
				}
			})
		}
	}
}

// TestMountsAreStreamed: 60 MiB of mounts take little memory, and a pod's mount behind them is found, as
// is one that the options name far behind in a line of 2 MiB.
func TestMountsAreStreamed(t *testing.T) {
	bound, layered, dead := newUID(), newUID(), newUID()
	name := filepath.Join(t.TempDir(), "text")
	f, err := os.Create(name)
	testkit.Must(t, err)
	w := bufio.NewWriter(f)
	path := "/" + strings.Repeat("d", 3900)
	_, _ = fmt.Fprint(w, line(1, "/", "/"))
	for i := range 15_000 {
		_, _ = fmt.Fprintf(w, "%d 1 0:9 / %s rw - tmpfs t rw\n", i+2, path)
	}
	_, _ = fmt.Fprintf(w, "90001 1 0:9 / /o rw - overlay o lowerdir=%sx:/var/lib/kubelet/pods/%s/v\n", strings.Repeat("y", 2<<20), layered)
	_, _ = fmt.Fprint(w, line(90_002, "/var/lib/kubelet/pods/"+string(bound)+"/v", "/data"))
	testkit.Must(t, errors.Join(w.Flush(), f.Close()))
	fd, err := os.Open(name)
	testkit.Must(t, err)
	defer fd.Close() //nolint:errcheck // read only
	s := scan{Reader: reader(t, t.TempDir())}
	m := newAnswer("/proc")
	want := parsers.PodSet{bound: true, layered: true, dead: true}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := s.kept(m, want, s.lines(int(fd.Fd())))
	runtime.ReadMemStats(&after)
	testkit.Must(t, err)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 || len(text) > 256<<10 {
		t.Errorf("it took %d bytes and holds %d", took, len(text))
	}
	testkit.Must(t, m.scanMounts(&view{pid: "1"}, text, want))
	if len(m.Pods) != 2 || m.Fact(dead).Truth != policy.No {
		t.Errorf("%+v", m.Pods)
	}
	if len(m.IDs) != 15_003 {
		t.Errorf("%d mount IDs", len(m.IDs))
	}
}
