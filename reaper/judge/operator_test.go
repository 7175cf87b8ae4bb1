package judge

import (
	"testing"
	"time"
)

// TestOrders has what an operator's commands do and what they must refuse.
func TestOrders(t *testing.T) {
	type edit func(p *Pod, e *Entry)
	phase := func(ph Phase) edit { return func(_ *Pod, e *Entry) { e.Phase = ph } }
	fact := func(n FactName, f Fact) edit { return func(p *Pod, e *Entry) { e.Phase, p.Facts[n] = Retained, f } }
	again := func(p *Pod, e *Entry) { e.Phase, p.Present = Retained, Yes }
	yes := Fact{Truth: Yes, Alive: true}
	tests := []struct {
		name                    string
		edit                    edit
		restore, replace, purge bool // not refused
	}{
		{"quarantined, not confirmed", phase(Quarantined), true, true, false},
		{"retained", phase(Retained), true, true, true},
		{"a move without a result", phase(Moving), false, false, false},
		{"a restore without a result", phase(Restoring), false, false, false},
		{"a clean without a result", phase(Cleaning), false, false, false},
		{"a purge without a result", phase(Purging), false, false, true},
		{"a conflict", func(p *Pod, e *Entry) { again(p, e); e.Phase = InConflict; p.Facts[Running] = yes }, false, true, true},
		{"a conflict, mounted", func(p *Pod, e *Entry) { again(p, e); e.Phase = InConflict; p.Facts[Mounted] = yes }, false, false, false},
		{"a conflict, mounts are not known", func(p *Pod, e *Entry) { again(p, e); e.Phase = InConflict; p.Facts[Mounted] = Fact{} }, false, false, false},
		{"another directory", again, false, true, false},
		{"it is not known whether there is another directory", func(p *Pod, e *Entry) { e.Phase, p.Present = Retained, Unknown }, false, false, false},
		{"alive", fact(Running, yes), true, true, false},
		{"mounted", fact(Mounted, Fact{Truth: Yes}), true, true, false},
		{"mounts are not known", fact(Mounted, Fact{}), true, true, false},
		{"the runtime is not known", fact(Running, Fact{}), true, true, false},
		{"cgroups are not known", fact(Cgroup, Fact{}), true, true, false},
	}
	for _, test := range tests {
		in := quarantined()
		p, e := in.Snapshot.Pods[0], in.Entries[uid+".1"]
		e.Name = uid + ".1"
		test.edit(&p, &e)
		if m, why := RestoreOrder(e, p, false, nil); (why == "") != test.restore || m.Action != Restore && why == "" {
			t.Errorf("%s: restore: %s %q", test.name, m.Action, why)
		}
		if _, why := RestoreOrder(e, p, true, nil); (why == "") != test.replace {
			t.Errorf("%s: restore --replace: %q", test.name, why)
		}
		if m, why := PurgeOrder(e, p, nil); (why == "") != test.purge || m.Entry != e.Name || m.ID != e.ID {
			t.Errorf("%s: purge: %q", test.name, why)
		}
	}
}

// TestUnmountable has which pods an operator may unmount.
func TestUnmountable(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*Case)
		want bool
	}{
		{"mounted, and nothing else", func(*Case) {}, true},
		{"no hold", func(c *Case) { c.Hold = Hold{} }, true},
		{"released by the text about volumes", func(c *Case) { c.Log.Volumes, c.Log.Removal = c.Log.Removal, Logged{} }, true},
		{"never reported", func(c *Case) { c.Log = Log{} }, false},
		{"an old text about volumes", func(c *Case) {
			c.Log.Volumes, c.Log.Removal = c.Log.Removal, Logged{}
			c.Log.Volumes.At = now.Add(-time.Minute)
		}, false},
		{"a forged text about volumes", func(c *Case) { c.Log.Volumes, c.Log.Removal = c.Log.Removal, Logged{}; c.Log.Volumes.PID = 1 }, false},
		{"alive", func(c *Case) { c.Pod.Facts[Running] = Fact{Truth: Yes, Alive: true} }, false},
		{"a cgroup", func(c *Case) { c.Pod.Facts[Cgroup] = Fact{Truth: Yes, Alive: true} }, false},
		{"a staged volume of another driver", func(c *Case) { c.Pod.Facts[Staged] = Fact{Truth: Yes} }, false},
		{"a volume that is being set up", func(c *Case) {
			c.Pod.Skeleton.Youngest, c.Hold.Seen = now.Wall.Add(-time.Minute), Instant{}
		}, false},
	} {
		c := dead()
		c.Pod.Facts[Mounted] = Fact{Truth: Yes, Alive: true}
		test.edit(&c)
		if v := Unmountable(c); (v.Decision == Remove) != test.want {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}
