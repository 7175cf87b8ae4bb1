package reaper

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cleared remembers that a kubelet has to finish what a cleared leaf kept it from, and lets
// the pod's hold begin anew: what appears in the leaf from now on is another story.
func (r *Reaper) cleared(rep *Report, uid parsers.PodUID) {
	if r.clearing == nil {
		r.clearing = map[parsers.PodUID]time.Duration{}
	}
	r.clearing[uid], rep.finishing = rep.Look.At.Boot, true
	for i := range rep.Verdicts {
		if rep.Verdicts[i].UID == uid {
			rep.Verdicts[i].Hold = policy.Hold{}
		}
	}
}

// kubeletFinishes is for how long a pod whose leaf was cleared counts as not yet proven: the
// kubelet tries again within 2 min 2 s, and finishes. One that does not is no longer waited for.
const kubeletFinishes = 5 * time.Minute

// unfinished counts the pods of which a leaf was cleared and that the kubelet still holds.
func (r *Reaper) unfinished(rep *Report, opt Options) int {
	if opt.DryRun {
		return 0
	}
	held := map[parsers.PodUID]bool{}
	for i := range rep.Verdicts {
		v := &rep.Verdicts[i]
		held[v.UID] = v.For(policy.ReasonKubeletHolds)
	}
	for uid, at := range r.clearing {
		holds, seen := held[uid]
		if rep.Look.At.Boot-at >= kubeletFinishes || (seen && !holds) || (!seen && len(opt.Only) == 0) {
			delete(r.clearing, uid)
		}
	}
	rep.finishing = len(r.clearing) > 0
	return len(r.clearing)
}
