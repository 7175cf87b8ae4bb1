package cni

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const sandboxID = "02538aa466dd02538aa466dd02538aa466dd02538aa466dd02538aa466dd0253"

// scene is a file whose sandbox is gone by every fact.
type scene struct {
	f    File
	node policy.Node
	l    Listing
	r    policy.Rules
	now  policy.Instant
}

func goneFile() *scene {
	now := policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: 100 * time.Hour}
	yes := policy.Fact{Truth: policy.Yes}
	const seen = 6 * time.Minute
	c := &scene{
		f: File{
			Kind: Cache, Name: "cbr0-" + sandboxID + "-eth0", Container: sandboxID, UID: "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11",
			Changed: now.Wall.Add(-25 * time.Hour),
		},
		node: policy.Node{Kubelet: yes, KubeletID: policy.KubeletID{PID: 812, Start: time.Hour}, RuntimeLists: yes, MayEnforce: yes, Agrees: yes},
		r:    policy.Rules{Hold: 5 * time.Minute, CNIOlderThan: 24 * time.Hour},
		now:  now,
		l:    Listing{Since: policy.Instant{Wall: now.Wall.Add(-seen), BootID: now.BootID, Boot: now.Boot - seen}, IDs: map[string]bool{}},
	}
	for n := range NumFacts {
		c.f.Set(n, policy.No, "test", "")
	}
	c.f.Set(Tied, policy.Yes, "test", "")
	return c
}

func (s *scene) judge() policy.Verdict { return Judge(&s.f, s.node, s.l, s.r, s.now) }

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scene)
		want   policy.Decision
		why    []policy.Reason
	}{
		{"gone", func(*scene) {}, policy.Reap, nil},
		{"tied to none", func(s *scene) { s.f.Set(Tied, policy.No, "", "") }, policy.Keep, []policy.Reason{policy.ReasonUntied}},
		{"listed", func(s *scene) { s.f.Set(Listed, policy.Yes, "", "") }, policy.Keep, []policy.Reason{policy.ReasonSandbox}},
		{"not answered", func(s *scene) { s.f.Set(Listed, policy.Unknown, "", "") }, policy.Keep, []policy.Reason{policy.ReasonRuntimeUnknown}},
		{"an empty answer", func(s *scene) {
			s.f.Set(Listed, policy.Unknown, "", "")
			s.node.RuntimeLists.Truth = policy.No
		}, policy.Keep, []policy.Reason{policy.ReasonRuntimeEmpty}},
		{"a task that the runtime does not list", func(s *scene) { s.f.Set(Alive, policy.Yes, "", "") }, policy.Keep, []policy.Reason{policy.ReasonInUse}},
		{"its namespace is there", func(s *scene) { s.f.Set(Netns, policy.Yes, "", "") }, policy.Keep, []policy.Reason{policy.ReasonNetns}},
		{"its namespace is not known", func(s *scene) { s.f.Set(Netns, policy.Unknown, "", "") }, policy.Keep, []policy.Reason{policy.ReasonNetns}},
		{"foreign", func(s *scene) { s.f.Set(Foreign, policy.Yes, "", "") }, policy.Keep, []policy.Reason{policy.ReasonForeign}},
		{"an hour old", func(s *scene) { s.f.Changed = s.now.Wall.Add(-time.Hour) }, policy.Wait, []policy.Reason{policy.ReasonYoung}},
		{"an hour old, of a pod that we took", func(s *scene) { s.f.Changed = s.now.Wall.Add(-time.Hour); s.f.Reaped = true }, policy.Reap, nil},
		{"from the future", func(s *scene) { s.f.Changed = s.now.Wall.Add(time.Hour) }, policy.Wait, []policy.Reason{policy.ReasonYoung, policy.ReasonHold}},
		{"of no age", func(s *scene) { s.f.Changed = time.Time{} }, policy.Keep, []policy.Reason{policy.ReasonYoung}},
		{"first look", func(s *scene) { s.l = Listing{} }, policy.Wait, []policy.Reason{policy.ReasonHold}},
		{"hold half over", func(s *scene) {
			s.l.Since = policy.Instant{BootID: s.now.BootID, Boot: s.now.Boot - 2*time.Minute}
		}, policy.Wait, []policy.Reason{policy.ReasonHold}},
		{"hold of another boot", func(s *scene) { s.l.Since.BootID = "boot-0" }, policy.Wait, []policy.Reason{policy.ReasonHold}},
		{"listed during the hold", func(s *scene) { s.l.IDs[sandboxID] = true }, policy.Wait, []policy.Reason{policy.ReasonHold}},
		{"no kubelet", func(s *scene) { s.node.Kubelet = policy.Fact{} }, policy.Keep, []policy.Reason{policy.ReasonKubeletUnknown}},
		{"broken, its sandbox is not ready", func(s *scene) {
			s.f.Broken, s.f.Changed = true, s.now.Wall.Add(-time.Hour)
			s.f.Set(Listed, policy.Yes, "", "")
			s.f.Set(Netns, policy.Yes, "", "")
			s.l.IDs[sandboxID] = true
		}, policy.Reap, nil},
		{"broken, its sandbox is ready", func(s *scene) {
			s.f.Broken = true
			s.f.Set(Listed, policy.Yes, "", "")
			s.f.Set(Ready, policy.Yes, "", "")
		}, policy.Keep, []policy.Reason{policy.ReasonSandbox}},
		{"broken, and whether its sandbox is ready is not known", func(s *scene) {
			s.f.Broken = true
			s.f.Set(Listed, policy.Yes, "", "")
			s.f.Set(Ready, policy.Unknown, "", "")
		}, policy.Keep, []policy.Reason{policy.ReasonSandbox}},
		{"broken, just being written", func(s *scene) {
			s.f.Broken, s.f.Changed = true, s.now.Wall.Add(-time.Second)
			s.f.Set(Listed, policy.Yes, "", "")
		}, policy.Wait, []policy.Reason{policy.ReasonYoung, policy.ReasonHold}},
		{"an address of a sandbox that is not ready", func(s *scene) {
			s.f.Kind, s.f.Broken = Address, true
			s.f.Set(Listed, policy.Yes, "", "")
		}, policy.Keep, []policy.Reason{policy.ReasonSandbox}},
		{"waived", func(s *scene) {
			s.r.Waive, s.node = true, policy.Node{}
			s.l = Listing{}
			s.f.Set(Listed, policy.Unknown, "", "")
		}, policy.Reap, []policy.Reason{policy.ReasonWaived}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goneFile()
			c.change(s)
			v := s.judge()
			var why []policy.Reason
			for _, w := range v.Why {
				why = append(why, w.Reason)
			}
			if v.Decision != c.want || !slices.Equal(why, c.why) {
				t.Errorf("%s for %v, want %s for %v", v.Decision, why, c.want, c.why)
			}
		})
	}
}

