package judge

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const uid = "0badf00d-0001-4aaa-8bbb-cccc00000001"

var now = Instant{Wall: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), BootID: "b", Boot: time.Hour}

// dead returns the case of a pod that every row of the table lets pass.
func dead() Case {
	p := Pod{Name: uid, UID: uid, Present: Yes, ID: FileID{Dev: 1, Ino: 2}, Skeleton: Skeleton{Sum: 7, Youngest: now.Wall.Add(-time.Hour)}}
	for _, r := range table {
		p.Facts[r.fact].Truth = r.passes
	}
	k := Kubelet{PID: 100, Inner: 100, Start: time.Minute, Unit: "kubelet.service", JSON: No}
	line := parsers.Line{Source: "kubelet.service", Whole: true, Journal: &parsers.Journal{Unit: k.Unit, PID: 100, BootID: "b", Time: now.Wall}}
	return Case{
		Pod: p, Node: Node{Kubelet: k, KubeletKnown: Fact{Truth: Yes}}, Now: now, Settings: Settings{Hold: time.Minute},
		Log:  Log{Removal: Logged{Report: parsers.Report{Line: line, UID: uid, Kind: parsers.Removal, PID: 100, Header: now.Wall}, At: now}},
		Hold: Hold{Since: now.Add(-time.Minute), ID: p.ID, Sum: 7, Youngest: now.Wall.Add(-time.Hour), Seen: now.Add(-time.Hour)},
	}
}

// TestDead shows for each row of the table that its fact alone keeps the pod, as the wrong answer and as Unknown.
func TestDead(t *testing.T) {
	c := dead()
	if v, _ := Dead(c); v.Decision != Remove {
		t.Fatalf("a dead pod: %+v", v)
	}
	for _, r := range table[1:7] {
		for _, truth := range []Truth{Unknown, Yes, No} {
			c := dead()
			c.Pod.Facts[r.fact].Truth = truth
			if v, _ := Dead(c); (v.Decision == Remove) != (truth == r.passes) {
				t.Errorf("%s %s: %+v", r.fact, truth, v)
			}
		}
	}
}

// TestNoUID has a name that is no UID: it is kept, and only an operator can end that.
func TestNoUID(t *testing.T) {
	c := dead()
	c.Pod.Name, c.Pod.UID = "lost+found", ""
	if v, _ := Dead(c); v.Decision != Keep || !v.Operator {
		t.Errorf("%+v", v)
	}
}

// TestLeftoverMount has a mount below the pod's own directory: in place it keeps a dead pod and asks an operator, while
// another fact shows whether the pod is alive. In quarantine it restores (TestEntry).
func TestLeftoverMount(t *testing.T) {
	c := dead()
	c.Pod.Facts[Mounted] = Fact{Truth: Yes, Alive: true}
	if v, _ := Dead(c); v.Decision != Keep || !v.Operator {
		t.Errorf("a dead pod with a leftover mount: %+v", v)
	}
	c.Log = Log{} // a kubelet passes over it silently
	if v, _ := Dead(c); v.Decision != Keep || !v.Operator {
		t.Errorf("a dead pod with a leftover mount that is not reported: %+v", v)
	}
	c.Pod.Facts[Cgroup] = Fact{Truth: Yes, Alive: true}
	if v, _ := Dead(c); v.Decision != IsAlive || v.Operator || v.Reasons[0].Reason == NotReported { // which shows nothing
		t.Errorf("a living pod with a mount: %+v", v)
	}
}
