package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// TestAdvice has the next step for a pod with several reasons: no command that another reason makes refuse.
func TestAdvice(t *testing.T) {
	yes := Fact{Truth: Yes, Alive: true}
	mounted := func(c *Case) { c.Pod.Facts[Mounted] = yes }
	unmount, verbose := "orphan-reaper unmount "+uid, "/api/v1/nodes/n1/proxy/debug/flags/v"
	for _, test := range []struct {
		name string
		edit func(*Case)
		do   string   // a part of the text, "" for no advice
		want []string // parts of the commands
	}{
		{"nothing keeps it", func(*Case) {}, "", nil},
		{"mounted and reported", mounted, "Unmount", []string{unmount}},
		{"mounted and silent", func(c *Case) { mounted(c); c.Log = Log{} }, "silent", []string{"printf 5 | ", unmount, "printf 2 | "}},
		{"mounted in a process's namespace", func(c *Case) {
			c.Pod.Facts[Mounted] = Fact{Truth: Yes, Detail: "PID 7 (agent)"}
		}, "PID 7 (agent)", nil},
		{"mounted so, and silent", func(c *Case) {
			c.Pod.Facts[Mounted], c.Log = Fact{Truth: Yes, Detail: "PID 7 (agent)"}, Log{}
		}, "PID 7 (agent)", nil},
		{"the kubelet has volumes of it", func(c *Case) {
			c.Log = Log{Volumes: c.Log.Removal}
			c.Log.Volumes.Kind = parsers.Volumes
		}, "", nil},
		{"mounted and staged", func(c *Case) { mounted(c); c.Pod.Facts[Staged].Truth = Yes }, "restart the kubelet", []string{"systemctl restart kubelet.service"}},
		{"staged, and the kubelet runs in no unit", func(c *Case) { c.Pod.Facts[Staged].Truth, c.Node.Kubelet.Unit, c.Log = Yes, "", Log{} }, "CSI driver", nil},
		{"no directory", func(c *Case) { c.Pod.Facts[Directory] = Fact{Truth: No, Source: "/p/x", Detail: "it is a mount point"} }, "it is a mount point (/p/x)", nil},
		{"mounted and restored", func(c *Case) { mounted(c); c.Restored = &Restoration{Operator: true} }, "judged again", []string{"orphan-reaper sweep " + uid}},
		{"mounted, no kubelet", func(c *Case) { mounted(c); c.Node.KubeletKnown.Truth = No }, "Start the kubelet", nil},
		{"mounted, the runtime is not known", func(c *Case) { mounted(c); c.Pod.Facts[Running] = Fact{Detail: "no answer"} }, "no answer", nil},
		{"mounted, and the kubelet is at work", func(c *Case) {
			mounted(c)
			c.Pod.Skeleton.Youngest, c.Hold = now.Wall, Hold{}
		}, "", nil},
		{"mounted and alive", func(c *Case) { mounted(c); c.Pod.Facts[Running] = yes }, "", nil},
		{"a cgroup since a minute", func(c *Case) {
			c.Pod.Facts[Cgroup], c.Log.First = yes, now.Wall.Add(-time.Minute)
		}, "cgroup", []string{"-path '*pod0badf00d[-_]0001[-_]"}},
		{"a cgroup since a second", func(c *Case) { c.Pod.Facts[Cgroup], c.Log.First = yes, now.Wall.Add(-time.Second) }, "", nil},
		{"hidden", func(c *Case) { c.Log = Log{} }, "report all orphans", []string{verbose, "sleep 10", "printf 2 | "}},
		{"no UID", func(c *Case) { c.Pod.UID, c.Pod.Name = "", "lost+found" }, "move it out", nil},
	} {
		c := dead()
		c.Node.Name, c.Node.Kubelet.Verbosity = "n1", 2
		test.edit(&c)
		v, facts := Dead(c)
		a := c.advice(v, facts)
		if a == nil {
			a = &Advice{}
		}
		ok := strings.Contains(a.Do, test.do) && (test.do == "") == (a.Do == "") && len(a.Commands) == len(test.want)
		for i := range min(len(a.Commands), len(test.want)) {
			ok = ok && strings.Contains(a.Commands[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: %v: %+v", test.name, v, a)
		}
		if v.Operator && a.Do == "" {
			t.Errorf("%s: it needs an operator and has no advice", test.name)
		}
	}
}

// TestAdviceOfTheBlind: a process that does not see the node's mounts unmounts and purges nothing, and may restore.
func TestAdviceOfTheBlind(t *testing.T) {
	c, in := dead(), quarantined()
	c.Pod.UID, c.Pod.Facts[Mounted] = "0badf00d-0002-4aaa-8bbb-cccc00000002", Fact{Truth: Yes}
	in.Snapshot.Pods = append(in.Snapshot.Pods, c.Pod)
	e := in.Entries[uid+".1"]
	e.Phase, e.Left = Retained, []Residue{{Class: content.Data}}
	in.Entries[uid+".1"] = e
	in.Permit = Standing{Node: in.Snapshot.Node}.Gate()
	d := Decide(in)
	if a := d.Pods[0].Advice; a == nil || len(a.Commands) > 0 || !strings.Contains(a.Do, "mount namespaces") {
		t.Errorf("a mounted pod: %+v", a)
	}
	if a := d.Entries[0].Advice; a == nil || !slices.Equal(a.Commands, []string{"orphan-reaper quarantine restore " + uid}) {
		t.Errorf("an entry with data: %+v", a)
	}
}

// TestEntryAdvice: of restore and purge only what is not refused.
func TestEntryAdvice(t *testing.T) {
	restore, replace, purge := "orphan-reaper quarantine restore "+uid, "orphan-reaper quarantine restore "+uid+" --replace", "orphan-reaper quarantine purge "+uid
	for _, test := range []struct {
		name string
		edit func(p *Pod, e *Entry)
		want []string
	}{
		{"data", func(_ *Pod, e *Entry) { e.Left = []Residue{{Class: content.Data}} }, []string{restore, purge}},
		{"ephemeral", func(*Pod, *Entry) {}, []string{restore}},
		{"a conflict", func(p *Pod, e *Entry) { e.Phase, p.Present = InConflict, Yes }, []string{replace, purge}},
		{"a conflict, the new directory is mounted", func(p *Pod, e *Entry) {
			e.Phase, p.Present, p.Facts[Mounted] = InConflict, Yes, Fact{Truth: Yes}
		}, nil},
		{"alive, and partly removed", func(p *Pod, _ *Entry) { p.Present = Yes }, nil},
		{"a purge is under way", func(_ *Pod, e *Entry) { e.Phase = Purging }, nil},
	} {
		in := quarantined()
		p, e := &in.Snapshot.Pods[0], in.Entries[uid+".1"]
		e.Phase, e.ConfirmedAt = Retained, now
		test.edit(p, &e)
		in.Entries[uid+".1"] = e
		var got []string
		j := Decide(in).Entries[0]
		if j.Advice != nil {
			got = j.Advice.Commands
		}
		promises := len(got) == 0 && j.Advice != nil && strings.HasSuffix(j.Advice.Do, ":")
		if !slices.Equal(got, test.want) || j.Operator && j.Advice == nil || promises {
			t.Errorf("%s: %v: %v", test.name, j.Verdict, j.Advice)
		}
	}
}

// TestDryRun: a dry run has the verdicts of the same run, and changes nothing.
func TestDryRun(t *testing.T) {
	c := dead()
	in := quarantined()
	entry := in.Snapshot.Pods[0]
	entry.UID = "0badf00d-0002-4aaa-8bbb-cccc00000002"
	in.Entries = map[string]Entry{string(entry.UID) + ".1": {UID: entry.UID, Phase: Quarantined, MovedAt: now.Add(-time.Hour)}}
	in.Snapshot = Snapshot{Node: c.Node, Pods: []Pod{c.Pod, entry}}
	in.Logs, in.Holds = map[parsers.PodUID]Log{uid: c.Log}, map[parsers.PodUID]Hold{uid: c.Hold}
	in.Snapshot.Node.SeesMounts.Truth = Yes
	for _, breaker := range []bool{false, true} {
		in.Permit = Standing{Node: in.Snapshot.Node, DryRun: true, Breaker: breaker}.Gate()
		d := Decide(in)
		if gone := d.Pods[0].Decision == Remove && d.Entries[0].Decision == Remove; gone == breaker {
			t.Errorf("breaker %t: %+v, %+v", breaker, d.Pods[0].Verdict, d.Entries[0].Verdict)
		}
		if p := d.Plan; len(p.Moves)+len(p.Cleans)+len(p.Restores) > 0 {
			t.Errorf("a dry run plans %+v", p)
		}
	}
}
