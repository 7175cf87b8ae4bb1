package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const uid = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")

// TestPods checks that a cgroup with a pod's name is found, of either driver, in any hierarchy and at any depth.
func TestPods(t *testing.T) {
	under := strings.ReplaceAll(string(uid), "-", "_")
	for _, c := range []struct {
		name string
		dirs []string
		want policy.Truth
	}{
		{"none", []string{"kubepods.slice"}, policy.No},
		{"cgroupfs driver", []string{"kubepods/burstable/pod" + string(uid) + "/0123"}, policy.Yes},
		{"cgroupfs driver, guaranteed", []string{"kubepods/pod" + string(uid)}, policy.Yes},
		{"systemd driver", []string{"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice"}, policy.Yes},
		{"systemd driver, guaranteed", []string{"kubepods.slice/kubepods-pod" + under + ".slice"}, policy.Yes},
		{"version 1", []string{"cpu/kubepods", "memory/kubepods/besteffort/pod" + string(uid)}, policy.Yes},
		{"below another slice", []string{"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + under +
			".slice"}, policy.Yes},
		{"deep", []string{"docker/0123/kubelet/kubepods/burstable/pod" + string(uid)}, policy.Yes},
		{"another pod's", []string{"kubepods/burstable/pod" + string(testkit.NewUID())}, policy.No},
		{"a name that only holds it", []string{"kubepods/x" + string(uid), "kubepods/pod" + string(uid) + "x"}, policy.No},
		{"no kubepods", []string{"system.slice"}, policy.Unknown},
		{"empty", nil, policy.Unknown},
		{"too deep", []string{"kubepods", strings.Repeat("d/", deepest+2)}, policy.Unknown},
	} {
		r := Reader{Root: t.TempDir(), Guard: &bounded.Guard{}}
		for _, d := range c.dirs {
			testkit.Must(t, os.MkdirAll(filepath.Join(r.Root, d), 0o755))
		}
		testkit.Must(t, os.MkdirAll(r.Root+"x/pod"+string(uid), 0o755))
		testkit.Must(t, os.Symlink(r.Root+"x", r.Root+"/link"))
		testkit.Must(t, os.Symlink(r.Root, r.Root+"/loop"))
		if f := r.Pods(t.Context()).Fact(uid, r.Root); f.Truth != c.want {
			t.Errorf("%s: %+v, want %s", c.name, f, c.want)
		}
	}
	static := testkit.NewStaticUID()
	for _, d := range []string{"/kubepods/burstable/pod" + string(static), "/kubepods.slice/kubepods-burstable-pod" + string(static) + ".slice"} {
		r := Reader{Root: t.TempDir(), Guard: &bounded.Guard{}}
		testkit.Must(t, os.MkdirAll(r.Root+d, 0o755))
		if f := r.Pods(t.Context()).Fact(static, r.Root); f.Truth != policy.Yes {
			t.Errorf("a static pod's %s: %+v", d, f)
		}
	}
	r := Reader{Root: t.TempDir() + "/none", Guard: &bounded.Guard{}}
	if f := r.Pods(t.Context()).Fact(uid, r.Root); f.Truth != policy.Unknown {
		t.Errorf("without a root: %+v", f)
	}
}

