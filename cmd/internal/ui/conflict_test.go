package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestConflictWithoutDirectory: a pod lives again whose only directory is in quarantine. No screen reports another directory
// or that there is none, and explain has the command that puts it back.
func TestConflictWithoutDirectory(t *testing.T) {
	screen := func(write func(*Printer)) string {
		var out bytes.Buffer
		p := NewPrinter(&out, noEnv)
		write(p)
		testkit.Must(t, p.Flush())
		return out.String()
	}
	c := busyContext()
	e := policy.EntryState{Entry: uidElder + ".1", UID: uidElder, Phase: policy.PhaseConflict, Parked: policy.Parked{At: c.Now}}
	alive := policy.Judged{
		Evidence: policy.Evidence{UID: uidElder, Name: uidElder, RuntimeOnly: true},
		Verdict:  policy.Verdict{Stage: policy.InRuntime, Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonSandbox}}},
	}
	rep := reaper.Report{Entries: []policy.EntryState{e}, Pods: []policy.Judged{alive}}
	view := viewEntry(e, c)
	if fate := view.fate(c.Now.Wall); !strings.Contains(fate, "restore or purge") {
		t.Errorf("quarantine list: %s", fate)
	}
	r := NewReport(rep, c, Show{})
	scan := screen(func(p *Printer) { p.Report(&r) })
	if strings.Contains(scan, "another directory") || !strings.Contains(scan, "1 pod lives again") {
		t.Errorf("scan:\n%s", scan)
	}
	explain := screen(func(p *Printer) { p.Explain(NewExplanation(rep, c, uidElder, "", nil)) })
	if strings.Contains(explain, "none: only the runtime") || !strings.Contains(explain, "orphan-reaper quarantine restore "+uidElder) {
		t.Errorf("explain:\n%s", explain)
	}
}
