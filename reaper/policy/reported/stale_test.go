package reported

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// inFiles is a pod that is dead except that state files list it, written that long ago.
func inFiles(written time.Duration, files ...string) *testkit.Scene {
	s := testkit.DeadPod()
	s.Pod.Facts.Set(policy.FactKubeletFile, policy.Yes, "/var/lib/kubelet", "the kubelet's file names it")
	for _, f := range files {
		s.Pod.StateFiles = append(s.Pod.StateFiles, policy.StateFile{Name: f, Written: s.Now.Wall.Add(-written)})
	}
	return s
}

// namedAgo is the log with the running kubelet's report of the pod that long ago.
func namedAgo(s *testkit.Scene, ago time.Duration) *Log {
	var h Log
	h.Add([]Claim{{At: s.Ago(ago), Sighting: parsers.Sighting{UID: testkit.PodUID, PID: s.Node.KubeletID.PID, Whole: true}}}, s.Node, s.Now)
	return &h
}

// TestStaleStateFile checks that a state file that the kubelet rewrites only for new pods keeps a released pod only
// until the running kubelet has reported the pod since the file was written.
func TestStaleStateFile(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name    string
		written time.Duration // ago
		files   []string
		named   time.Duration // ago; 0 is never
		change  func(s *testkit.Scene, h *Log)
		want    policy.Decision
	}{
		{name: "named since", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute, want: policy.Reap},
		{name: "both of 1.33", written: hour, files: []string{"allocated_pods_state", "actuated_pods_state"}, named: time.Minute, want: policy.Reap},
		{name: "device plugins", written: hour, files: []string{"device-plugins/kubelet_internal_checkpoint"}, named: time.Minute, want: policy.Reap},
		{name: "device plugins, elsewhere", written: hour, files: []string{"/d/kubelet_internal_checkpoint"}, named: time.Minute, want: policy.Reap},
		{name: "left by 1.32", written: 1000 * hour, files: []string{"pod_status_manager_state"}, named: time.Minute, want: policy.Reap},
		{name: "memory manager", written: hour, files: []string{"memory_manager_state"}, named: time.Minute, want: policy.Reap},
		{name: "never named", written: hour, files: []string{"allocated_pods_state"}, want: policy.Keep},
		{name: "written since it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: hour, want: policy.Wait},
		{name: "written as it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: time.Minute, want: policy.Wait},
		{
			name: "one of two was written since", written: hour, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(s *testkit.Scene, _ *Log) {
				s.Pod.StateFiles = append(s.Pod.StateFiles, policy.StateFile{Name: "actuated_pods_state", Written: s.Now.Wall.Add(-time.Minute)})
			}, want: policy.Wait,
		},
		{name: "a file that the kubelet keeps true", written: hour, files: []string{"cpu_manager_state"}, named: time.Minute, want: policy.Keep},
		{name: "such a one besides", written: hour, files: []string{"allocated_pods_state", "dra_manager_state"}, named: time.Minute, want: policy.Keep},
		{name: "a file that nobody knows", written: hour, files: []string{"tomorrows_state"}, named: time.Minute, want: policy.Keep},
		{name: "another file could not be read", written: hour, named: time.Minute, want: policy.Keep},
		{
			name: "the clock was set forward after it was written", written: hour, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(_ *testkit.Scene, h *Log) { // reported at 11:50, written at 11:55, then the clock is set an hour forward
				at := h.NamedAt[testkit.PodUID]
				at.Wall = at.Wall.Add(-2 * hour)
				h.NamedAt[testkit.PodUID] = at
			}, want: policy.Wait,
		},
		{
			name: "the clock was set back after it was named", written: time.Minute, files: []string{"allocated_pods_state"}, named: 10 * time.Minute,
			change: func(_ *testkit.Scene, h *Log) { // reported at 12:50, then the clock is set an hour back, written at 11:59
				at := h.NamedAt[testkit.PodUID]
				at.Wall = at.Wall.Add(hour)
				h.NamedAt[testkit.PodUID] = at
			}, want: policy.Wait,
		},
		{name: "of a time to come", written: -hour, files: []string{"allocated_pods_state"}, named: time.Minute, want: policy.Wait},
		{
			name: "another kubelet named it", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute,
			change: func(s *testkit.Scene, _ *Log) {
				s.Node.KubeletID.PID++
				s.Pod.Facts.Set(policy.FactReleased, policy.Yes, "", "")
			}, want: policy.Keep,
		},
		{
			name: "of the state of an older version, without times", written: hour, files: []string{"allocated_pods_state"}, named: time.Minute,
			change: func(_ *testkit.Scene, h *Log) { h.NamedAt = nil }, want: policy.Wait,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := inFiles(tt.written, tt.files...)
			var h Log
			h.Add(nil, s.Node, s.Now)
			if tt.named > 0 {
				h = *namedAgo(s, tt.named)
			}
			if tt.change != nil {
				tt.change(s, &h)
			}
			if v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now); v.Decision != policy.Keep || !v.For(policy.ReasonKubeletFile) {
				t.Fatalf("without the kubelet's report: %s %v, want keep for %s", v.Decision, v.Why, policy.ReasonKubeletFile)
			}
			h.Complete(&s.Pod, s.Node, s.Now)
			v := policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now)
			if v.Decision != tt.want || v.For(policy.ReasonKubeletFile) != (tt.want != policy.Reap) {
				t.Errorf("%s %v, want %s", v.Decision, v.Why, tt.want)
			}
			if tt.want == policy.Reap {
				if v := policy.Judge(s.Pod, s.Node, policy.Hold{}, s.Rules, s.Now); v.Decision != policy.Wait || !v.For(policy.ReasonHold) {
					t.Errorf("at the first look: %s %v, want wait for %s", v.Decision, v.Why, policy.ReasonHold)
				}
			}
		})
	}
}

