package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// inFiles is a pod that is dead but for the state files that name it, written so long ago.
func inFiles(written time.Duration, files ...string) *scene {
	s := deadScene()
	s.ev.Facts.Set(FactKubeletFile, Yes, "/var/lib/kubelet", "the kubelet's file names it")
	for _, f := range files {
		s.ev.StateFiles = append(s.ev.StateFiles, StateFile{Name: f, Written: s.now.Wall.Add(-written)})
	}
	return s
}

// namedAgo is what the kubelet that runs said of the pod, so long ago.
func (s *scene) namedAgo(ago time.Duration) *Heard {
	var h Heard
	h.Add([]Claim{{At: s.ago(ago), Sighting: parsers.Sighting{UID: testUID, PID: s.node.KubeletID.PID, Whole: true}}}, s.node, s.now)
	return &h
}

// TestStaleStateFile: a file that the kubelet writes only when it takes in another pod names
// one that it has let go; until the kubelet that runs has named the pod since, it keeps.
func TestStaleStateFile(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name    string
		written time.Duration // ago
		files   []string
		named   time.Duration // ago; 0 is never
		change  func(s *scene, h *Heard)
		want    Decision
	}{
		{name: "named since", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute, want: Reap},
		{name: "both of 1.33", written: hour, files: []string{"allocated_pods_state", "actuated_pods_state"}, named: time.Minute, want: Reap},
		{name: "device plugins", written: hour, files: []string{"device-plugins/kubelet_internal_checkpoint"}, named: time.Minute, want: Reap},
		{name: "device plugins, elsewhere", written: hour, files: []string{"/d/kubelet_internal_checkpoint"}, named: time.Minute, want: Reap},
		{name: "left by 1.32", written: 1000 * hour, files: []string{"pod_status_manager_state"}, named: time.Minute, want: Reap},
		{name: "memory manager", written: hour, files: []string{"memory_manager_state"}, named: time.Minute, want: Reap},
		{name: "never named", written: hour, files: []string{"allocated_pods_state"}, want: Keep},
		{name: "written since it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: hour, want: Keep},
		{name: "written as it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: time.Minute, want: Keep},
		{
			name: "one of two was written since", written: hour, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(s *scene, _ *Heard) {
				s.ev.StateFiles = append(s.ev.StateFiles, StateFile{Name: "actuated_pods_state", Written: s.now.Wall.Add(-time.Minute)})
			}, want: Keep,
		},
		{name: "a file that the kubelet keeps true", written: hour, files: []string{"cpu_manager_state"}, named: time.Minute, want: Keep},
		{name: "such a one besides", written: hour, files: []string{"allocated_pods_state", "dra_manager_state"}, named: time.Minute, want: Keep},
		{name: "a file that nobody knows", written: hour, files: []string{"tomorrows_state"}, named: time.Minute, want: Keep},
		{name: "another file could not be read", written: hour, named: time.Minute, want: Keep},
		{
			name: "the clock was set forward after it was written", written: hour, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(_ *scene, h *Heard) { // named at 11:50, written at 11:55, then an hour on
				at := h.NamedAt[testUID]
				at.Wall = at.Wall.Add(-2 * hour)
				h.NamedAt[testUID] = at
			}, want: Keep,
		},
		{
			name: "the clock was set back after it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(_ *scene, h *Heard) { // named at 12:50, then an hour back, written at 11:59
				at := h.NamedAt[testUID]
				at.Wall = at.Wall.Add(hour)
				h.NamedAt[testUID] = at
			}, want: Keep,
		},
		{name: "of a time to come", written: -hour, files: []string{"allocated_pods_state"}, named: time.Minute, want: Keep},
		{
			name: "another kubelet named it", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute,
			change: func(s *scene, _ *Heard) { s.node.KubeletID.PID++; s.ev.Facts.Set(FactReleased, Yes, "", "") }, want: Keep,
		},
		{
			name: "of the state of an older version, without times", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute,
			change: func(_ *scene, h *Heard) { h.NamedAt = nil }, want: Keep,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := inFiles(tt.written, tt.files...)
			var h Heard
			h.Add(nil, s.node, s.now)
			if tt.named > 0 {
				h = *s.namedAgo(tt.named)
			}
			if tt.change != nil {
				tt.change(s, &h)
			}
			if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Keep || !v.For(ReasonKubeletFile) {
				t.Fatalf("without the kubelet's word: %s %v, want keep for %s", v.Decision, v.Why, ReasonKubeletFile)
			}
			h.Tell(&s.ev, s.node, s.now)
			v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
			if v.Decision != tt.want || v.For(ReasonKubeletFile) != (tt.want == Keep) {
				t.Errorf("%s %v, want %s", v.Decision, v.Why, tt.want)
			}
			if tt.want == Reap {
				if v := Judge(s.ev, s.node, Hold{}, s.rules, s.now); v.Decision != Wait || !v.For(ReasonHold) {
					t.Errorf("at the first look: %s %v, want wait for %s", v.Decision, v.Why, ReasonHold)
				}
			}
		})
	}
}

