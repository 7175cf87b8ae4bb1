package sim

import (
	"cmp"
	"errors"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// errDoubt is the error of a source that cannot be read.
var errDoubt = errors.New("it did not answer in time")

// sight is what the sources show of one pod, each at its moment.
type sight struct {
	sandboxes              []policy.Sandbox
	made                   policy.Span
	container, ready       bool
	cgroup, busy           bool
	again, parked, mounted bool // a mount in pods/UID, in quarantine, in either
	used, staged           bool
	static                 bool // it was shown to be a static pod's
	seen                   *dir // its directory in place
}

// source is one that a trouble can make unreadable by itself.
type source int

const (
	ofRuntime source = 1 + iota
	ofCgroups
	ofMounts
	ofUse
	ofKubelet
	ofLists
	ofSandboxes // of the runtime's two lists, this one
	ofContainers
	ofContents // of the pods' directories
	numSources
)

// answers reports whether the source that was read shows something, and returns its error.
func (n *node) answers(s source, err error) (shows bool, _ error) {
	if n.faults.dark == s {
		n.faults.last = n.now
		return false, errDoubt
	}
	return err == nil || n.oneIn(2), err
}

// readings are the answers of the sources.
type readings struct {
	*node
	of        []sight        // by the pod's index
	at        policy.Instant // when the look began
	kubelet   policy.Fact
	id        policy.KubeletID
	kubeletOK bool
	lists     policy.Fact
	list      reading.KubeletList

	mayEnforce, agrees policy.Fact // what is beside the pods: see policy.Gate

	boxErr, containerErr, cgroupErr, mountErr, useErr, contentErr error
}

// runtimeErr is why one of the runtime's lists cannot be relied on.
func (r *readings) runtimeErr() error { return cmp.Or(r.boxErr, r.containerErr) }

func (n *node) reading() *readings { return &readings{node: n, of: make([]sight, len(n.pods))} }

// read asks one source, which takes some time and may not answer.
func (n *node) read(answer func(err error)) {
	var err error
	n.pass(n.between(0, n.faults.slow))
	if n.faults.reads > 0 && n.oneIn(n.faults.reads) {
		if n.oneIn(3) {
			n.pass(10 * time.Second)
		}
		err = errDoubt
		n.faults.last = n.now
	}
	answer(err)
	n.reach(stepRead, "")
}

// all asks several sources in any order.
func (n *node) all(sources ...func(error)) {
	n.dice.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	for _, ask := range sources {
		n.read(ask)
	}
}

// readRuntime asks for sandboxes and containers, in all states.
func (r *readings) readRuntime(err error) {
	if _, err = r.answers(ofRuntime, err); !r.runtime.up {
		err = errDoubt
	}
	_, r.boxErr = r.answers(ofSandboxes, err)
	_, r.containerErr = r.answers(ofContainers, err)
	r.lists = policy.Fact{Truth: policy.No, Detail: "it lists no pod"}
	if r.boxErr != nil {
		r.lists = policy.Fact{Detail: r.boxErr.Error()}
	}
	if err != nil {
		return
	}
	for i, p := range r.pods {
		for _, s := range p.sandboxes {
			if r.runtime.emptied {
				return
			}
			of, contains := &r.of[i], s.container && r.containerErr == nil
			if r.boxErr == nil {
				of.sandboxes = append(of.sandboxes, policy.Sandbox{ID: s.id, Socket: "cri.sock", Created: s.created, Ready: s.ready})
				of.ready = of.ready || s.ready
			}
			of.container = of.container || contains && s.runs
			if contains || r.boxErr == nil {
				r.lists.Truth = policy.Yes
				of.made.Add(s.created)
			}
		}
	}
}

// readContents is whether what lies in the pods' directories can be read.
func (r *readings) readContents(err error) { _, r.contentErr = r.answers(ofContents, err) }

func (r *readings) readCgroups(err error) {
	shows, err := r.answers(ofCgroups, err)
	r.cgroupErr = err
	for i, p := range r.pods {
		r.of[i].cgroup, r.of[i].busy = shows && (p.cgroup || p.runs()), shows && p.runs()
	}
}

func (r *readings) readMounts(err error) {
	shows, err := r.answers(ofMounts, err)
	if r.mountErr = err; r.runtime.hidden {
		r.mountErr, shows = errors.New("a process hides what is mounted in its namespace"), r.oneIn(2)
	}
	for i, p := range r.pods {
		again, parked := r.mountsOf(p.uid)
		of := &r.of[i]
		of.again, of.parked = shows && seen(again), shows && seen(parked)
		of.mounted = of.again || of.parked
	}
}

func (r *readings) readUse(err error) {
	shows, err := r.answers(ofUse, err)
	r.useErr = err
	for i, p := range r.pods {
		d := r.dirs[p.uid]
		r.of[i].used = shows && d != nil && d.inUse > 0
		for _, d := range r.quarantine {
			r.of[i].used = r.of[i].used || shows && d.uid == p.uid && d.inUse > 0
		}
	}
}

func (r *readings) readKubelet(err error) {
	_, err = r.answers(ofKubelet, err)
	switch k := &r.node.kubelet; {
	case err != nil:
		r.kubelet = policy.Fact{Detail: err.Error()}
	case !k.up:
		r.kubelet = policy.Fact{Truth: policy.No, Detail: "no kubelet runs"}
	default:
		r.kubelet, r.id, r.kubeletOK = policy.Fact{Truth: policy.Yes}, k.id, true
	}
}

// readLists asks the kubelet itself at its own socket, since 1.37.
func (r *readings) readLists(err error) {
	_, err = r.answers(ofLists, err)
	k := &r.node.kubelet
	l := &r.list
	l.Silent, l.Own = "not asked", reading.PodsAPI{Origin: "pods-api", Silent: "no such socket"}
	if err != nil || !k.up {
		l.Own.Silent = errDoubt.Error()
		return
	}
	r.pass(r.between(0, r.faults.slow/2))
	if k.version < 37 || !k.up {
		return
	}
	if l.Own.Silent = "initializing"; !k.ready && (!r.partial || k.now-k.booted-k.id.Start <= 8*time.Second) {
		return
	}
	l.Own.Silent, l.Own.Pods = "", map[parsers.PodUID]bool{}
	for _, p := range r.pods {
		if p.admitted && !p.ending {
			l.Own.Pods[p.uid] = true
			l.Own.Listed++
		}
	}
	if l.Own.Listed == 0 {
		l.Own.Doubt = "it lists no pod"
	}
}

// compare doubts the list of cgroups where it has none of a running pod.
func (r *readings) compare() {
	running, found := 0, false
	for i := range r.pods {
		if r.of[i].ready {
			running++
			found = found || r.of[i].cgroup
		}
	}
	if foreign := reading.ForeignCgroups(running, found, true); foreign != "" && r.cgroupErr == nil {
		r.cgroupErr = errors.New(foreign)
	}
}
