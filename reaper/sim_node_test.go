package reaper_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// node is one machine and all that is on it. Only run and pass move its clock.
type node struct {
	scenario
	dice   *rand.Rand
	now    time.Duration // since the machine was switched on for the first time
	booted time.Duration
	boots  int
	skew   time.Duration // of the wall clock
	skewed time.Duration // by how much in all it was set
	queue  []event       // sorted by time
	turned int

	pods  []*pod
	byUID map[parsers.PodUID]*pod
	tree
	unsynced []tree // before each change since the last sync
	inodes   uint64
	volumes  map[int]bool // CSI volumes that are staged

	kubelet kubelet
	log     kubeletLog
	faults  [numKinds + 1]int // more than 0: the trouble lasts
	trouble time.Duration     // when anything was out of order last
	waiting []act             // for a step of the program
	program program
	memory  *memory
	oracle  oracle
	story   []string
	telling bool
	ctx     context.Context //nolint:containedctx // of the scan that is under way
	idle    bool            // hours pass in which nothing happens
}

// event is something that will happen.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

// after schedules an event.
func (n *node) after(d time.Duration, do func()) {
	n.turned++
	e := event{n.now + d, n.turned, do}
	i, _ := slices.BinarySearchFunc(n.queue, e, func(a, b event) int {
		if a.at != b.at {
			return int(min(max(b.at-a.at, -1), 1)) // the next event is the last of the slice
		}
		return b.seq - a.seq
	})
	n.queue = slices.Insert(n.queue, i, e)
}

// pass lets the world go on for d.
func (n *node) pass(d time.Duration) {
	end := n.now + d
	for len(n.queue) > 0 && n.queue[len(n.queue)-1].at <= end {
		e := n.queue[len(n.queue)-1]
		n.queue = n.queue[:len(n.queue)-1]
		n.now = max(n.now, e.at)
		e.do()
	}
	n.now = max(n.now, end)
}

// run lets the world and the program go on until then, or until the oracle has found something.
func (n *node) run(until time.Duration) {
	for n.oracle.failed == "" {
		next := until
		if len(n.queue) > 0 {
			next = min(next, n.queue[len(n.queue)-1].at)
		}
		if due, ok := n.program.due(); ok && n.booted+due <= next {
			n.now = max(n.now, n.booted+due)
			n.turn()
			continue
		}
		if next >= until {
			n.now = max(n.now, until)
			return
		}
		n.pass(next - n.now)
	}
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (n *node) wall() time.Time { return epoch.Add(n.now + n.skew) }

// Now is the program's clock.
func (n *node) Now() judge.Instant {
	return judge.Instant{Wall: n.wall(), BootID: "boot" + strconv.Itoa(n.boots), Boot: n.now - n.booted}
}

func (n *node) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.dice.Int64N(int64(most-least)+1))
}

func (n *node) oneIn(times int) bool { return n.dice.IntN(times) == 0 }

func (n *node) tell(format string, args ...any) {
	if n.telling {
		n.story = append(n.story, fmt.Sprintf("%10s  %s", n.now.Truncate(time.Millisecond), fmt.Sprintf(format, args...)))
	}
}

// pod is a pod of this node, over all of its lives.
type pod struct {
	spec
	index int

	wanted   bool // truth: a manifest is there, or the API server binds it
	lives    int
	admitted bool // in the kubelet's pod manager
	ending   bool
	stage    stage
	home     uint64 // the inode in which its volumes were set up
	held     bool   // the volume manager has a volume of it

	cgroup      bool
	ready, runs bool          // its sandbox, and the container in it
	exited      bool          // the runtime lists a stopped sandbox
	began       time.Duration // when the kubelet made its cgroup in this life
	publishing  uint64        // the inode in which a NodePublish is under way
	restored    bool          // by an operator, and not released
	texts       int           // mounts that have its UID as a text
	returned    int           // how often it was restored since it was alive
}

type stage uint8

const (
	unmade stage = iota
	hasCgroup
	hasDir
	hasVolumes
	hasSandbox
	hasContainer
)

func (p *pod) alive() bool { return p.wanted || p.runs }

// shows reports whether the node has a sign of the pod that no pod can fake.
func (n *node) shows(p *pod) bool {
	return p.ready || p.runs || p.cgroup || n.kubelet.lists(p)
}

func (p *pod) String() string {
	kind := "pod"
	if p.static {
		kind = "static pod"
	}
	return kind + " " + strconv.Itoa(p.index)
}

// dir is a pod's directory, wherever it is.
type dir struct {
	uid      parsers.PodUID
	id       judge.FileID
	entry    string
	volumes  bool // something is below volumes
	has      map[content.Class]int
	csi      int
	mounts   []mount
	version  uint64        // of its skeleton
	youngest time.Duration // when a volume directory or vol_data.json was written last, on the node's clock
	wall     time.Time     // the same on the wall clock

	moved     time.Duration
	movedIn   int // the boot
	confirmed time.Duration
}

type mount struct {
	since time.Duration
	own   bool // of the pod itself, else an agent's
}

// touch notes that the kubelet has changed something in the directory.
func (n *node) touch(d *dir, volume bool) {
	d.version++
	if volume {
		d.youngest, d.wall = n.now, n.wall()
	}
}

func (n *node) newDir(uid parsers.PodUID) *dir {
	n.inodes++
	d := &dir{uid: uid, id: judge.FileID{Dev: 1, Ino: n.inodes, Btime: n.wall().UnixNano()}, has: map[content.Class]int{}, youngest: -time.Hour}
	d.wall = n.wall().Add(-time.Hour)
	return d
}

// stuck reports whether a kubelet cannot remove the directory.
func (d *dir) stuck() bool {
	return d.has[content.Data]+d.has[content.Ephemeral]+d.has[content.Projected]+d.has[content.Skeleton] > 0 || len(d.mounts) > 0
}

// bare reports whether it has only what a kubelet makes before a volume is used.
func (d *dir) bare() bool {
	return len(d.mounts) == 0 && d.has[content.Data]+d.has[content.Ephemeral]+d.has[content.Projected] == 0
}

func (d *dir) mountedByKubelet() bool {
	return slices.ContainsFunc(d.mounts, func(m mount) bool { return m.own })
}

// tree is what is on the kubelet's disk.
type tree struct {
	dirs       map[parsers.PodUID]*dir
	quarantine map[string]*dir
}

func (t tree) copied() tree {
	c := tree{maps.Clone(t.dirs), maps.Clone(t.quarantine)}
	for uid, d := range c.dirs {
		c.dirs[uid] = d.copied()
	}
	for name, d := range c.quarantine {
		c.quarantine[name] = d.copied()
	}
	return c
}

func (d *dir) copied() *dir {
	c := *d
	c.has, c.mounts = maps.Clone(d.has), slices.Clone(d.mounts)
	return &c
}

// mountsOf lists the mounts of the pod in all of its directories.
func (n *node) mountsOf(uid parsers.PodUID) (all []mount) {
	if d := n.dirs[uid]; d != nil {
		all = append(all, d.mounts...)
	}
	for _, d := range n.quarantine {
		if d.uid == uid {
			all = append(all, d.mounts...)
		}
	}
	return all
}

// dirOf returns the directory of a pod, or what is of it in quarantine.
func (n *node) dirOf(p *pod) *dir {
	if d := n.dirs[p.uid]; d != nil {
		return d
	}
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		if d := n.quarantine[name]; d.uid == p.uid {
			return d
		}
	}
	return nil
}
