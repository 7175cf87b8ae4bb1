package probe

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestCgroupIdle: a cgroup is idle only where its kernel files say so, at any depth and in every
// hierarchy.
func TestCgroupIdle(t *testing.T) {
	uid := newUID()
	pod := "cgroup/kubepods.slice/pod" + string(uid)
	tests := []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"version 2, no process", map[string]string{pod + "/cgroup.events": "populated 0\nfrozen 0\n"}, true},
		{"version 2, a process somewhere below", map[string]string{pod + "/cgroup.events": "populated 1\nfrozen 0\n"}, false},
		{"version 2, without the word", map[string]string{pod + "/cgroup.events": "frozen 0\n"}, false},
		{"version 1, no process", map[string]string{pod + "/cgroup.procs": "", pod + "/a/cgroup.procs": ""}, true},
		{"version 1, a process", map[string]string{pod + "/cgroup.procs": "12\n"}, false},
		{"version 1, a process below", map[string]string{pod + "/cgroup.procs": "", pod + "/a/cgroup.procs": "", pod + "/a/b/cgroup.procs": "0\n"}, false},
		{"one below that cannot be read", map[string]string{pod + "/cgroup.procs": "", pod + "/a/x": ""}, false},
		{"no kernel file", map[string]string{pod + "/x": ""}, false},
		{"another hierarchy has a process", map[string]string{
			pod + "/cgroup.procs": "", "cgroup/memory/kubepods/pod" + string(uid) + "/cgroup.procs": "12\n",
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.Mkdir(n.PodDir(uid))
			for file, text := range tt.files {
				n.Write(file, text)
			}
			e := n.one(uid)
			check(t, e, facts{policy.FactCgroup: policy.Yes})
			if e.CgroupIdle != tt.want {
				t.Errorf("idle is %t, want %t", e.CgroupIdle, tt.want)
			}
		})
	}
}