// TestStaleStateFileParked: a parked pod does not live because of a file that named it before.
// One that was written since is a sign of life, unless another kubelet has started and written
// what it read.
func TestStaleStateFileParked(t *testing.T) {
	tests := []struct {
		name    string
		written time.Duration // ago; the pod was parked 30 minutes ago
		file    string
		kubelet bool // another kubelet runs
		named   time.Duration
		want    Truth
	}{
		{"as it was", 40 * time.Minute, "allocated_pods_state", false, 0, No},
		{"as it was, under another kubelet", 40 * time.Minute, "allocated_pods_state", true, 0, No},
		{"written and named while the hold ran", 34 * time.Minute, "allocated_pods_state", false, 33 * time.Minute, No},
		{"written since", 20 * time.Minute, "allocated_pods_state", false, 33 * time.Minute, Yes},
		{"written since, by another kubelet", 20 * time.Minute, "allocated_pods_state", true, 0, Unknown},
		{"a file that the kubelet keeps true", 40 * time.Minute, "cpu_manager_state", false, 33 * time.Minute, Yes},
		{"the same, under another kubelet", 40 * time.Minute, "cpu_manager_state", true, 0, Yes},
	}
	for _, tt := range tests {
		s := inFiles(tt.written, tt.file)
		state := EntryState{UID: testUID, Phase: PhaseParked, Parked: Parked{At: s.ago(30 * time.Minute), Kubelet: s.node.KubeletID}}
		var h Heard
		if tt.named > 0 {
			h = *s.namedAgo(tt.named)
		}
		if tt.kubelet {
			s.node.KubeletID = KubeletID{PID: 4711, Start: s.now.Boot - 25*time.Minute}
		}
		h.TellParked(&s.ev, s.node, state, s.now)
		v := JudgeParked(s.ev, s.node, state.Parked, s.rules, s.now)
		if got := s.ev.Facts[FactKubeletFile].Truth; got != tt.want || v.Alive != (tt.want == Yes) {
			t.Errorf("%s: %s, alive %t, want %s", tt.name, got, v.Alive, tt.want)
		}
	}
}

// TestWhenNamed: the latest naming counts, by the time at which the line was written; it is
// kept in the state beside what older versions read.
func TestWhenNamed(t *testing.T) {
	s := deadScene()
	h := s.namedAgo(10 * time.Minute)
	late := Claim{At: s.now, Sighting: parsers.Sighting{UID: testUID, PID: s.node.KubeletID.PID, Whole: true, Time: s.now.Wall.Add(-4 * time.Minute)}}
	h.Add([]Claim{late}, s.node, s.now)
	want := s.ago(4 * time.Minute)
	if got := h.NamedAt[testUID]; got != want {
		t.Errorf("named at %v, want %v", got, want)
	}
	late.Sighting.Time = s.now.Wall.Add(-8 * time.Minute)
	h.Add([]Claim{late}, s.node, s.now)
	if got := h.NamedAt[testUID]; got != want {
		t.Errorf("an older line moved it to %v", got)
	}
	text, err := json.Marshal(h)
	if err != nil || !strings.Contains(string(text), `"named":{"`+string(testUID)+`":true}`) || !strings.Contains(string(text), `"named_at"`) {
		t.Errorf("the state is %s, error %v", text, err)
	}
}
