package policy

import (
	"reflect"
	"slices"
	"testing"
)

// TestJudgeMounted checks that "unmount" sets aside only the mounts in the node's own namespace, a staged volume and
// the empty cgroup of a released pod. Otherwise the verdict is that of a sweep.
func TestJudgeMounted(t *testing.T) {
	s := deadScene()
	now, n := s.now, s.node
	dead := func() Evidence { return s.ev }
	judge := func(e Evidence, outside Truth) Verdict {
		return JudgeMounted(e, Fact{Truth: outside}, n, Hold{}, Rules{}, now)
	}
	if v := judge(dead(), No); v.Decision != Reap {
		t.Fatalf("%+v", v)
	}
	for f := range NumFacts {
		for _, truth := range []Truth{Unknown, No, Yes} {
			e := dead()
			e.Facts.Set(f, truth, "", "")
			want := Judge(e, n, Hold{}, Rules{}, now)
			if f == FactMounted || f == FactStaged && truth == Yes {
				want.Decision, want.Why = Reap, nil
			}
			if got := judge(e, No); got.Decision != want.Decision || !reflect.DeepEqual(got.Why, want.Why) {
				t.Errorf("%s %s: %+v, in a sweep %+v", f, truth, got, want)
			}
		}
	}
	for _, outside := range []Truth{Unknown, Yes} {
		if v := judge(dead(), outside); v.Decision != Keep {
			t.Errorf("mounted outside %s: %+v", outside, v)
		}
	}
	for _, tt := range []struct {
		what               string
		idle               bool
		named, unmountable bool
		want               Decision
	}{
		{"a process is in it", false, true, false, Keep},
		{"empty, and reported", true, true, false, Reap},
		{"empty, and not reported", true, false, false, Keep},
		{"empty, and reported as one with volumes", true, false, true, Reap},
	} {
		e := dead()
		e.Facts[FactNamed].Truth = No
		if tt.named {
			e.Facts[FactNamed].Truth = Yes
		}
		e.Facts.Set(FactCgroup, Yes, "", "")
		e.CgroupIdle, e.Unmountable = tt.idle, tt.unmountable
		if v := judge(e, No); v.Decision != tt.want {
			t.Errorf("%s: %+v", tt.what, v)
		}
	}
}

// TestKeepMounts checks that a mount whose unmount would take others along stays, that another pod's CSI volume stays
// unless its driver is named, and that the mounts below both stay.
func TestKeepMounts(t *testing.T) {
	db := "volumes/kubernetes.io~csi/db"
	volData := map[string]string{db + "/vol_data.json": `{"driverName":"d.example"}`}
	other := []string{"2"}
	for _, tt := range []struct {
		what   string
		mounts []Mount
		gone   []string
		stay   []uint64
	}{
		{"plain", []Mount{{ID: 1, Path: db + "/mount"}}, nil, nil},
		{"shared", []Mount{{ID: 2, Parent: 1, Path: "volumes/l/v/in", Shares: []string{"/data"}}, {ID: 1, Path: "volumes/l/v"}}, nil, []uint64{1, 2}},
		{"CSI in use", []Mount{{ID: 1, Path: db + "/mount", Users: other}}, nil, []uint64{1}},
		{"the driver is gone", []Mount{{ID: 1, Path: db + "/mount", Users: other}}, []string{"x", "d.example"}, nil},
		{"another driver is gone", []Mount{{ID: 1, Path: db + "/mount", Users: other}}, []string{"x"}, []uint64{1}},
		{"no vol_data.json", []Mount{{ID: 1, Path: "volumes/kubernetes.io~csi/q/mount", Users: other}}, []string{""}, []uint64{1}},
		{"not of CSI", []Mount{{ID: 1, Path: "volume-subpaths/db/app/0", Users: other}}, nil, nil},
		{"a deleted file", []Mount{{ID: 2, Parent: 1, Path: "volumes/x/f", Deleted: true}, {ID: 1, Path: "volumes/x"}}, nil, []uint64{1, 2}},
		{"beside", []Mount{{ID: 1, Path: db + "/mount", Users: other}, {ID: 2, Path: "volumes/b"}}, nil, []uint64{1}},
	} {
		p := PodMounts{Mounts: tt.mounts}
		p.KeepMounts(volData, tt.gone)
		var stay []uint64
		for _, m := range p.Mounts {
			if m.Stays != "" {
				stay = append(stay, m.ID)
			}
		}
		slices.Sort(stay)
		if !slices.Equal(stay, tt.stay) || len(p.Todo()) != len(p.Mounts)-len(stay) {
			t.Errorf("%s: %+v", tt.what, p.Mounts)
		}
	}
}

// TestSortMounts checks that children come before their parents, also on the same path.
func TestSortMounts(t *testing.T) {
	p := PodMounts{Mounts: []Mount{{ID: 1, Parent: 9, Path: "a"}, {ID: 2, Parent: 1, Path: "a"}, {ID: 3, Parent: 2, Path: "a/b"}, {ID: 4, Parent: 9, Path: "c/d/e/f"}}}
	p.Sort()
	var ids []uint64
	for _, m := range p.Mounts {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []uint64{3, 2, 4, 1}) {
		t.Error(ids)
	}
	p = PodMounts{Mounts: []Mount{{ID: 1, Parent: 2}, {ID: 2, Parent: 1}}} // impossible, but the sort must end
	p.Sort()
}
