package summary

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// settles is for how long a new global mount counts as used: the kubelet stages a volume before the pod's directory has it.
const settles = 5 * time.Minute

// GlobalMounts lists the staged volumes of a look that no living pod uses, and that are not as new as one of a pod that
// starts.
func GlobalMounts(l *policy.Look) []policy.GlobalMount {
	var all []policy.GlobalMount
	for _, g := range l.Globals.All {
		age := l.At.Wall.Sub(g.Since)
		if young := age >= 0 && age < settles; !g.Lives && !young {
			all = append(all, g)
		}
	}
	return all
}

// GlobalState is how a global mount is counted: "mounted" and "left" for what no pod directory wants, "unknown" where that is
// not known, and "" for what a pod directory wants, dead as its pod may be.
func GlobalState(g *policy.GlobalMount) string {
	switch {
	case g.Wanted.Truth == policy.Yes:
		return ""
	case g.Wanted.Truth == policy.Unknown || g.Mounted.Truth == policy.Unknown:
		return "unknown"
	case g.Mounted.Truth == policy.Yes:
		return "mounted"
	}
	return "left"
}
