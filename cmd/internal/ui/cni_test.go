package ui

import (
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestCNITotals checks that the sum includes files that earlier sweeps removed. A look after the removal finds only
// kept files, and the sum was once "3 CNI files: 3 removed" with two more kept.
func TestCNITotals(t *testing.T) {
	file := func(i int, r policy.Result) *cni.File {
		return &cni.File{Kind: cni.Cache, Name: string(rune('a' + i)), Result: r}
	}
	// sweep judges as many files of each decision, and removes some of the removable ones.
	sweep := func(reap, wait, keep int, ended ...policy.Result) cni.Census {
		c := cni.NewCensus()
		for _, j := range []struct {
			n int
			d policy.Decision
		}{{reap, policy.Reap}, {wait, policy.Wait}, {keep, policy.Keep}} {
			for i := range j.n {
				c.Judged(file(i, ""), policy.Verdict{Decision: j.d})
			}
		}
		for i, r := range ended {
			c.Ended(file(i, r))
		}
		return c
	}
	done, gone, failed, refused := policy.Done, policy.Gone, policy.Failed, policy.Refused
	finished := cni.NewCensus() // the removal that a crash interrupted, before any verdict
	finished.Ended(file(9, done))
	for _, c := range []struct {
		want   string
		sweeps []cni.Census
	}{
		{"5 CNI files: 3 removed, 2 kept", []cni.Census{sweep(3, 0, 2, done, done, done), sweep(0, 0, 2)}},
		{"5 CNI files: 3 removed, 2 kept", []cni.Census{sweep(3, 0, 2, done, done, done)}},
		{"5 CNI files: 5 removed", []cni.Census{sweep(3, 2, 0, done, done, done), sweep(2, 0, 0, done, done)}},
		{"5 CNI files: 5 removed", []cni.Census{sweep(3, 2, 0, done, done, done), sweep(2, 0, 0, done, gone), sweep(0, 0, 0)}},
		{"3 CNI files: 1 removed, 1 failed, 1 kept", []cni.Census{sweep(3, 0, 0, done, failed, refused)}},
		{"2 CNI files: 1 failed, 1 kept", []cni.Census{sweep(2, 0, 0, failed, refused), sweep(2, 0, 0, failed, refused)}},
		{"2 CNI files: 2 removed", []cni.Census{sweep(2, 0, 0, failed, done), sweep(1, 0, 0, done)}},
		{"2 CNI files: 1 removed, 1 kept", []cni.Census{finished, sweep(0, 0, 1)}},
		{"12,345 CNI files: 12,345 removed", []cni.Census{{Taken: map[cni.Kind]policy.Tally{cni.Cache: {Entries: 12345}}}}},
	} {
		sum := c.sweeps[0]
		for _, later := range c.sweeps[1:] {
			sum = sum.Merge(later)
		}
		if got := (&Report{show: Show{Swept: true}, CNITotals: totalCNI(&cni.Report{Census: sum}, 6)}).cniSums()[0]; got != c.want+"." {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestCNISums checks the sums of a dry run, and the commands that restore removed files.
func TestCNISums(t *testing.T) {
	sum := cni.NewCensus()
	sum.Vanished = 1
	done := totalCNI(&cni.Report{Census: sum, Undo: []string{cni.Undo("cni-20260101-000000-000-012"), "b"}}, 1)
	for want, v := range map[string]Report{
		"": {},
		"6 CNI files: 1 would be removed, 2 wait, 1 kept, 2 need you.":                                            {CNITotals: cniTotalsView{Files: 6, Reap: 1, Wait: 2, Keep: 3, ForPerson: 2}},
		"300,000 CNI files: 300,000 would be removed.":                                                            {CNITotals: cniTotalsView{Files: 300000, Reap: 300000}},
		"1 CNI file: 1 removed.\nUndo: orphan-reaper quarantine restore --batch cni-20260101-000000-000\nUndo: b": {show: Show{Swept: true}, CNITotals: done},
	} {
		if got := strings.Join(v.cniSums(), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
