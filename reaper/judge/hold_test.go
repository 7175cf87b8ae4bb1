package judge

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestHold plays scans of one pod, 30 s apart, and has the decision after each.
func TestHold(t *testing.T) {
	good := func(*Case) {}
	busy := func(c *Case) { c.Pod.Facts[Running] = Fact{Truth: Unknown, Busy: true} }
	busyAndAlive := func(c *Case) {
		c.Pod.Facts[Running], c.Pod.Facts[Cgroup] = Fact{Busy: true}, Fact{Truth: Yes, Alive: true}
	}
	alive := func(c *Case) { c.Pod.Facts[Running] = Fact{Truth: Yes, Alive: true} }
	unknown := func(c *Case) { c.Pod.Facts[Mounted] = Fact{} }
	changed := func(c *Case) { c.Pod.Skeleton.Sum++ }
	replaced := func(c *Case) { c.Pod.ID.Ino++ }
	silent := func(c *Case) { c.Log = Log{} }
	booted := func(c *Case) { c.Now.BootID = "c" }
	tests := []struct {
		name  string
		scans []func(*Case)
		want  []Decision
	}{
		{"good", []func(*Case){good, good, good, good}, []Decision{Wait, Wait, Remove, Remove}},
		{"the hold runs before the kubelet reports the pod", []func(*Case){silent, silent, silent, good}, []Decision{Keep, Keep, Keep, Remove}},
		{"alive in between", []func(*Case){good, alive, good, good, good}, []Decision{Wait, IsAlive, Wait, Wait, Remove}},
		{"not readable in between", []func(*Case){good, unknown, good, good, good}, []Decision{Wait, Keep, Wait, Wait, Remove}},
		{"busy in between", []func(*Case){good, busy, good, good}, []Decision{Wait, Wait, Remove, Remove}},
		{"busy, and it is alive", []func(*Case){good, busyAndAlive, good, good, good}, []Decision{Wait, IsAlive, Wait, Wait, Remove}},
		{"busy at the end", []func(*Case){good, good, busy}, []Decision{Wait, Wait, Wait}},
		{"busy from the start", []func(*Case){busy, busy, busy, good}, []Decision{Wait, Wait, Wait, Wait}},
		{"changed once", []func(*Case){good, changed, good, good, good}, []Decision{Wait, Wait, Wait, Wait, Remove}},
		{"replaced at the end", []func(*Case){good, good, replaced}, []Decision{Wait, Wait, Wait}},
		{"booted at the end", []func(*Case){good, good, booted}, []Decision{Wait, Wait, Keep}},
	}
	for _, test := range tests {
		var h Hold
		for i, edit := range test.scans {
			c := dead()
			c.Now = now.Add(time.Duration(i) * 30 * time.Second)
			c.Log.Removal.At, c.Log.Removal.Header, c.Log.Removal.Journal.Time = c.Now, c.Now.Wall, c.Now.Wall
			c.Hold = h
			edit(&c)
			v, facts := Dead(c)
			if v.Decision != test.want[i] {
				t.Errorf("%s, scan %d: %s, want %s: %+v", test.name, i, v.Decision, test.want[i], v.Reasons)
			}
			h = h.Next(c, facts)
		}
	}
}

// TestYoung shows the loss that the three minutes prevent: a NodePublish that was begun before the pod was deleted.
func TestYoung(t *testing.T) {
	c := dead()
	c.Pod.Skeleton.Youngest = now.Wall.Add(-2 * time.Minute)
	c.Hold.Youngest, c.Hold.Seen = c.Pod.Skeleton.Youngest, now.Add(-2*time.Minute)
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("vol_data.json is two minutes old: %+v", v)
	}
	c.Pod.Skeleton.Youngest = now.Wall.Add(365 * 24 * time.Hour)
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("vol_data.json is from the future: %+v", v)
	}
	c.Hold.Youngest, c.Hold.Seen = c.Pod.Skeleton.Youngest, now.Add(-operation)
	if v, _ := Dead(c); v.Decision != Remove {
		t.Errorf("vol_data.json is from the future, and has not changed for three minutes: %+v", v)
	}
	c.Pod.Skeleton.Youngest = now.Wall.Add(-time.Second) // a NodePublish is tried again in what was there for long
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("vol_data.json was written again: %+v", v)
	}
	c.Pod.Skeleton.Youngest, c.ClockSet = now.Wall.Add(-time.Hour), now.Add(-time.Minute) // it may be two minutes old
	c.Hold.Youngest, c.Hold.Seen = c.Pod.Skeleton.Youngest, now.Add(-time.Minute)
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("the clock was set forward: %+v", v)
	}
	c.Pod.Skeleton.Youngest = time.Time{}
	if _, left := c.young(); left > 0 {
		t.Errorf("a pod without a volume waits %s for the clock", left)
	}
	c.Hold = Hold{}
	if h := c.Hold.Next(c, c.facts()); h.Since != c.Now {
		t.Errorf("the hold does not run beside the three minutes: %+v", h)
	}
}

