package view

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// TestCNITotals: the sum agrees with what the sweeps before it took, whenever the last look
// came. One that came after the removal finds only what was kept, and read "3 CNI files: 3
// removed" where two more were kept.
func TestCNITotals(t *testing.T) {
	file := func(i int) cni.File { return cni.File{Kind: cni.Cache, Name: string(rune('a' + i))} }
	// sweep judges as many files of each decision, and ends some of those that were to go.
	sweep := func(reap, wait, keep int, ended ...policy.Result) cni.Census {
		c := cni.NewCensus()
		for _, j := range []struct {
			n int
			d policy.Decision
		}{{reap, policy.Reap}, {wait, policy.Wait}, {keep, policy.Keep}} {
			for i := range j.n {
				c.Judged(file(i), policy.Verdict{Decision: j.d})
			}
		}
		for i, r := range ended {
			c.Ended(cni.Outcome{File: file(i), Result: r})
		}
		return c
	}
	done, gone, failed, refused := policy.Done, policy.Gone, policy.Failed, policy.Refused
	finished := cni.NewCensus() // what a crash had cut short, before anything was judged
	finished.Ended(cni.Outcome{File: file(9), Result: done})
	for _, c := range []struct {
		want          string
		acted, dryRun bool
		sweeps        []cni.Census
	}{
		{"5 CNI files: 3 removed, 2 kept", true, false, []cni.Census{sweep(3, 0, 2, done, done, done), sweep(0, 0, 2)}},
		{"5 CNI files: 3 removed, 2 kept", true, false, []cni.Census{sweep(3, 0, 2, done, done, done)}},
		{"5 CNI files: 5 removed", true, false, []cni.Census{sweep(3, 2, 0, done, done, done), sweep(2, 0, 0, done, done)}},
		{"5 CNI files: 5 removed", true, false, []cni.Census{sweep(3, 2, 0, done, done, done), sweep(2, 0, 0, done, gone), sweep(0, 0, 0)}},
		{"3 CNI files: 1 removed, 1 failed, 1 kept", true, false, []cni.Census{sweep(3, 0, 0, done, failed, refused)}},
		{"2 CNI files: 1 failed, 1 kept", true, false, []cni.Census{sweep(2, 0, 0, failed, refused), sweep(2, 0, 0, failed, refused)}},
		{"2 CNI files: 2 removed", true, false, []cni.Census{sweep(2, 0, 0, failed, done), sweep(1, 0, 0, done)}},
		{"2 CNI files: 1 removed, 1 kept", true, false, []cni.Census{finished, sweep(0, 0, 1)}},
		{"6 CNI files: 1 reap, 2 wait, 3 keep", false, false, []cni.Census{sweep(1, 2, 3)}},
		{"6 CNI files: 1 would-remove, 5 kept", true, true, []cni.Census{sweep(1, 2, 3)}},
	} {
		sum := c.sweeps[0]
		for _, later := range c.sweeps[1:] {
			sum = sum.Merge(later)
		}
		if got := cniTotals(totalCNI(&sum, 6), c.acted, c.dryRun); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
