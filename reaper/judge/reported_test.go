package judge

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestCredible shows for each condition of Credible that a line without it releases nothing.
func TestCredible(t *testing.T) {
	kubeletLog := &parsers.File{Dev: 8, Ino: 99}
	file := func(c *Case, own bool) {
		c.Node.Kubelet.Logs = []LogFile{{Path: "/var/log/kubelet.log", ID: FileID{Dev: 8, Ino: 99}, Own: own}}
		c.Log.Removal.Journal, c.Log.Removal.File = nil, kubeletLog
	}
	inJSON := func(c *Case) {
		c.Node.Kubelet.JSON = Yes
		c.Log.Removal.JSON, c.Log.Removal.PID, c.Log.Removal.HeaderZone = true, 0, true
	}
	tests := []struct {
		name string
		want Truth
		edit func(*Case)
	}{
		{"the kubelet's unit", Yes, func(*Case) {}},
		{"never reported", No, func(c *Case) { c.Log = Log{} }},
		{"a: another unit, by a process that calls itself kubelet", No, func(c *Case) { c.Log.Removal.Journal.Unit = "user@1000.service" }},
		{"a: no unit is known", No, func(c *Case) { c.Node.Kubelet.Unit, c.Log.Removal.Journal.Unit = "", "" }},
		{"a: the kubelet's own file", Yes, func(c *Case) { file(c, true) }},
		{"a: RKE2's kubelet.log", Yes, func(c *Case) { file(c, false) }},
		{"a: another file of the same name", No, func(c *Case) { file(c, true); c.Log.Removal.File = &parsers.File{Dev: 8, Ino: 100} }},
		{"a: a line of a file that has journald's fields in its text", No, func(c *Case) { c.Log.Removal.File = kubeletLog }},
		{"a: the same in the kubelet's own file", No, func(c *Case) {
			journal := c.Log.Removal.Journal
			file(c, true)
			c.Log.Removal.Journal = journal
		}},
		{"a: syslog without a journal", Yes, func(c *Case) {
			file(c, true)
			c.Node.Kubelet.Logs, c.Log.Removal.Syslog, c.Node.Journal = nil, true, No
		}},
		{"a: syslog beside a journal, to which any user can write", No, func(c *Case) {
			file(c, true)
			c.Node.Kubelet.Logs, c.Log.Removal.Syslog, c.Node.Journal = nil, true, Yes
		}},
		{"a: syslog, and it is not known whether there is a journal", No, func(c *Case) { file(c, true); c.Node.Kubelet.Logs, c.Log.Removal.Syslog = nil, true }},
		{"b: an earlier kubelet's PID", No, func(c *Case) { c.Log.Removal.PID = 99 }},
		{"b: an earlier kubelet that had this PID in its container", No, func(c *Case) {
			c.Node.Kubelet.Start = now.Boot - time.Second
			c.Log.Removal.Journal.Time = now.Wall.Add(-2 * time.Second)
		}},
		{"b: the same, by the header of a line in its file", No, func(c *Case) {
			file(c, true)
			c.Node.Kubelet.Start = now.Boot - time.Second
			c.Log.Removal.Header = now.Wall.Add(-2 * time.Second)
		}},
		{"b: no PID", No, func(c *Case) { c.Log.Removal.PID, c.Node.Kubelet.Inner = 0, 0 }},
		{"b: k0s writes the unit for the kubelet", Yes, func(c *Case) { c.Log.Removal.Journal.PID = 7 }},
		{"b: a kubelet in a PID namespace", Yes, func(c *Case) { c.Node.Kubelet.Inner, c.Log.Removal.PID = 3, 3 }},
		{"b: JSON by the kubelet's process", Yes, inJSON},
		{"b: JSON by another process of the unit", No, func(c *Case) { inJSON(c); c.Log.Removal.Journal.PID = 7 }},
		{"b: JSON in the kubelet's own file", Yes, func(c *Case) { inJSON(c); file(c, true) }},
		{"b: JSON in a file that another process writes", No, func(c *Case) { inJSON(c); file(c, false) }},
		{"b: JSON in the kubelet's own file, from before its start", No, func(c *Case) {
			inJSON(c)
			file(c, true)
			c.Node.Kubelet.Start = now.Boot - time.Second
			c.Log.Removal.Header = now.Wall.Add(-2 * time.Second)
		}},
		{"c: JSON of a kubelet that writes text", No, func(c *Case) { inJSON(c); c.Node.Kubelet.JSON = No }},
		{"c: text of a kubelet that writes JSON", No, func(c *Case) { c.Node.Kubelet.JSON = Yes }},
		{"c: the stream has both formats", No, func(c *Case) { c.Log.Removal.Mixed = true }},
		{"d, e: it may be a part of another message", No, func(c *Case) { c.Log.Removal.Whole = false }},
		{"f: arrived too long ago", No, func(c *Case) { c.Log.Removal.At = now.Add(-31 * time.Second) }},
		{"f: arrived just in time", Yes, func(c *Case) { c.Log.Removal.At = now.Add(-30 * time.Second) }},
		{"f: a stalled journal delivers it now", No, func(c *Case) { c.Log.Removal.Journal.Time = now.Wall.Add(-10 * time.Minute) }},
		{"f: of this boot, whose ID the kernel writes with dashes", Yes, func(c *Case) {
			c.Now.BootID, c.Log.Removal.At.BootID, c.Hold.Since.BootID, c.Hold.Seen.BootID = "61-49", "61-49", "61-49", "61-49"
			c.Log.Removal.Journal.BootID = "6149"
		}},
		{"f: of an earlier boot", No, func(c *Case) { c.Log.Removal.Journal.BootID = "a" }},
		{"f: a flushed queue delivers it now", No, func(c *Case) { c.Log.Removal.Header = now.Wall.Add(-10 * time.Minute) }},
		{"f: a flushed queue delivers JSON now", No, func(c *Case) { inJSON(c); c.Log.Removal.Header = now.Wall.Add(-10 * time.Minute) }},
		{"f: a header from the future", No, func(c *Case) { c.Log.Removal.Header = now.Wall.Add(time.Minute) }},
		{"f: a header without year and zone", Yes, func(c *Case) { c.Log.Removal.Header = now.Wall.AddDate(-now.Wall.Year(), 0, 0) }},
		{"f: no time at all", No, func(c *Case) { c.Log.Removal.Header = time.Time{} }},
		{"a text that no kubelet prints", No, func(c *Case) { c.Log.Removal.Kind = parsers.None }},
		{"the text about volumes in place of the other", No, func(c *Case) { c.Log.Removal.Kind = parsers.Volumes }},
		{"no kubelet runs", No, func(c *Case) { c.Node.KubeletKnown.Truth = No }},
		{"the kubelet has volumes of it", No, func(c *Case) { c.Log.Volumes = c.Log.Removal; c.Log.Volumes.Kind = parsers.Volumes }},
		{"a forged line about volumes", Yes, func(c *Case) {
			c.Log.Volumes = c.Log.Removal
			c.Log.Volumes.Kind, c.Log.Volumes.PID = parsers.Volumes, 1
		}},
	}
	for _, test := range tests {
		c := dead()
		c.Log.Removal.HeaderZone = false
		c.Log.Removal.Header = now.Wall.Add(-2 * time.Second)
		test.edit(&c)
		v, facts := Dead(c)
		if facts[Reported].Truth != test.want || (v.Decision == Remove) != (test.want == Yes) {
			t.Errorf("%s: %v, %+v", test.name, facts[Reported], v)
		}
	}
}