// TestCNIDoubtKeeps checks that a fact that turns Unknown or alive never lets a file be removed that was kept before.
func TestCNIDoubtKeeps(t *testing.T) {
	alive := [NumFacts]policy.Truth{Tied: policy.No, Listed: policy.Yes, Ready: policy.Yes, Alive: policy.Yes, Netns: policy.Yes, Foreign: policy.Yes}
	for _, broken := range []bool{false, true} {
		for mix := range 729 { // 3 to the sixth
			s := goneFile()
			s.f.Broken = broken
			for n, rest := FactName(0), mix; n < NumFacts; n, rest = n+1, rest/3 {
				s.f.Facts[n].Truth = policy.Truth(rest % 3)
			}
			before := s.judge().Decision
			for n := range NumFacts {
				for _, turn := range []policy.Truth{policy.Unknown, alive[n]} {
					if broken && n == Listed && turn == policy.Yes && s.f.Facts[Ready].Truth == policy.No {
						continue // a repair is meant for this case
					}
					after := *s
					after.f.Facts[n].Truth = turn
					if d := after.judge().Decision; before != policy.Reap && d == policy.Reap {
						t.Errorf("broken=%t %s: %s turned to %s changes %s to reap", broken, truths(s.f), n, turn, before)
					}
				}
			}
			if before == policy.Reap && s.f.Facts[Ready].Truth == policy.Yes && s.f.Facts[Listed].Truth != policy.No {
				t.Errorf("broken=%t: removed while its sandbox is ready", broken)
			}
		}
	}
	if v := Judge(&File{}, policy.Node{}, Listing{}, policy.Rules{}, policy.Instant{}); v.Decision != policy.Keep {
		t.Errorf("the verdict on zero values is %s", v.Decision)
	}
}

func truths(f File) (s string) {
	for n := range NumFacts {
		s += fmt.Sprintf("%s=%s ", n, f.Facts[n].Truth)
	}
	return s
}