// TestStaleStateFileParked checks that a file that listed a pod before it was parked is no sign of life. A file
// written since is one, unless another kubelet has started and written what it read.
func TestStaleStateFileParked(t *testing.T) {
	tests := []struct {
		name    string
		written time.Duration // ago; the pod was parked 30 minutes ago
		file    string
		kubelet bool // another kubelet runs
		named   time.Duration
		want    policy.Truth
		set     time.Duration // change of the wall clock since the parking
	}{
		{"another file could not be read", 20 * time.Minute, "", false, 0, policy.Unknown, 0},
		{"written in the future", -time.Minute, "allocated_pods_state", false, 0, policy.Unknown, 0},
		{"written before the parking, and no list answers", 32 * time.Minute, "allocated_pods_state", false, 0, policy.Unknown, 0},
		{"as it was, and the clock was set back", 32 * time.Minute, "allocated_pods_state", false, 31 * time.Minute, policy.Unknown, -10 * time.Minute},
		{"written since, and the clock was set", 20 * time.Minute, "allocated_pods_state", false, 33 * time.Minute, policy.Unknown, 10 * time.Minute},
		{"as it was", 40 * time.Minute, "allocated_pods_state", false, 0, policy.No, 0},
		{"as it was, under another kubelet", 40 * time.Minute, "allocated_pods_state", true, 0, policy.No, 0},
		{"written and named while the hold ran", 34 * time.Minute, "allocated_pods_state", false, 33 * time.Minute, policy.No, 0},
		{"written since", 20 * time.Minute, "allocated_pods_state", false, 33 * time.Minute, policy.Yes, 0},
		{"written since, by another kubelet", 20 * time.Minute, "allocated_pods_state", true, 0, policy.Unknown, 0},
		{"a file that the kubelet keeps true", 40 * time.Minute, "cpu_manager_state", false, 33 * time.Minute, policy.Yes, 0},
		{"the same, under another kubelet", 40 * time.Minute, "cpu_manager_state", true, 0, policy.Yes, 0},
	}
	for _, tt := range tests {
		s := inFiles(tt.written, tt.file)
		state := policy.EntryState{UID: testkit.PodUID, Phase: policy.PhaseParked, Parked: policy.Parked{At: s.Ago(30 * time.Minute), Kubelet: s.Node.KubeletID}}
		s.Now.Wall = s.Now.Wall.Add(tt.set)
		var h Log
		if tt.named > 0 {
			h = *namedAgo(s, tt.named)
		}
		if tt.file == "" {
			s.Pod.StateFiles = nil
		}
		if tt.kubelet {
			s.Node.KubeletID = policy.KubeletID{PID: 4711, Start: s.Now.Boot - 25*time.Minute}
		}
		h.CompleteEntry(&s.Pod, s.Node, state, s.Now)
		v := policy.JudgeParked(s.Pod, s.Node, state.Parked, s.Rules, s.Now)
		if got := s.Pod.Facts[policy.FactKubeletFile].Truth; got != tt.want || v.Alive != (tt.want == policy.Yes) {
			t.Errorf("%s: %s, alive %t, want %s", tt.name, got, v.Alive, tt.want)
		}
	}
}

// TestWhenNamed checks that the latest report counts, by the time in the line, and that the state file keeps it
// beside the keys of older versions.
func TestWhenNamed(t *testing.T) {
	s := testkit.DeadPod()
	h := namedAgo(s, 10*time.Minute)
	late := Claim{At: s.Now, Sighting: parsers.Sighting{UID: testkit.PodUID, PID: s.Node.KubeletID.PID, Whole: true, Time: s.Now.Wall.Add(-4 * time.Minute)}}
	h.Add([]Claim{late}, s.Node, s.Now)
	want := s.Ago(4 * time.Minute)
	if got := h.NamedAt[testkit.PodUID]; got != want {
		t.Errorf("reported at %v, want %v", got, want)
	}
	late.Sighting.Time = s.Now.Wall.Add(-8 * time.Minute)
	h.Add([]Claim{late}, s.Node, s.Now)
	if got := h.NamedAt[testkit.PodUID]; got != want {
		t.Errorf("an older line moved it to %v", got)
	}
	text, err := json.Marshal(h)
	if err != nil || !strings.Contains(string(text), `"named":{"`+string(testkit.PodUID)+`":true}`) || !strings.Contains(string(text), `"named_at"`) {
		t.Errorf("the state file is %s, error %v", text, err)
	}
}
