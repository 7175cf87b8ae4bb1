package reaper

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// unmounter is a world in which a pod has two mounts, one on the other.
type unmounter struct{ *world }

func (unmounter) Mounts(parsers.PodUID, judge.FileID) ([]Mount, error) {
	return []Mount{{Path: "/a/b"}, {Path: "/a"}}, nil
}

func (u unmounter) Unmount(_ context.Context, _ judge.Permit, _ parsers.PodUID, _ judge.FileID, m Mount) (judge.Result, error) {
	u.call("unmount %s", m.Path)
	return judge.Done, nil
}

// TestUnmount changes the world right before one call of an operator's unmount, and has what is unmounted then.
func TestUnmount(t *testing.T) {
	const inner, outer = "write unmounting; unmount /a/b; write unmounted", "; write unmounting; unmount /a; write unmounted"
	for _, test := range []struct {
		name, before string
		change       func(w *world)
		want         string
	}{
		{"dead", "", nil, inner + outer},
		{"alive when the operator has answered", "agree", func(w *world) { w.pods[one].alive = true }, ""},
		{"another directory when the operator has answered", "agree", func(w *world) { w.pods[one].ino = 9 }, ""},
		{"mounts are not visible any more", "agree", func(w *world) { w.blind = true }, ""},
		{"alive after the first mount", "write unmounted", func(w *world) { w.pods[one].alive = true }, inner},
		{"the intent cannot be written", "agree", func(w *world) { w.fail = "unmounting" }, "write unmounting"},
	} {
		w := newWorld(one)
		w.pods[one].mounted = true
		d := w.daemon()
		if err := d.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.report(d, one)
		w.calls = nil
		w.before = func(call string) {
			if call == test.before {
				test.change(w)
			}
		}
		found, err := d.Unmount(t.Context(), one, nil, unmounter{w}, func(Unmounting) error { w.call("agree"); return nil })
		calls := strings.Join(slices.DeleteFunc(w.calls, func(c string) bool { return c == "agree" || strings.HasPrefix(c, "scan") }), "; ")
		if done := calls == inner+outer; calls != test.want || found.Done() != done || (found.Stopped == "" && err == nil) != done {
			t.Errorf("%s: %s, want %s; %+v, %v", test.name, calls, test.want, found, err)
		}
	}
}
