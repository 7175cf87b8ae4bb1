package sim

import (
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// plant is a defect that is put between the loop and the node. The zero value is none.
type plant struct {
	onLook     func(n *node, look policy.Look, parked []policy.EntryState) policy.Look
	onStill    func(n *node, before, now []policy.Evidence) []policy.Evidence
	onMounts   func(n *node, facts map[parsers.PodUID]policy.Fact) map[parsers.PodUID]policy.Fact
	onOutcomes func(n *node, outs []policy.Outcome) []policy.Outcome
}

func (p plant) look(n *node, look policy.Look, parked []policy.EntryState) policy.Look {
	if p.onLook == nil {
		return look
	}
	return p.onLook(n, look, parked)
}

func (p plant) still(n *node, before, now []policy.Evidence) []policy.Evidence {
	if p.onStill == nil {
		return now
	}
	return p.onStill(n, before, now)
}

func (p plant) mounts(n *node, facts map[parsers.PodUID]policy.Fact) map[parsers.PodUID]policy.Fact {
	if p.onMounts == nil {
		return facts
	}
	return p.onMounts(n, facts)
}

func (p plant) outcomes(n *node, outs []policy.Outcome) []policy.Outcome {
	if p.onOutcomes == nil {
		return outs
	}
	return p.onOutcomes(n, outs)
}
