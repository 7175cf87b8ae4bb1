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

// TestIdleAsksNotOfThoseThatRun: a pod that the runtime runs is not asked about.
func TestIdleAsksNotOfThoseThatRun(t *testing.T) {
	c := &Answer{all: map[parsers.PodUID][]string{uid: {t.TempDir()}}}
	all := map[parsers.PodUID]bool{uid: true}
	r := Reader{Guard: &bounded.Guard{}}
	if r.FindIdle(t.Context(), c, all, all); c.Idle != nil {
		t.Error("a pod that the runtime runs was asked about")
	}
}

// TestUsualPlace: where the runtime runs nothing, only the usual place is believed.
func TestUsualPlace(t *testing.T) {
	c := &Answer{kube: "kubepods"}
	if c.Compare(nil, DefaultRoot); c.Fact(uid, DefaultRoot).Truth != policy.No {
		t.Errorf("the usual place: %+v", c.Fact(uid, DefaultRoot))
	}
	if c.Compare(nil, "/elsewhere"); c.Fact(uid, "/elsewhere").Truth != policy.Unknown {
		t.Errorf("another place: %+v", c.Fact(uid, "/elsewhere"))
	}
}

// TestUsersCgroups: who has a cgroup of their own may make any below it. None of those is a pod's, and none is
// an error.
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
