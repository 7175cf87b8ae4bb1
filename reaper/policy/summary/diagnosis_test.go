package summary

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// oneOrphan is a case with one dead pod that the kubelet reports, a log that was read, and no daemon.
func oneOrphan(change func(*testkit.Scene)) Case {
	s := testkit.DeadPod()
	s.Pod.Residue = []policy.Residue{{Class: contents.ClassSkeleton, Bytes: 4096}}
	change(s)
	v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now)
	v.Gate(policy.Standing{Node: s.Node, Rules: s.Rules}.Gate())
	return Case{
		Said: []Said{{UID: testkit.PodUID, Lines: 3}}, Sources: []Source{{Name: "journald", Read: true}}, Daemon: Daemon{Runs: policy.No},
		Looked: true, Node: s.Node, Pods: []policy.Judged{{Evidence: s.Pod, Verdict: v}}, Rules: s.Rules,
	}
}

// TestFates checks that a pod's fate follows from its verdict and from what stops enforcement, and that the operator
// must act if the pod is kept or no process will remove it.
func TestFates(t *testing.T) {
	same := func(*testkit.Scene) {}
	for _, tt := range []struct {
		name   string
		scene  func(*testkit.Scene)
		change func(*Case)
		want   Fate
		person bool
	}{
		{"dead, and no daemon runs", same, nil, Goes, true},
		{"dead, and the daemon runs", same, func(c *Case) { c.Daemon.Runs = policy.Yes }, Goes, false},
		{"dead, and whether one runs is not known", same, func(c *Case) { c.Daemon.Runs = policy.Unknown }, Goes, true},
		{"it waits for a hold", func(s *testkit.Scene) { s.Hold = policy.Hold{} }, func(c *Case) { c.Daemon.Runs = policy.Yes }, Goes, false},
		{"mode observe", func(s *testkit.Scene) { s.Rules.Observe = true }, func(c *Case) { c.Daemon.Runs = policy.Yes }, Stopped, true},
		{"mode observe, and it waits", func(s *testkit.Scene) { s.Rules.Observe, s.Hold = true, policy.Hold{} }, nil, Stopped, true},
		{"settings that contradict", func(s *testkit.Scene) { s.Node.Agrees = policy.Fact{Truth: policy.No} }, nil, Stopped, true},
		{"not the node's namespaces", func(s *testkit.Scene) { s.Node.MayEnforce = policy.Fact{Truth: policy.No} }, nil, Stopped, true},
		{"a volume is mounted", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactMounted, policy.Yes, "", "") }, nil, Person, true},
		{"mounted, in mode observe", func(s *testkit.Scene) {
			s.Rules.Observe = true
			s.Pod.Facts.Set(policy.FactMounted, policy.Yes, "", "")
		}, nil, Person, true},
		{"no kubelet runs", func(s *testkit.Scene) { s.Node.Kubelet = policy.Fact{Truth: policy.No} }, nil, Person, true},
		{"a person put it back", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactRestored, policy.Yes, "", "") }, nil, Quiet, false},
		{"it lives", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactSandbox, policy.Yes, "", "") }, nil, Lives, false},
		{"the kubelet does not report it", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactNamed, policy.No, "", "") }, nil, Unreported, false},
		{"it is not here", same, func(c *Case) { c.Pods = nil }, Gone, false},
	} {
		c := oneOrphan(tt.scene)
		if tt.change != nil {
			tt.change(&c)
		}
		d := Diagnose(c)
		if len(d.Pods) != 1 || d.Pods[0].Fate != tt.want || d.NeedsPerson != tt.person || d.Count[tt.want] != 1 {
			t.Errorf("%s: %+v, want %s, operator %t", tt.name, d, tt.want, tt.person)
		}
	}
}

