package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// standIns are the versions of kubelets that testdata/node has a stand-in of.
var standIns = []int{28, 33, 37}

// A Go program's first thread cannot end, so a test that moves its thread into other namespaces must not run on it.
// An init runs on that thread, and locks the main goroutine to it.
func init() { runtime.LockOSThread() }

// observed leaves the leftovers beside a kubelet that is paused, and returns its lines about them, one list for each
// of its housekeeping runs: the first three at the default verbosity, and one at -v=5.
func (n *node) observed(t *testing.T, kinds []leftover, pause, resume func(), verbosity func(level string)) (map[string]orphan, [][]string) {
	t.Helper()
	pause()
	all := map[string]orphan{}
	for _, k := range kinds {
		all[k.name] = n.make(t, k, n.uid(k.uid))
	}
	mark := n.kubelet.size()
	resume()
	runs := n.housekeeping(t, mark, 3)
	verbosity("5")
	// The first may have begun at the verbosity before.
	return all, append(runs, n.housekeeping(t, n.kubelet.size(), 2)[1])
}

// housekeeping waits until the kubelet has ended that many housekeeping runs after the mark, and returns its lines
// about leftovers in each. The last one is the error that the run returns: one of the leftovers causes it always.
func (n *node) housekeeping(t *testing.T, mark int64, count int) [][]string {
	t.Helper()
	var runs [][]string
	eventually(t, time.Duration(count)*10*time.Second, func() string {
		runs = nil
		var lines []string
		for _, line := range n.kubelet.since(mark) {
			if !orphanSources.MatchString(line) || !slices.ContainsFunc(kinds, func(k leftover) bool { return strings.Contains(line, n.uid(k.uid)) }) {
				continue
			}
			lines = append(lines, n.bare(line))
			if strings.Contains(line, `"Failed cleaning up orphaned pod directories"`) {
				runs, lines = append(runs, lines), nil
			}
		}
		return missing(len(runs) >= count, "the kubelet has ended %d of %d housekeeping runs:\n%s", len(runs), count, strings.Join(lines, "\n"))
	})
	return runs[:count]
}

// orphanSources are the kubelet's files that remove orphans. Others have lines of their own at -v=5.
var orphanSources = regexp.MustCompile(`^\S+ \S+ +\d+ kubelet_(volumes|pods|getters)\.go:`)

// bare returns a line without what two kubelets of a version have each for itself: time, PID and root directory.
func (n *node) bare(line string) string {
	return klogTime.ReplaceAllString(strings.ReplaceAll(line, n.root+"/", ""), "$1 ")
}

var klogTime = regexp.MustCompile(`^([IWEF])\d{4} [\d:.]+ +\d+ `)

// compareStandIn leaves equal leftovers beside the stand-in of testdata/node for this version of the kubelet. It fails
// unless the stand-in's last housekeeping runs print these lines in this order.
func (n *node) compareStandIn(t *testing.T, kinds []leftover, want [][]string) {
	t.Helper()
	if !slices.Contains(standIns, n.minor(t)) {
		t.Logf("testdata/node has no stand-in of %s", n.version)
		return
	}
	t.Run("stand-in", func(t *testing.T) {
		s := n.standIn(t)
		control := nodetest.Node{Dir: s.dir}
		_, got := s.observed(t, kinds, func() { control.Control(t, "runtime hang") }, func() { control.Control(t, "runtime start") },
			func(level string) { control.Control(t, "kubelet v "+level) })
		got = got[len(got)-len(want):]
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("housekeeping run %d: %s", i, difference(got[i], want[i]))
			}
		}
	})
}

// standIn starts a node of testdata/node, and moves the calling goroutine into its mount namespace until it ends.
func (n *node) standIn(t *testing.T) *node {
	t.Helper()
	dir := filepath.Join(n.dir, strings.ReplaceAll(t.Name(), "/", "-"))
	p := launch(t, "testdata/node", dir+".log", filepath.Join(n.host.dir, "node"), "--kubelet", fmt.Sprintf("1.%d", n.minor(t)),
		"--every", "200ms", "--pods", "/dev/null", dir, "--", "sh", "-c", "echo ready; exec sleep infinity")
	t.Cleanup(func() { p.end(t) })
	eventually(t, 20*time.Second, func() string { return missing(strings.HasSuffix(p.Tail(1), "ready"), "no node: %s", p.Tail(3)) })
	enterMounts(t, firstChild(t, p.Cmd.Process.Pid))
	return &node{
		version: n.version, number: n.number, dir: dir, root: filepath.Join(dir, "kubelet"), pods: filepath.Join(dir, "kubelet", "pods"),
		kubelet: &process{Process: kit.Process{Log: filepath.Join(dir, "log", "kubelet.log")}},
	}
}

// firstChild returns the PID of the first process that the process has started.
func firstChild(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var child int
		if b, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if _, err := fmt.Sscan(string(b), &child); err == nil {
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// enterMounts moves the calling goroutine into the mount namespace of a process, and never back: the goroutine's thread
// ends with it (runtime.LockOSThread).
func enterMounts(t *testing.T, pid int) {
	t.Helper()
	runtime.LockOSThread()
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// Threads share their root directory, which setns(2) changes.
	if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(f.Fd()), unix.CLONE_NEWNS)); err != nil {
		t.Fatal(err)
	}
}

// difference returns the first lines that differ.
func difference(got, want []string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	line := func(all []string) string {
		if i < len(all) {
			return all[i]
		}
		return "nothing more"
	}
	return fmt.Sprintf("line %d of %d is\n%s\nand the kubelet's, of %d, is\n%s", i+1, len(got), line(got), len(want), line(want))
}
