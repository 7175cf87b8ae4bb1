package decide

import (
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

// count counts the lines of the kubelet that runs about pods that the node has, or had until a moment
// ago.
func (d *Ruling) count(c Case, has map[parsers.PodUID]bool) {
	look, m := &d.Look, &d.Memory
	m.Quiet.Hear(slices.DeleteFunc(slices.Clone(c.Claims), func(said heard.Claim) bool {
		_, counted := m.Quiet.Pods[said.Sighting.UID]
		return look.Node.Kubelet.Truth != policy.Yes || !counted && !has[said.Sighting.UID] ||
			!said.Evident(look.Node.KubeletID, look.Node.LogFormat, look.At)
	}))
	if !c.Only {
		m.Quiet.See(look.Pods, look.At)
	}
}
