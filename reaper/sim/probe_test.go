package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// prober reads the node as reaper/probe does: one source after the other, each at its own moment, and the world goes on in between. It
// weighs the answers by the same rules.
type prober struct{ *node }

var _ reaper.Prober = prober{}

func (p prober) Look(_ context.Context, parked []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	n := p.node
	r := n.reading()
	n.oracle.looks(n)
	look := policy.Look{At: n.Now(), Partial: len(only) > 0, Listed: map[parsers.PodUID]bool{}}
	listed := make([]*pod, 0, len(n.pods))
	for _, pod := range n.pods {
		if n.dirs[pod.uid] != nil && (len(only) == 0 || slices.Contains(only, pod.uid)) {
			listed = append(listed, pod)
		}
		if n.dirs[pod.uid] != nil {
			look.Listed[pod.uid] = true
		}
	}
	for _, s := range parked {
		if since, ok := look.At.Since(s.Parked.At); ok && s.Phase == policy.PhaseParked && since >= n.rules.Confirm {
			n.reach(stepConfirm, s.UID)
		}
	}
	there := func(uid parsers.PodUID) bool { return look.Listed[uid] }
	slices.SortFunc(listed, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	n.read(r.readRuntime)
	n.all(r.readCgroups, r.readMounts, r.readUse, func(err error) {
		r.readKubelet(err)
		n.read(r.readLists)
	})
	r.at = look.At
	contents := make([]dir, len(listed))
	n.read(r.readContents)
	for i, pod := range listed { // the directories, last
		if i%4 == 0 {
			n.pass(n.between(0, n.faults.slow))
		}
		if d := n.dirs[pod.uid]; d != nil {
			contents[i] = *d
			r.of[pod.index].seen = &contents[i]
		}
	}
	n.reach(stepRead, "")
	r.compare()
	n.oracle.readings = r
	if !r.kubeletOK { // whose the lines are that this look was for is not known, and they are not read again
		clear(n.log.heard)
	}
	look.Pods = make([]policy.Evidence, 0, len(listed))
	for _, pod := range listed {
		if d := r.of[pod.index].seen; d != nil {
			look.Pods = append(look.Pods, policy.Evidence{Name: string(pod.uid), UID: pod.uid})
			r.fill(&look.Pods[len(look.Pods)-1], pod, d, r.of[pod.index].ready || r.of[pod.index].busy)
		}
	}
	p.parked(r, &look, parked, there)
	for _, pod := range n.pods {
		if of := &r.of[pod.index]; r.runtimeErr() == nil && (of.ready || of.container) {
			look.Listed[pod.uid] = true
			if !there(pod.uid) && len(only) == 0 && !slices.ContainsFunc(parked, func(s policy.EntryState) bool { return s.UID == pod.uid }) {
				e := policy.Evidence{Name: string(pod.uid), UID: pod.uid, RuntimeOnly: true}
				r.fill(&e, pod, nil, false)
				look.RuntimeOnly = append(look.RuntimeOnly, e)
			}
		}
	}
	slices.SortFunc(look.RuntimeOnly, func(a, b policy.Evidence) int { return cmp.Compare(a.UID, b.UID) })
	look.Node = r.nodeFacts()
	if p.program.plant.look != nil {
		p.program.plant.look(n, look, parked)
	}
	return look, nil
}

// parked adds what is known of what lies in quarantine.
func (p prober) parked(r *readings, look *policy.Look, parked []policy.EntryState, there func(parsers.PodUID) bool) {
	n := p.node
	look.Parked = make([]policy.Evidence, 0, len(parked))
	for _, s := range parked {
		pod := n.byUID[s.UID]
		e := policy.Evidence{Name: string(s.UID), UID: s.UID, Entry: s.Entry, Namespace: s.Namespace, PodName: s.PodName}
		d := n.quarantine[s.Entry]
		var content *dir
		if d != nil && !s.Rests {
			was := *d
			content = &was
		}
		r.fill(&e, pod, content, false)
		if s.Rests {
			e.Facts.Set(policy.FactDirectory, policy.Unknown, s.Entry, "not read: it rests")
			e.Facts.Set(policy.FactContent, policy.Unknown, s.Entry, "not read: it rests")
		}
		of := &r.of[pod.index]
		parked := s.Phase == policy.PhaseParked
		if d != nil && d.id == s.ID && !pod.static && s.Leaf == "" && (parked || s.Phase == policy.PhaseConfirmed) &&
			(parked && of.parked || there(s.UID) || of.ready || of.container || of.cgroup) {
			n.oracle.lives = pod
		}
		remade := policy.Fact{Truth: policy.No}
		if there(s.UID) {
			remade = policy.Fact{Truth: policy.Yes, Origin: "pods", Detail: "it is there again"}
		}
		e.Facts[policy.FactRemade], e.Facts[policy.FactUsed] = remade, remade
		if remade.Truth == policy.Yes {
			e.Facts[policy.FactUsed], e.Elder = r.usedAgain(pod), r.mountFact(r.of[pod.index].parked)
		}
		if s.Rests {
			look.Resting = append(look.Resting, e)
		} else {
			look.Parked = append(look.Parked, e)
		}
	}
}

func known(yes bool, err error, origin, detail string) policy.Fact {
	switch {
	case yes:
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: detail}
	case err != nil:
		return policy.Fact{Origin: origin, Detail: err.Error()}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

func (r *readings) mountFact(yes bool) policy.Fact {
	return known(yes, r.mountErr, "mountinfo", "something is mounted there")
}

// fillRuntime sets the facts of the runtime about a pod.
func (r *readings) fillRuntime(e *policy.Evidence, p *pod) {
	of, box, container := &r.of[p.index], r.boxErr, r.containerErr
	if r.lists.Truth != policy.Yes {
		box, container = errors.New(r.lists.Detail), errors.New(r.lists.Detail)
	}
	e.Facts[policy.FactSandbox] = known(of.ready, box, "cri.sock", "a sandbox")
	e.Facts[policy.FactContainer] = known(of.container, container, "cri.sock", "a container")
	if len(of.sandboxes) > 0 {
		e.Namespace, e.PodName, e.Made, e.Static = p.name.Namespace, p.name.Name, of.made, e.Static || p.static
	}
	if r.runtimeErr() == nil {
		e.Sandboxes = of.sandboxes
	}
}

// fill sets the facts of a pod. d is its directory as it was read, nil where there is none.
func (r *readings) fill(e *policy.Evidence, p *pod, d *dir, alive bool) {
	f, i := &e.Facts, p.index
	f[policy.FactDirectory] = known(d != nil, nil, "pods/"+string(p.uid), "")
	f[policy.FactOwnMount] = policy.Fact{Truth: policy.No}
	if d != nil {
		e.ID, e.Changed = d.id, d.changed
		switch e.Unread = alive; {
		case alive:
			f[policy.FactContent] = policy.Fact{Detail: "not read: the pod lives"}
		case r.contentErr != nil:
			f[policy.FactContent] = policy.Fact{Detail: r.contentErr.Error()}
		default:
			f[policy.FactContent], e.Residue = policy.Fact{Truth: policy.Yes}, d.residue()
		}
	} else {
		f[policy.FactContent] = policy.Fact{Truth: policy.Yes}
	}
	f[policy.FactMounted] = r.mountFact(r.of[i].mounted)
	f[policy.FactCgroup], e.CgroupIdle = known(r.of[i].cgroup, r.cgroupErr, "cgroups", "its cgroup"), r.of[i].cgroup && !r.of[i].busy
	f[policy.FactAPILists], f[policy.FactStaticPod] = policy.Fact{}, policy.Fact{Truth: policy.No}
	f[policy.FactStaged] = r.stagedFact(p, d)
	if e.Entry == "" {
		r.of[i].staged = f[policy.FactStaged].Truth != policy.No
	}
	f[policy.FactInUse] = known(r.of[i].used, r.useErr, "proc", "a process has a file of it open")
	f[policy.FactKubeletLists] = r.list.Fact(e.UID)
	if d != nil && d.ran && e.PodName == "" && !alive {
		e.PodName = p.name.Name // its etc-hosts
	}
	r.fillRuntime(e, p)
	e.CertainName = reading.CertainName(e, len(r.of[i].sandboxes) > 0)
	r.of[i].static = !r.oracle.scans && !r.oracle.person && e.Static // a command leaves no memory
}

// stagedFact is whether a volume is staged for this pod alone: a living successor that has it mounted keeps it staged.
func (r *readings) stagedFact(p *pod, d *dir) policy.Fact {
	o := &reading.PodVolumes{Pod: p.uid, Listed: true, AnyCSI: true}
	var users reading.VolumeUsers
	if d != nil && d.csi > 0 && r.runtime.staged[d.csi] {
		volume := reading.CSIVolume{Driver: "csi.example", Handle: "v" + string(rune('0'+d.csi))}
		o.Mounts = []reading.StagedMount{{Path: "globalmount", Volume: volume, What: "staged"}}
		for i, q := range r.pods {
			user := reading.VolumeUser{UID: q.uid, Lives: r.of[i].ready || r.of[i].container || r.of[i].busy}
			if b := r.dirs[q.uid]; b != nil && b.csi == d.csi {
				user.Volume, user.Mounted = volume, len(b.mounts) > 0
			}
			users.Files = append(users.Files, reading.StagedUser{VolumeUser: user, Paths: []string{"globalmount"}})
		}
	}
	return o.Staged("plugins", &users)
}

// usedAgain is whether anything uses a directory that was made again. The runtime's answer comes later.
func (r *readings) usedAgain(p *pod) policy.Fact {
	d := r.dirs[p.uid]
	content := policy.Fact{Truth: policy.No}
	var mounts reading.NewUse
	if d != nil {
		content = known(r.contentErr == nil && (d.volumes || d.ran || d.stuck()), r.contentErr, "pods", "it holds volumes")
		if mounts.Err = r.mountErr; r.of[p.index].again {
			mounts.User = "something is mounted in it"
		}
	}
	return reading.UsedAgain(content, mounts)
}

func (r *readings) nodeFacts() policy.Node {
	r.mayEnforce, r.agrees = policy.Fact{Truth: policy.Yes}, policy.Fact{Truth: policy.Yes}
	switch no := (policy.Fact{Truth: policy.Truth(r.faults.shut % 2)}); { // no, or not known
	case r.faults.shut > 2:
		no.Detail, r.agrees = "--runtime-endpoint is another socket than the kubelet's", no
	case r.faults.shut > 0:
		no.Detail, r.mayEnforce = "own mount namespace", no
	}
	bytes := 0.5
	if r.faults.full {
		bytes = 0.02
	}
	return policy.Node{
		Kubelet: r.kubelet, KubeletID: r.id, LogFormat: policy.LogText, RuntimeLists: r.lists,
		MayEnforce: r.mayEnforce, Agrees: r.agrees, FreeBytes: bytes, FreeInodes: 0.5,
	}
}

// Still is the last question, before and after the rename.
func (p prober) Still(_ context.Context, pods []policy.Evidence) []policy.Evidence {
	r := p.reading()
	p.reach(stepAsk, pods[0].UID)
	p.all(r.readCgroups, r.readKubelet, r.readLists, func(err error) {
		r.readRuntime(err)
		p.read(r.readMounts)
	})
	r.compare()
	now := slices.Clone(pods)
	for i := range now {
		e := &now[i]
		pod := p.byUID[e.UID]
		p.oracle.asked[e.UID] = question{p.now, r}
		r.fillRuntime(e, pod)
		e.Facts[policy.FactMounted] = r.mountFact(r.of[pod.index].mounted)
		e.Facts[policy.FactCgroup] = known(r.of[pod.index].cgroup, r.cgroupErr, "cgroups", "its cgroup")
		e.Facts[policy.FactKubeletLists] = r.list.Fact(e.UID)
	}
	if p.program.plant.still != nil {
		p.program.plant.still(p.node, pods, now)
	}
	return now
}

func (p prober) Mounts(_ context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return p.mountFacts(uids, func(r *readings, i int) bool { return r.of[i].mounted })
}

func (p prober) MountsParked(_ context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return p.mountFacts(uids, func(r *readings, i int) bool { return r.of[i].parked })
}

func (p prober) mountFacts(uids []parsers.PodUID, in func(*readings, int) bool) map[parsers.PodUID]policy.Fact {
	r := p.reading()
	p.scans(uids...)
	p.reach(stepAsk, uids[0])
	p.read(r.readMounts)
	p.oracle.scannedAt = p.now
	p.oracle.scan, p.oracle.scanned = r.mountErr, map[parsers.PodUID]bool{}
	facts := map[parsers.PodUID]policy.Fact{}
	for _, uid := range uids {
		p.oracle.scanned[uid] = in(r, p.byUID[uid].index)
		facts[uid] = r.mountFact(p.oracle.scanned[uid])
	}
	return facts
}

// scans gives a planted defect the pods for which the mounts are about to be read.
func (p prober) scans(uids ...parsers.PodUID) {
	if p.program.plant.scan == nil {
		return
	}
	wanted := map[parsers.PodUID]bool{}
	for _, uid := range uids {
		wanted[uid] = true
	}
	p.program.plant.scan(p.node, wanted)
}

// used is what the remover asks before it exchanges two directories of a pod.
func (p prober) used(uid parsers.PodUID, since policy.Instant) policy.Fact {
	r, pod := p.reading(), p.byUID[uid]
	p.read(r.readRuntime)
	p.read(r.readMounts)
	p.read(r.readContents)
	e := policy.Evidence{UID: uid}
	e.Facts[policy.FactUsed], e.Elder = r.usedAgain(pod), r.mountFact(r.of[pod.index].parked)
	r.fillRuntime(&e, pod)
	return policy.Used(e, policy.Parked{At: since}, policy.Rules{}, p.Now())
}
