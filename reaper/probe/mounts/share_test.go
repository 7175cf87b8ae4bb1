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
	"testing/synctest"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// process is one process of an artificial proc directory.
type process struct{ uid, userNS, ns, cgroup, text string }

// scanOf makes the proc directory and a scan of it.
func scanOf(t *testing.T, all map[string]process) (*scan, *Answer) {
	t.Helper()
	dir := testkit.ProcMounts(t, map[string]string{"self": ""})
	testkit.Must(t, os.MkdirAll(dir+"/self/ns", 0o755))
	testkit.Must(t, os.Symlink("user:[1]", dir+"/self/ns/user"))
	for pid, p := range all {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, pid, "ns"), 0o755))
		testkit.WriteText(t, filepath.Join(dir, pid, "mountinfo"), p.text)
		testkit.Must(t, os.Symlink("user:["+p.userNS+"]", filepath.Join(dir, pid, "ns/user")))
		testkit.Must(t, os.Symlink("mnt:["+p.ns+"]", filepath.Join(dir, pid, "ns/mnt")))
		testkit.Must(t, os.Symlink("/", filepath.Join(dir, pid, "root")))
		testkit.WriteText(t, filepath.Join(dir, pid, "cgroup"), "0::"+p.cgroup+"\n")
		testkit.WriteText(t, filepath.Join(dir, pid, "status"), "Name:\tx\nUid:\t"+strings.Repeat(p.uid+"\t", 4)+"\nCapPrm:\t0\nx\n")
	}
	proc, err := procfs.Open(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { beneath.Close(proc) })
	s := reader(t, dir).newScan(proc, nil)
	m := newAnswer(dir)
	s.where = regions{pods: []region{{Dev: "8:1", Path: "/var/lib/kubelet/pods", FSType: "ext4"}}}
	m.where = s.where
	return s, m
}

// all reads all processes. A busy machine takes no time.
func (s *scan) all(t *testing.T, m *Answer, w parsers.PodSet) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) { return false, s.process(m, p, w) },
			func(p *procfs.Process, why error) { s.doubt(m, p.PID, w, why) })
		testkit.Must(t, err)
	})
}

// TestNamespaceOfTwo checks that another process of a mount namespace is read if one of them fails, and that the
// namespace is no doubt if one of them succeeds.
func TestNamespaceOfTwo(t *testing.T) {
	dead, held := newUID(), newUID()
	text := line(1, "/", "/") + line(2, "/var/lib/kubelet/pods/"+string(held)+"/v", "/data")
	both := map[string]process{"7": {"65534", "1", "7", "/", text}, "8": {"0", "1", "7", "/", text}}
	w := parsers.PodSet{dead: true, held: true}
	for _, over := range []string{"7", "8"} {
		s, m := scanOf(t, both)
		_, err := s.Each(t.Context(), func(p *procfs.Process) (bool, error) {
			if p.PID == over {
				return false, procfs.ErrShare
			}
			return false, s.process(m, p, w)
		}, func(p *procfs.Process, why error) { s.doubt(m, p.PID, w, why) })
		testkit.Must(t, err)
		if m.Err != nil || m.Fact(held).Truth != policy.Yes || m.Fact(dead).Truth != policy.No {
			t.Errorf("PID %s is over: %v, %+v, %+v", over, m.Err, m.Fact(held), m.Fact(dead))
		}
	}
}

// TestPluginsPath checks that a pod's mountPath with many repetitions of the plugins directory's name, or many names
// below it, uses no more memory than the path.
func TestPluginsPath(t *testing.T) {
	w := parsers.PodSet{newUID(): true}
	var text strings.Builder
	text.WriteString(line(1, "/rootfs", "/"))
	for i := range 300 {
		var path strings.Builder
		for j := range 300 {
			fmt.Fprintf(&path, "/%d/plugins/%d", i, j)
		}
		text.WriteString(line(i+2, "/data", path.String()[:4000]))
	}
	s, m := scanOf(t, map[string]process{
		"1": {"0", "1", "1", "/", line(1, "/", "/") + line(999, "/", "/var/lib/kubelet/plugins/kubernetes.io/csi/d/h/globalmount")},
		"7": {"0", "1", "7", "/kubepods/pod" + string(newUID()) + "/c", text.String()},
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s.all(t, m, w)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 32<<20 {
		t.Errorf("%d bytes are in memory", took)
	}
	if _, ok := m.Below["kubernetes.io/csi/d/h"]; !ok || m.Err != nil {
		t.Errorf("%v, and a staged volume is not found", m.Err)
	}
}

// TestMountsAreStreamed checks that 60 MiB of mounts use little memory, and that a pod's mount after them is found,
// as is one whose source follows a mount point of 2 MiB. Options of 2 MiB, which only root can set, may name any pod.
func TestMountsAreStreamed(t *testing.T) {
	bound, layered, dead := newUID(), newUID(), newUID()
	s, m := scanOf(t, map[string]process{"7": {"0", "1", "7", "/", ""}})
	f, err := os.OpenFile(s.ProcDir+"/7/mountinfo", os.O_WRONLY, 0)
	testkit.Must(t, err)
	w := bufio.NewWriter(f)
	path := "/" + strings.Repeat("d", 3900)
	_, _ = fmt.Fprint(w, line(1, "/", "/"))
	for i := range 15_000 {
		_, _ = fmt.Fprintf(w, "%d 1 0:9 / %s rw - tmpfs t rw\n", i+2, path)
	}
	_, _ = fmt.Fprintf(w, "90001 1 0:9 / /%s rw shared:7 - fuse /var/lib/kubelet/pods/%s/v rw\n", strings.Repeat("y", 2<<20), layered)
	_, _ = fmt.Fprint(w, line(90_002, "/var/lib/kubelet/pods/"+string(bound)+"/v", "/data"))
	testkit.Must(t, errors.Join(w.Flush(), f.Close()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.all(t, m, parsers.PodSet{bound: true, layered: true, dead: true})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were used", took)
	}
	if len(m.Pods) != 2 || m.Fact(dead).Truth != policy.No {
		t.Errorf("%+v, %v", m.Pods, m.Err)
	}
	options := line(1, "/", "/") + "90001 1 0:9 / /o rw - overlay o lowerdir=" + strings.Repeat("y", 2<<20) + "\n"
	s, m = scanOf(t, map[string]process{"7": {"0", "1", "7", "/", options}})
	if s.all(t, m, parsers.PodSet{dead: true}); m.Fact(dead).Truth != policy.Unknown {
		t.Errorf("truncated options: %+v", m.Fact(dead))
	}
}