// TestIdle checks that a cgroup is idle only if the kernel's files show it, at every depth and in every hierarchy.
func TestIdle(t *testing.T) {
	const pod = "kubepods.slice/pod" + string(uid)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"version 2, no process", map[string]string{pod + "/cgroup.events": "populated 0\nfrozen 0\n"}, true},
		{"version 2, a process somewhere below", map[string]string{pod + "/cgroup.events": "populated 1\nfrozen 0\n"}, false},
		{"version 2, without the field", map[string]string{pod + "/cgroup.events": "frozen 0\n"}, false},
		{"version 1, no process", map[string]string{pod + "/cgroup.procs": "", pod + "/a/cgroup.procs": ""}, true},
		{"version 1, a process", map[string]string{pod + "/cgroup.procs": "12\n"}, false},
		{"version 1, a process below", map[string]string{pod + "/cgroup.procs": "", pod + "/a/cgroup.procs": "", pod + "/a/b/cgroup.procs": "0\n"}, false},
		{"one below that cannot be read", map[string]string{pod + "/cgroup.procs": "", pod + "/a/x": ""}, false},
		{"no kernel file", map[string]string{pod + "/x": ""}, false},
		{"another hierarchy has a process", map[string]string{
			pod + "/cgroup.procs": "", "memory/kubepods/pod" + string(uid) + "/cgroup.procs": "12\n",
		}, false},
	} {
		r := Reader{Root: t.TempDir(), Guard: &bounded.Guard{}}
		for file, text := range tt.files {
			testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(r.Root, file)), 0o755))
			testkit.WriteText(t, filepath.Join(r.Root, file), text)
		}
		c := r.Pods(t.Context())
		r.FindIdle(t.Context(), c, map[parsers.PodUID]bool{uid: true}, nil)
		if c.Fact(uid, r.Root).Truth != policy.Yes || c.Idle[uid] != tt.want {
			t.Errorf("%s: idle is %t, want %t", tt.name, c.Idle[uid], tt.want)
		}
	}
}

// TestIdleAsksNotOfThoseThatRun checks that the cgroup of a pod that the runtime runs is not read.
func TestIdleAsksNotOfThoseThatRun(t *testing.T) {
	c := &Answer{all: map[parsers.PodUID][]string{uid: {t.TempDir()}}}
	all := map[parsers.PodUID]bool{uid: true}
	r := Reader{Guard: &bounded.Guard{}}
	if r.FindIdle(t.Context(), c, all, all); c.Idle != nil {
		t.Error("a pod that the runtime runs was read")
	}
}

// TestUsualPlace checks that only the default cgroup root counts if the runtime runs nothing.
func TestUsualPlace(t *testing.T) {
	c := &Answer{kube: "kubepods"}
	if c.Compare(nil, DefaultRoot); c.Fact(uid, DefaultRoot).Truth != policy.No {
		t.Errorf("the usual place: %+v", c.Fact(uid, DefaultRoot))
	}
	if c.Compare(nil, "/elsewhere"); c.Fact(uid, "/elsewhere").Truth != policy.Unknown {
		t.Errorf("another place: %+v", c.Fact(uid, "/elsewhere"))
	}
}

// TestUsersCgroups checks that the cgroups that a user may make below their own one are neither a pod's nor an error.
func TestUsersCgroups(t *testing.T) {
	testkit.NeedUsers(t)
	r := Reader{Root: t.TempDir(), Guard: &bounded.Guard{}}
	own := r.Root + "/user.slice/user@1000.service"
	deep := own + strings.Repeat("/d", 2*deepest)
	living := testkit.NewUID()
	for _, dir := range []string{deep, own + "/kubepods/pod" + string(uid), r.Root + "/kubepods/pod" + string(living)} {
		testkit.Must(t, os.MkdirAll(dir, 0o755))
	}
	testkit.Must(t, filepath.WalkDir(own, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, 1000, 1000))
	}))
	c := r.Pods(t.Context())
	if c.Fact(uid, DefaultRoot).Truth != policy.No || c.Fact(living, DefaultRoot).Truth != policy.Yes {
		t.Errorf("%+v and %+v", c.Fact(uid, DefaultRoot), c.Fact(living, DefaultRoot))
	}
	if ids := r.ContainerIDs(t.Context()); ids.Err != nil {
		t.Error(ids.Err)
	}
	testkit.Must(t, os.Chown(own, 0, 0))
	if c := r.Pods(t.Context()); c.Err != nil || c.Pods[uid] != "" {
		t.Errorf("%v, %s", c.Err, c.Pods[uid])
	}
}
