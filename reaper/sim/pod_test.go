package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// leftover is what a kubelet cannot remove of a pod that has ended.
type leftover uint8

const (
	leavesNothing leftover = iota // the kubelet removes the directory within two runs
	leavesData                    // a process wrote to a volume's directory while nothing was mounted there
	leavesVolData                 // vol_data.json of a CSI volume, its mount gone
	leavesMount                   // a mount that stays; the kubelet then logs nothing
	leavesAll                     // it never tore anything down
	leavesLeaf                    // a directory that it adopts as a volume of its own after a restart
	numLeftovers
)

func (l leftover) String() string {
	return [...]string{"nothing", "data in a volume's directory", "a vol_data.json", "a mount", "everything", "files where a volume was mounted"}[l]
}

// spec is what a pod has in each of its lives: a static pod has the same UID in all of them.
type spec struct {
	uid    parsers.PodUID
	name   policy.PodName
	static bool // from a manifest; else the API server's, and it never comes back
	stated bool // the manifest states the UID, which then looks like the API server's
	waits  bool // for a volume that does not come: it never has a sandbox
	secret bool // a tmpfs with a secret
	volume int  // the CSI volume that it uses; 0 is none
	leaves leftover
}

// pod is a pod of this node, over all of its lives.
type pod struct {
	spec
	index int

	wanted   bool          // truth: a manifest is there, or the API server binds it to this node
	since    time.Duration // of which moment that is
	done     bool          // truth: its containers have completed; it is wanted all the same
	admitted bool          // in the kubelet's pod manager
	ending   bool          // the kubelet ends it
	stage    stage         // how far the kubelet has come with making it
	home     uint64        // truth: the inode of the directory in which its volumes were set up; 0 is none
	lives    int

	cgroup    bool
	sandboxes []sandbox
	held      bool // the kubelet's volume manager tries to tear down its leaf
	tries     int
	restored  bool // by the operator
	shown     bool // a source has shown the program in this life that it is a static pod
	shownAt   time.Duration
	known     bool // the program remembers that it is one
	deserted  bool // a kubelet without the API server did not want it, though the server did
}

// stage is how far a kubelet has come with a pod: syncPod makes its cgroup, then its directory, then its volumes, then its
// log directory and sandbox, and then its containers.
type stage uint8

const (
	unmade stage = iota
	hasCgroup
	hasDir
	hasVolumes
	hasSandbox
	hasContainers
)

// sandbox is one that the runtime lists.
type sandbox struct {
	id        string
	created   time.Time
	ready     bool
	container bool // it has one, in whatever state
	runs      bool // that container
}

// runs reports whether a container of the pod runs.
func (p *pod) runs() bool {
	return slices.ContainsFunc(p.sandboxes, func(s sandbox) bool { return s.runs })
}

// alive is the truth: the kubelet wants the pod, or a container of it runs.
func (p *pod) alive() bool { return p.wanted || p.runs() }

func (p *pod) String() string {
	kind := "pod"
	if p.static {
		kind = "static pod"
	}
	return fmt.Sprintf("%s %s", kind, p.name.Name)
}

// dir is a pod's directory, wherever it lies.
type dir struct {
	uid     parsers.PodUID
	id      policy.DirID
	changed time.Time
	entry   string // its name in quarantine
	volumes bool   // something is below volumes
	ran     bool   // etc-hosts and containers/NAME
	has     [4]int // entries by contents.Class
	csi     int    // the volume whose vol_data.json lies there
	leaf    int    // entries in the one leaf
	mounts  []mount
	touched bool // an agent mounted something in it while it lay in quarantine
	inUse   int  // processes that have a file of it open
	by      int  // the kubelet that ran when it was parked
	parked  time.Duration
	looked  time.Duration // when the look before that began
	steps   int           // how often the clock had been set then

	confirmed time.Duration // when it was stripped
}

// tree is what lies on the kubelet's disk: its pods directory, and the quarantine with the manifests beside the entries.
type tree struct {
	dirs       map[parsers.PodUID]*dir
	quarantine map[string]*dir
	manifests  map[string]bool
}

func (t tree) copied() tree {
	c := tree{maps.Clone(t.dirs), maps.Clone(t.quarantine), maps.Clone(t.manifests)}
	for uid, d := range c.dirs {
		was := *d
		c.dirs[uid] = &was
	}
	for name, d := range c.quarantine {
		was := *d
		c.quarantine[name] = &was
	}
	return c
}

// mount is one in a pod's directory, in whatever namespace.
type mount struct {
	agent bool // only in the private namespace of an agent
	data  bool // with a user's files behind it
	since time.Duration
	// forgotten is true where a planted defect does not see it any more.
	forgotten bool
}

// seen reports whether one of them is seen.
func seen(mounts []mount) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool { return !m.forgotten })
}

// stuck reports whether the kubelet cannot remove the directory: it removes empty directories of volumes, and what is not a volume.
func (d *dir) stuck() bool {
	return d.has[contents.ClassData]+d.has[contents.ClassEphemeral]+d.has[contents.ClassProjected]+d.has[contents.ClassSkeleton]+d.leaf > 0
}

// bare reports whether nothing uses it: it has what a kubelet makes before there is any volume.
func (d *dir) bare() bool { return !d.volumes && !d.ran && len(d.mounts) == 0 && !d.stuck() }

// residue is what a walk of it counts.
func (d *dir) residue() []policy.Residue {
	var rows []policy.Residue
	if d.ran {
		rows = append(rows, policy.Residue{Path: "containers/main/1", Class: contents.ClassSkeleton, Entries: 1})
	}
	for class, path := range [...]string{"volumes/x~y/data", "volumes/kubernetes.io~empty-dir/tmp", "volumes/kubernetes.io~secret/token", "volumes/kubernetes.io~csi/pv"} {
		if d.has[class] > 0 {
			rows = append(rows, policy.Residue{Path: path, Class: contents.Class(class), Entries: int64(d.has[class])})
		}
	}
	if d.leaf > 0 {
		rows = append(rows, policy.Residue{Path: theLeaf, Class: contents.ClassData, Entries: int64(d.leaf) + 1})
	}
	return rows
}

const theLeaf = "volumes/kubernetes.io~nfs/share"

// makePod decides what a pod has.
func makePod(i int, chance *rand.Rand) spec {
	p := spec{
		name:   policy.PodName{Namespace: "default", Name: fmt.Sprintf("web-%d", i)},
		static: chance.IntN(2) == 0, secret: chance.IntN(2) == 0, waits: chance.IntN(8) == 0,
		leaves: []leftover{leavesNothing, leavesData, leavesData, leavesVolData, leavesMount, leavesAll, leavesAll, leavesLeaf}[chance.IntN(8)],
	}
	if chance.IntN(4) == 0 {
		p.volume = 1 + chance.IntN(2)
	}
	p.stated = p.static && chance.IntN(3) == 0
	p.uid = parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", chance.Uint32(), i))
	if p.static {
		p.name = policy.PodName{Namespace: "kube-system", Name: fmt.Sprintf("static-%d-node", i)}
	}
	if p.static && !p.stated {
		p.uid = parsers.PodUID(fmt.Sprintf("%016x%016x", chance.Uint64(), i))
	}
	return p
}

// mountsOf lists the mounts of the pod in both of its directories.
func (n *node) mountsOf(uid parsers.PodUID) (again, parked []mount) {
	if d := n.dirs[uid]; d != nil {
		again = d.mounts
	}
	for _, d := range n.quarantine {
		if d.uid == uid {
			parked = append(parked, d.mounts...)
		}
	}
	return again, parked
}