// TestInZone shows that a header without year and zone is completed to the nearest time, also at the turn of the year.
func TestInZone(t *testing.T) {
	header := time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC)
	at := time.Date(2027, 1, 1, 0, 0, 5, 0, time.UTC)
	if got := inZone(header, at, time.UTC); at.Sub(got) != 6*time.Second {
		t.Errorf("a line of the old year is %s old", at.Sub(got))
	}
	header, at = time.Date(0, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	if got := inZone(header, at, time.UTC); got.Sub(at) != 2*time.Second {
		t.Errorf("a line of the new year is %s ahead", got.Sub(at))
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	header = time.Date(0, 10, 25, 2, 30, 0, 0, time.UTC)
	for _, at := range []time.Time{time.Date(2026, 10, 25, 0, 30, 5, 0, time.UTC), time.Date(2026, 10, 25, 1, 30, 5, 0, time.UTC)} { // the hour comes twice
		if got := inZone(header, at, berlin); at.Sub(got) != 5*time.Second {
			t.Errorf("at %s a line of now is %s old", at, at.Sub(got))
		}
	}
}

// TestNodesZone shows that the time in klog's header counts in the zone of the node: the clock of this program has UTC.
func TestNodesZone(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	time.Local = time.FixedZone("IST", 5*3600+1800)
	c := dead()
	local := c.Now.Wall.UTC().In(time.Local)
	c.Now.Wall = c.Now.Wall.UTC()
	c.Log.Removal.HeaderZone = false
	c.Log.Removal.Header = time.Date(0, local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	if f := c.Log.reported(c.Node, c.Now); f.Truth != Yes {
		t.Errorf("a header in the node's zone: %+v", f)
	}
	c.Log.Removal.Journal = nil
	if got := c.Log.Removal.Written(); c.Now.Wall.Sub(got).Abs() > time.Second {
		t.Errorf("written at %s, want %s", got, c.Now.Wall)
	}
}