// TestWholeCase checks the findings about the node as a whole.
func TestWholeCase(t *testing.T) {
	lives := func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactSandbox, policy.Yes, "", "") }
	for _, tt := range []struct {
		name   string
		change func(*Case)
		pods   int
		person bool
	}{
		{"all is well", func(c *Case) { c.Said = nil }, 0, false},
		{"one that lives is named", func(*Case) {}, 1, false},
		{"no log was read", func(c *Case) { c.Said, c.Sources = nil, []Source{{Name: "journald"}} }, 0, true},
		{"no log, and no kubelet is wanted", func(c *Case) { c.Said, c.Sources, c.Rules.Waive = nil, nil, true }, 0, false},
		{"nothing could be looked at", func(c *Case) { c.Looked, c.Pods, c.Sources = false, nil, nil }, 0, false},
		{"settings that contradict", func(c *Case) { c.Said, c.Node.Agrees.Truth = nil, policy.No }, 0, true},
		{"enforcing has stopped", func(c *Case) { c.Said, c.Breaker = nil, true }, 0, true},
		{"a conflict lies in quarantine", func(c *Case) { c.Said, c.Conflicts = nil, []parsers.PodUID{"e"} }, 0, true},
		{"a name that is no pod's", func(c *Case) {
			c.Said, c.Pods = nil, []policy.Judged{{Evidence: policy.Evidence{Name: "backup"}, Verdict: policy.Verdict{Decision: policy.Keep}}}
		}, 0, true},
	} {
		c := oneOrphan(lives)
		tt.change(&c)
		if d := Diagnose(c); len(d.Pods) != tt.pods || d.NeedsPerson != tt.person {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

// TestOrder checks that pods of which the kubelet complains come first, and those that live or are gone last.
func TestOrder(t *testing.T) {
	c := oneOrphan(func(*testkit.Scene) {})
	add := func(uid parsers.PodUID, change func(*testkit.Scene)) {
		more := oneOrphan(change)
		more.Pods[0].UID = uid
		c.Pods = append(c.Pods, more.Pods...)
	}
	add("b", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactMounted, policy.Yes, "", "") })
	add("c", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactSandbox, policy.Yes, "", "") })
	add("d", func(s *testkit.Scene) { s.Pod.Facts.Set(policy.FactSandbox, policy.Yes, "", "") })
	c.Said, c.Parked = append(c.Said, Said{UID: "c", Lines: 9}, Said{UID: "e", Lines: 2}), []parsers.PodUID{"e"}
	d := Diagnose(c)
	var got strings.Builder
	for _, p := range d.Pods {
		got.WriteString(string(p.UID[:1]))
	}
	if got.String() != "2bec" || d.Living != 2 || !d.Pods[2].Parked || d.Bytes[Goes] != 4096 {
		t.Errorf("%s: %+v", got.String(), d)
	}
}

// TestTally checks that lines are counted per pod, that equal lines of two logs count once, and that lines that are
// read again only prove that they still come.
func TestTally(t *testing.T) {
	now := time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)
	tally := NewTally(now, func(parsers.PodUID) bool { return false })
	line := func(uid parsers.PodUID, ago time.Duration, change func(*parsers.Sighting)) parsers.Sighting {
		s := parsers.Sighting{UID: uid, Report: parsers.ReportPathsPresent, Time: now.Add(-ago), CatchUp: true}
		change(&s)
		return s
	}
	same := func(*parsers.Sighting) {}
	for i := range 10 {
		tally.Add(line("a", time.Duration(i)*10*time.Minute, same), "journald", "old words", false)
	}
	tally.Add(line("a", -time.Second, func(s *parsers.Sighting) { s.CatchUp = false }), "journald", "new words", true)
	for range 4 {
		tally.Add(line("a", 0, func(s *parsers.Sighting) { s.Time = time.Time{} }), "/var/log/messages", "no time", false)
	}
	tally.Add(line("b", 0, func(s *parsers.Sighting) { s.Report = parsers.ReportTeardown }), "journald", "tear-down", false)
	pods := tally.Pods()
	if len(pods) != 2 || pods[0].UID != "a" || pods[0].Lines != 10 || pods[0].LastHour != 6 || !pods[0].Now || pods[0].Words != "new words" ||
		!pods[0].First.Equal(now.Add(-90*time.Minute)) || pods[1].Lines != 1 || !pods[1].Teardown {
		t.Errorf("%+v", pods)
	}
	sum := Total(pods)
	if sum.Lines != 11 || sum.LastHour != 7 || !sum.Now || sum.UID != "a" || !sum.Last.Equal(now.Add(time.Second)) {
		t.Errorf("%+v", sum)
	}
	if sum = Total([]Said{pods[1], pods[0]}); sum.UID != "a" {
		t.Errorf("the sum has a tear-down error's text: %+v", sum)
	}
	if (Total(nil) != Said{}) {
		t.Error("the sum of no lines is not empty")
	}
}

// TestTallyAhead checks that a wrong time makes no line one of the last hour.
func TestTallyAhead(t *testing.T) {
	now := time.Now()
	tally := NewTally(now, func(parsers.PodUID) bool { return true })
	tally.Add(parsers.Sighting{UID: "a", Time: now.AddDate(70, 0, 0), CatchUp: true}, "/var/log/syslog", "words", false)
	if s := Total(tally.Pods()); s.LastHour != 0 || s.Untimed != 1 || !s.Last.IsZero() || s.Words != "words" {
		t.Errorf("a line of a time to come: %+v", s)
	}
}

