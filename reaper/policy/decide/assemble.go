package decide

import (
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// assemble completes the evidence of the look by log, ledger and earlier looks, and adds to the memory. Nothing after it
// changes evidence; the last question reads some facts again into copies.
func (d *Ruling) assemble(c Case) {
	look, m := &d.Look, &d.Memory
	d.Pods = make([]policy.Judged, 0, len(look.Pods)+len(look.RuntimeOnly)+len(look.Parked)+len(look.Resting))
	for stage, pods := range [...][]policy.Evidence{look.Pods, look.RuntimeOnly, look.Parked, look.Resting} {
		for i := range pods {
			d.Pods = append(d.Pods, policy.Judged{Evidence: pods[i], Verdict: policy.Verdict{Stage: policy.Stage(stage)}})
		}
	}
	look.Pods, look.RuntimeOnly, look.Parked, look.Resting = nil, nil, nil, nil
	m.Pressed = look.Node.Pressed()
	d.addClaims(c)
	d.addNames(c)
	restored := map[parsers.PodUID]*policy.EntryState{}
	for _, name := range slices.Sorted(maps.Keys(c.Entries)) {
		if e := c.Entries[name]; e.Restored || e.Phase == policy.PhaseRestoring { // a crash may have cut off the record
			restored[e.UID] = e
		}
	}
	for i := range d.Pods {
		e := &d.Pods[i].Evidence
		if d.Pods[i].Stage < policy.InQuarantine {
			m.Log.Complete(e, look.Node, look.At)
			addRestored(e, restored[e.UID])
		} else if state := c.Entries[e.Entry]; state != nil {
			completeEntry(e, &m.Log, look, state)
		}
	}
	d.addStatic(c)
	if !c.Only {
		m.Messages.Update(d.Pods, look.At)
	}
}

// completeEntry completes the evidence of a pod in quarantine by what the log and the ledger give.
func completeEntry(e *policy.Evidence, log *reported.Log, look *policy.Look, state *policy.EntryState) {
	log.CompleteEntry(e, look.Node)
	if e.Namespace == "" && e.PodName == "" {
		e.Namespace, e.PodName = state.Namespace, state.PodName
	}
}

// addRestored sets the fact restored, and the pod's name if it has none.
func addRestored(e *policy.Evidence, was *policy.EntryState) {
	if was == nil {
		e.Facts.Set(policy.FactRestored, policy.No, "ledger", "")
		return
	}
	e.Facts.Set(policy.FactRestored, policy.Yes, "ledger", "an operator restored it from quarantine")
	if e.PodName == "" {
		e.Namespace, e.PodName = was.Namespace, was.PodName
	}
}

// addClaims adds the lines of the log since the last pass to the memory: as evidence those about pods that the node has by
// this look or had by the last one.
func (d *Ruling) addClaims(c Case) {
	m, node, at := &d.Memory, d.Look.Node, d.Look.At
	now := maps.Clone(c.Look.Listed)
	if now == nil {
		now = map[parsers.PodUID]bool{}
	}
	for p := range policy.At(d.Pods, policy.InPlace, policy.InRuntime) {
		now[p.UID] = true
	}
	has := maps.Clone(now)
	maps.Copy(has, c.Memory.listed)
	for _, e := range c.Entries {
		if e.Phase.InQuarantine() {
			has[e.UID] = true
		}
	}
	m.listed = now
	m.Log.Add(reported.OfNode(c.Claims, has), node, at)
	for _, claim := range c.Claims {
		_, counted := m.Messages.Pods[claim.Sighting.UID]
		if node.Kubelet.Truth == policy.Yes && (counted || has[claim.Sighting.UID]) && claim.Evident(node.KubeletID, node.LogFormat, at) {
			m.Messages.Count(claim)
		}
	}
}

// addNames sets the name of each pod that this look did not find and an earlier one did, and reads again whether a manifest
// owns the pod. It remembers the certain names of the pods that have a directory, here or in quarantine.
func (d *Ruling) addNames(c Case) {
	look, before := &d.Look, c.Memory.Names
	after := make(map[parsers.PodUID]policy.PodName, len(d.Pods))
	if c.Only { // what this look has not seen stays
		maps.Copy(after, before)
	}
	for i := range d.Pods {
		e, stage := &d.Pods[i].Evidence, d.Pods[i].Stage
		name, known := before[e.UID]
		switch {
		case e.UID == "", stage == policy.InRuntime:
		case stage >= policy.InQuarantine:
			if !known && e.CertainName { // the ledger has it, also if what earlier looks left was lost
				name, known = policy.PodName{Namespace: e.Namespace, Name: e.PodName}, true
			}
			if known {
				after[e.UID] = name
			}
		case e.CertainName:
			after[e.UID] = policy.PodName{Namespace: e.Namespace, Name: e.PodName}
		case known:
			after[e.UID] = name
			e.Namespace, e.PodName, e.CertainName = name.Namespace, name.Name, true
			if look.Manifests != nil {
				e.Facts[policy.FactStaticPod] = look.Manifests.Fact(e, look.StaticSandboxes)
			}
		}
	}
	d.Memory.Names = after
}

// addStatic sets Evidence.Static if this look or an earlier one saw that the pod is a static one, by its sandbox or its
// manifest, and remembers that of the pods that have a directory. Where its sandbox does not show it now, it reads again
// whether a manifest owns the pod: one that cannot be read may state its UID.
func (d *Ruling) addStatic(c Case) {
	m, before := &d.Memory, c.Memory.Static
	m.Static = map[parsers.PodUID]bool{}
	if c.Only { // what this look has not seen stays
		maps.Copy(m.Static, before)
	}
	for i := range d.Pods {
		e := &d.Pods[i].Evidence
		owned := &e.Facts[policy.FactStaticPod]
		if was := c.Entries[e.Entry]; !e.Static && (e.Entry == "" || was != nil) {
			e.Static = before[e.UID] || owned.Truth == policy.Yes || was != nil && was.Static
			if e.Static && owned.Truth == policy.No && d.Look.Manifests != nil {
				*owned = d.Look.Manifests.Fact(e, d.Look.StaticSandboxes)
			}
		}
		if e.Static { // it may be put back
			m.Static[e.UID] = true
		}
	}
}