// TestOutlookOf checks that a living container's file needs no operator, and that a file that a pod has open does.
func TestOutlookOf(t *testing.T) {
	inUse := []policy.Why{{Reason: policy.ReasonWaived}, {Reason: policy.ReasonInUse}}
	if policy.OutlookOf(policy.Keep, inUse) != policy.OutlookPerson || OutlookOf(policy.Keep, inUse) != policy.OutlookAlive {
		t.Errorf("in use: pod %d, file %d", policy.OutlookOf(policy.Keep, inUse), OutlookOf(policy.Keep, inUse))
	}
	for _, r := range []policy.Reason{policy.ReasonNetns, policy.ReasonForeign, policy.ReasonUntied} {
		if why := []policy.Why{{Reason: r}}; policy.OutlookOf(policy.Keep, why) != OutlookOf(policy.Keep, why) {
			t.Errorf("%s differs", r)
		}
	}
}

// TestListings checks that only a container that no complete response has listed for a hold counts as gone, and that
// those listed long ago are forgotten.
func TestListings(t *testing.T) {
	const hold = 5 * time.Minute
	at := func(minutes int) policy.Instant {
		d := time.Duration(minutes) * time.Minute
		return policy.Instant{Wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(d), BootID: "boot-1", Boot: time.Hour + d}
	}
	var l Listings
	l.Add([]string{"old"}, policy.Yes, hold, at(0))
	for minute := 1; minute <= 12; minute++ {
		l.Add([]string{"new"}, policy.Yes, hold, at(minute))
		if since, ok := at(minute).Since(l.Older.Since); minute >= 5 && (!ok || since < hold) {
			t.Errorf("minute %d: the oldest listing is only %s old", minute, since)
		}
		if minute < 5 && !l.Older.IDs["old"] {
			t.Errorf("minute %d: a container listed during the hold is forgotten", minute)
		}
	}
	if l.Older.IDs["old"] || !l.Older.IDs["new"] {
		t.Errorf("after two holds %v", l.Older.IDs)
	}
	for name, broken := range map[string]func(*Listings){
		"no answer":    func(l *Listings) { l.Add(nil, policy.Unknown, hold, at(13)) },
		"empty answer": func(l *Listings) { l.Add(nil, policy.No, hold, at(13)) },
		"another boot": func(l *Listings) {
			now := at(13)
			now.BootID = "boot-2"
			l.Add([]string{"new"}, policy.Yes, hold, now)
		},
	} {
		m := l
		broken(&m)
		if since, ok := at(13).Since(m.Older.Since); ok && since > 0 {
			t.Errorf("%s: the series continues, %s old", name, since)
		}
	}
}

// TestSweptRecord checks that a batch has one record, whatever its files' names, with the runtime that its broken
// files affect.
func TestSweptRecord(t *testing.T) {
	file := func(name, pod, runtime string, r policy.Result, err string) File {
		return File{
			Result: r, Err: err,
			Kind: Cache, Dir: "/var/lib/cni/results", Name: name, Namespace: "shop", PodName: pod,
			ID: FileID{Size: 10}, Broken: runtime != "", Runtime: runtime,
		}
	}
	ended := []File{
		file("a", "web-0", "", policy.Done, ""),
		file("b", "web-1", "containerd 1.6.20", policy.Done, ""),
		file("c", "", "containerd 1.6.20", policy.Done, ""),
		file("d\nMESSAGE=forged\x1b[2J", "web-2", "", policy.Refused, "it was changed"),
		file("e", "web-3", "cri-o 1.30.1", policy.Failed, "EIO"),
		file("f", "web-4", "", policy.Gone, ""),
	}
	r := RemovedRecord("cni-1", ended, policy.Node{}, policy.Instant{})
	if got := r.Taken[string(Cache)]; got.Entries != 3 || got.Bytes != 30 || !slices.Equal(r.Pods, []string{"shop/web-0", "shop/web-1"}) {
		t.Errorf("removed %+v of %q", got, r.Pods)
	}
	if r.Repaired != 2 || !slices.Equal(r.Runtimes, []string{"containerd 1.6.20"}) {
		t.Errorf("%d repaired for %q", r.Repaired, r.Runtimes)
	}
	if want := `/var/lib/cni/results/"d\nMESSAGE=forged\x1b[2J": it was changed (and 1 more)`; r.Err != want {
		t.Errorf("error %q, want %q", r.Err, want)
	}
}