// TestTallyBounds checks that the number of pods is bounded, since any process can write lines with invented UIDs.
func TestTallyBounds(t *testing.T) {
	tally := NewTally(time.Now(), func(uid parsers.PodUID) bool { return uid == "here" })
	for i := range mostSaid + 10 {
		tally.Add(parsers.Sighting{UID: parsers.PodUID(rune(i))}, "journald", "", false)
	}
	tally.Add(parsers.Sighting{UID: "here"}, "journald", "", false)
	pods := tally.Pods()
	if n := len(pods); n != mostSaid+1 || !slices.ContainsFunc(pods, func(s Said) bool { return s.UID == "here" && s.Now }) {
		t.Errorf("%d pods, want %d and the one that has a directory", n, mostSaid)
	}
}

// TestAging checks that confirmed ephemeral contents leave the quarantine automatically, earlier on a full disk, and
// that a user's data does not.
func TestAging(t *testing.T) {
	now := policy.Instant{Wall: time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC), Boot: 100 * time.Hour, BootID: "b"}
	ago := func(d time.Duration) policy.Instant {
		return policy.Instant{Wall: now.Wall.Add(-d), Boot: now.Boot - d, BootID: "b"}
	}
	entry := func(uid parsers.PodUID, phase policy.Phase, since time.Duration, left ...policy.Residue) policy.EntryState {
		return policy.EntryState{UID: uid, Phase: phase, ConfirmedAt: ago(since), Left: left}
	}
	ephemeral := policy.Residue{Class: contents.ClassEphemeral, Bytes: 1000}
	entries := []policy.EntryState{
		entry("late", policy.PhaseConfirmed, time.Minute, ephemeral, policy.Residue{Class: contents.ClassData, Bytes: 7}),
		entry("first", policy.PhaseConfirmed, time.Hour, ephemeral),
		entry("late", policy.PhaseConfirmed, 30*time.Minute, ephemeral), // the contents of one leaf
		entry("parked", policy.PhaseParked, 0, ephemeral),
		entry("conflict", policy.PhaseConflict, time.Hour, ephemeral),
		entry("data", policy.PhaseConfirmed, time.Hour, policy.Residue{Class: contents.ClassData, Bytes: 7}),
	}
	rules := policy.Rules{Retention: 24 * time.Hour}
	a := AgingOf(entries, rules, now, false)
	if len(a.UIDs) != 2 || a.UIDs[0] != "first" || a.UIDs[1] != "late" || a.Bytes != 3000 || a.In != 23*time.Hour {
		t.Errorf("%+v", a)
	}
	if pressed := AgingOf(entries, rules, now, true); pressed.In > 0 {
		t.Errorf("full disk: %+v", pressed)
	}
	if none := AgingOf(entries[3:], rules, now, false); len(none.UIDs) != 0 || none.Bytes != 0 {
		t.Errorf("empty quarantine: %+v", none)
	}
	// "late" and "data" contain data, and only an operator purges a conflict.
	if pods, bytes := DataOf(entries); pods != 3 || bytes != 1014 {
		t.Errorf("%d pods with %d bytes wait for an operator", pods, bytes)
	}
}

// TestRootNamed checks that the operator is shown a root directory of a line only if it can be pasted as it is.
func TestRootNamed(t *testing.T) {
	for words, want := range map[string]string{
		`orphaned pod "u" found, but failed to rmdir() volume at path /tmp/x/kubelet/pods/u/volumes/a: not empty`: "/tmp/x/kubelet",
		`"There were many errors" err="open /data/kubelet/pods/u/volumes: EIO"`:                                   "/data/kubelet",
		`path="/data/kubelet/pods/u/volumes"`:                                                                     "/data/kubelet",
		`orphaned pod "u" found, but volume paths are still present on disk`:                                      "",
		`at path /tmp/$(reboot)/pods/u`:                                                                           "",
		`at path /tmp/x;reboot/pods/u`:                                                                            "",
		"at path /tmp/\x1b[2J/pods/u":                                                                             "",
		`at path /tmp/../pods/u`:                                                                                  "",
		`at path tmp/pods/u`:                                                                                      "",
		`at path /pods/u`:                                                                                         "",
		`at path /tmp/kubelet/pods/another`:                                                                       "",
	} {
		if got := RootNamed([]Said{{UID: "v", Words: words}, {UID: "u", Words: words}}); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
