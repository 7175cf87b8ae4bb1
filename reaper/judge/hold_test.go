package judge

import (
	"testing"
	"time"
)

// TestHold plays scans of one pod, 30 s apart, and has the decision after each.
func TestHold(t *testing.T) {
	good := func(*Case) {}
	busy := func(c *Case) { c.Pod.Facts[Running] = Fact{Truth: Unknown, Busy: true} }
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
	c.Hold.SumSince = now.Add(-2 * time.Minute)
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("vol_data.json is two minutes old: %+v", v)
	}
	c.Pod.Skeleton.Youngest = now.Wall.Add(365 * 24 * time.Hour)
	if v, _ := Dead(c); v.Decision != Wait {
		t.Errorf("vol_data.json is from the future: %+v", v)
	}
	c.Hold.SumSince = now.Add(-operation)
	if v, _ := Dead(c); v.Decision != Remove {
		t.Errorf("vol_data.json is from the future, and has not changed for three minutes: %+v", v)
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
