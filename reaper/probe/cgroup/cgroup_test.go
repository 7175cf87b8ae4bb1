package cgroup

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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