// TestRestored shows how long a pod is kept that was restored before.
func TestRestored(t *testing.T) {
	for _, test := range []struct {
		name string
		r    Restoration
		hold time.Duration
		want Decision
	}{
		{"by an operator", Restoration{Operator: true}, time.Hour, Keep},
		{"alive once, the usual hold", Restoration{Times: 1}, time.Minute, Wait},
		{"alive once, ten times the hold", Restoration{Times: 1}, 10 * time.Minute, Remove},
		{"alive twice, ten times the hold", Restoration{Times: 2}, 10 * time.Minute, Wait},
		{"alive twice, twenty times the hold", Restoration{Times: 2}, 20 * time.Minute, Remove},
		{"alive a thousand times, a day", Restoration{Times: 1000}, 24 * time.Hour, Remove},
	} {
		c := dead()
		c.Now = now.Add(48 * time.Hour)
		c.Log.Removal.At, c.Log.Removal.Header, c.Log.Removal.Journal.Time = c.Now, c.Now.Wall, c.Now.Wall
		c.Restored = &test.r
		c.Hold.Since = c.Now.Add(-test.hold)
		if v, _ := Dead(c); v.Decision != test.want {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}

// TestSilent has when a pod that an operator restored may be judged again: the kubelet has had an hour to report it.
func TestHides(t *testing.T) {
	reported, there := Facts{Reported: {Truth: Yes}}, Facts{Directory: {Truth: Yes}}
	for _, test := range []struct {
		name string
		j    Judged
		want bool
	}{
		{"kept and reported", Judged{Pod: Pod{UID: uid}, Verdict: Verdict{Decision: Keep}, Facts: reported}, true},
		{"alive again and reported", Judged{Pod: Pod{UID: uid}, Verdict: Verdict{Decision: IsAlive}, Facts: reported}, true},
		{"it waits", Judged{Pod: Pod{UID: uid}, Verdict: Verdict{Decision: Wait}, Facts: reported}, false},
		{"kept and not reported", Judged{Pod: Pod{UID: uid}, Verdict: Verdict{Decision: Keep}, Facts: there}, false},
		{"no UID", Judged{Verdict: Verdict{Decision: Keep}, Facts: there}, true},
		{"no UID, and no directory", Judged{Verdict: Verdict{Decision: Keep}}, false},
	} {
		if got := test.j.Hides(); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestSilent(t *testing.T) {
	hour := now.Add(-time.Hour)
	for _, test := range []struct {
		name string
		edit func(in *Input, r *Restoration, log *Log, listening *Instant)
		want int
	}{
		{"silent for an hour", func(*Input, *Restoration, *Log, *Instant) {}, 1},
		{"restored 50 minutes ago", func(_ *Input, r *Restoration, _ *Log, _ *Instant) { r.At = now.Add(-50 * time.Minute) }, 0},
		{"restored before the boot", func(_ *Input, r *Restoration, _ *Log, _ *Instant) { r.At.BootID = "a" }, 1},
		{"reported 50 minutes ago", func(_ *Input, _ *Restoration, log *Log, _ *Instant) { log.Removal.At = now.Add(-50 * time.Minute) }, 0},
		{"its volumes were", func(_ *Input, _ *Restoration, log *Log, _ *Instant) { log.Volumes.At = now.Add(-50 * time.Minute) }, 0},
		{"reported two hours ago", func(_ *Input, _ *Restoration, log *Log, _ *Instant) { log.Removal.At = now.Add(-2 * time.Hour) }, 1},
		{"listening for 50 minutes", func(_ *Input, _ *Restoration, _ *Log, l *Instant) { *l = now.Add(-50 * time.Minute) }, 0},
		{"not listening", func(_ *Input, _ *Restoration, _ *Log, l *Instant) { *l = Instant{} }, 0},
		{"the kubelet runs for 50 minutes", func(in *Input, _ *Restoration, _ *Log, _ *Instant) { in.Snapshot.Node.Kubelet.Start = 10 * time.Minute }, 0},
		{"no kubelet runs", func(in *Input, _ *Restoration, _ *Log, _ *Instant) { in.Snapshot.Node.KubeletKnown.Truth = Unknown }, 0},
		{"restored because it was alive", func(_ *Input, r *Restoration, _ *Log, _ *Instant) { r.Operator = false }, 0},
	} {
		r, log, listening := Restoration{At: hour, Operator: true}, Log{}, hour
		in := Input{Snapshot: Snapshot{Node: dead().Node}, Now: now}
		in.Snapshot.Node.Kubelet.Start = 0
		test.edit(&in, &r, &log, &listening)
		in.Restored, in.Logs = map[parsers.PodUID]Restoration{uid: r}, map[parsers.PodUID]Log{uid: log}
		if got := Silent(in, listening); len(got) != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
