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
	file, used             bool
	manifest, staged       bool
	static                 bool // it was shown to be a static pod's
	seen                   *dir // its directory in place
}

// source is one that a trouble can make unreadable by itself.
type source int

const (
	ofRuntime source = 1 + iota
	ofCgroups
	ofMounts
	ofFiles
	ofUse
	ofKubelet
	ofManifests
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
	network   policy.Fact
	static    policy.StaticPods
	list      reading.KubeletList
	api       reading.APIList
	logs      reading.PodLogs
	resources *policy.PodResources
	written   time.Time // the state file

	mayEnforce, agrees policy.Fact // what is beside the pods: see policy.Gate

	boxErr, containerErr, cgroupErr, mountErr, fileErr, useErr, contentErr error
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
	r.lists, r.network = policy.Fact{Truth: policy.No, Detail: "it lists no pod"}, policy.Fact{Truth: policy.Yes}
	if r.boxErr != nil {
		r.lists = policy.Fact{Detail: r.boxErr.Error()}
	}
	if err != nil {
		r.network = policy.Fact{Detail: err.Error()}
		return
	}
	if !r.runtime.network {
		r.network = policy.Fact{Truth: policy.No, Detail: "cni plugin not initialized"}
	}
	for i, p := range r.pods {
		for _, s := range p.sandboxes {
			if r.runtime.emptied {
				return
			}
			of, contains := &r.of[i], s.container && r.containerErr == nil
			if r.boxErr == nil {
				of.sandboxes = append(of.sandboxes, policy.Sandbox{ID: s.id, Socket: "cri.sock", Created: s.created, Ready: s.ready, Busy: s.runs})
				of.ready = of.ready || s.ready
			}
			if of.container = of.container || contains; contains || r.boxErr == nil {
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

func (r *readings) readFiles(err error) {
	shows, err := r.answers(ofFiles, err)
	r.fileErr, r.written = err, r.node.kubelet.written
	for i, p := range r.pods {
		r.of[i].file = shows && r.node.kubelet.inFile[p.uid]
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

func (r *readings) readLogs(err error) {
	r.logs = reading.PodLogs{Dir: "logs", Pods: map[parsers.PodUID]bool{}, Err: err}
	for _, p := range r.pods {
		if p.logs {
			r.logs.Pods[p.uid] = true
		}
	}
}

// readResources asks the pod-resources socket for names.
func (r *readings) readResources(err error) {
	k := &r.node.kubelet
	r.resources = &policy.PodResources{Origin: "pod-resources", Names: map[policy.PodName]bool{}}
	if err != nil || !k.up || !r.asksResources {
		r.resources.Silent = "no answer"
		return
	}
	for _, p := range r.pods {
		if p.admitted && (k.version < 34 || !p.done) {
			r.resources.Names[p.name] = true
		}
	}
}

// readAPI asks the API server, where the program may.
func (r *readings) readAPI(err error) {
	r.api = reading.APIList{PodList: reading.PodList{Origin: "api", Silent: "not asked"}}
	if !r.asksAPI {
		return
	}
	if r.api.Silent = ""; err != nil || r.faults.away {
		r.api.Silent = errDoubt.Error()
		return
	}
	r.api.Pods, r.api.Own = map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}
	for _, p := range r.pods {
		if p.wanted && !p.static {
			r.api.Pods[p.uid], r.api.Own[p.uid] = true, true
			r.api.Listed++
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

// readManifests reads the manifests of static pods.
func (r *readings) readManifests(err error) {
	_, err = r.answers(ofManifests, err)
	r.static = policy.StaticPods{Origin: "manifests", Node: "node", Err: err}
	for i, p := range r.pods {
		if p.static && p.wanted && err == nil {
			r.of[i].manifest = true
			m := policy.Manifest{File: "static.yaml", Namespace: p.name.Namespace, Name: p.name.Name[:len(p.name.Name)-len("-node")]}
			if p.stated {
				m.UID = string(p.uid)
			}
			r.static.Manifests = append(r.static.Manifests, m)
		}
	}
}

// readLists asks the kubelet itself: /pods and its gauges with credentials, and since 1.37 its own socket.
func (r *readings) readLists(err error) {
	_, err = r.answers(ofLists, err)
	k := &r.node.kubelet
	l := &r.list
	l.Origin, l.Silent, l.Own = "kubelet", "not asked", reading.PodsAPI{Origin: "pods-api", Silent: "no such socket"}
	if err != nil || !k.up {
		l.Silent, l.Own.Silent = errDoubt.Error(), errDoubt.Error()
		l.Weigh()
		return
	}
	if r.asksKubelet {
		l.Silent, l.Pods = "", map[parsers.PodUID]bool{}
		if k.swept && k.version >= 27 {
			l.Gauges.Working = []policy.WorkingPods{{Lifecycle: "sync", Config: "desired"}}
		}
		for _, p := range r.pods {
			if p.admitted && !p.ending {
				l.Pods[p.uid] = true
				l.Listed++
				if !p.static {
					l.FromAPI++
				}
			}
		}
	}
	r.pass(r.between(0, r.faults.slow/2))
	if k.version >= 37 && k.up {
		if l.Own.Silent = "initializing"; k.ready || r.partial && k.now-k.booted-k.id.Start > 8*time.Second {
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
	}
	l.Weigh()
}

// weigh weighs some answers by others.
func (r *readings) weigh() {
	r.api.Weigh(func(uid parsers.PodUID) bool {
		i := r.byUID[uid].index
		return len(r.of[i].sandboxes) > 0 && r.of[i].cgroup
	})
	r.compare()
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
