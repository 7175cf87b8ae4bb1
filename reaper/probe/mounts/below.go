package mounts

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// The kernel propagates an unmount from the mount that has the mount point to all mounts of its peer group
// and to their slaves, in all mount namespaces (mount_namespaces(7), SHARED SUBTREES). So Below answers two
// questions:
//
//   - Which other mounts are copies of the pod's own? A copy lies at the same path below pods/UID and is
//     in the peer group of the mount, or its slave. No process can put a mount of its own into that group.
//     The kernel unmounts a copy, too, as when the kubelet unmounts. Any other mount of the pod prevents
//     the unmount.
//   - Which other places lose a mount? None, if the mount point lies on the mount that has the pods directory:
//     all copies lie in the dead pod's own directory. If it lies on a mount of the pod, that may be a bind mount
//     of a directory of the node, with the node's own mount as its peer: see Mount.Shares. A shared slave
//     propagates to its own peers and slaves. At each place the kernel detaches whatever is mounted there.

// mountView is a mount as one view shows it, for the unmounting of one pod.
type mountView struct {
	view           *view
	mount          policy.Mount
	target         string
	peers, masters string // its peer group, and the one of which it is a slave; "" if there is none
	concerns       bool   // it belongs to the pod by its place: see view.concerns
	// on is the pod's mount that has the mount point, if that is shared, and receivers are the peer groups that it
	// propagates to.
	on        *mountView
	receivers map[string]bool
}

// mostLines and mostLinks bound what is held of all namespaces.
const mostLines, mostLinks = 10_000, 200_000

// collector has what one reading collects for the unmounting of one pod.
type collector struct {
	uid      parsers.PodUID
	second   func(l *procfs.MountLine) bool // selects the lines of a second reading
	lines    []mountView                    // of the pod in the first reading, selected in the second
	links    map[link]bool                  // of all mounts in the first reading
	overflow bool
}

// link has the peer group to which a mount propagates, and the one from which it receives.
type link struct{ peers, masters, dev string }

// fresh returns a collector for one reading, which may go on after its time-out: nothing else may write to it.
func (c *collector) fresh() *collector {
	if c == nil {
		return nil
	}
	return &collector{uid: c.uid, second: c.second, links: map[link]bool{}}
}

func (c *collector) addLink(l *procfs.MountLine) {
	if c == nil || c.second != nil {
		return
	}
	peers, masters := propagation(l)
	if peers == "" && masters == "" {
		return
	}
	if len(c.links) == mostLinks {
		c.overflow = true
		return
	}
	c.links[link{peers, masters, string(l.Dev)}] = true
}

// receivers returns the peer groups whose mounts and slaves receive an unmount from the peer group from. A group that no
// process shows counts as one, since its master is unknown.
func (c *collector) receivers(from, dev string) map[string]bool {
	groups, shown := map[string]bool{from: true}, map[string]bool{}
	for l := range c.links {
		shown[l.peers] = true
	}
	for l := range c.links {
		if l.masters != "" && l.dev == dev && !shown[l.masters] {
			groups[l.masters] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for l := range c.links {
			if l.peers != "" && groups[l.masters] && !groups[l.peers] {
				groups[l.peers], grown = true, true
			}
		}
	}
	return groups
}

func (c *collector) wants(l *procfs.MountLine) bool {
	return c != nil && c.second != nil && c.second(l)
}

// addLine adds a line. named reports whether it names the pod, and concerns whether it belongs to it. A line that only names
// the pod may be a mount on one of the pod's. In another user namespace any user can choose the name.
func (c *collector) addLine(v *view, l *procfs.MountLine, named bool, concerns func() bool) {
	own := c.second == nil && named && concerns()
	if c.second == nil && !own && (!named || v.apart) || c.second != nil && !c.second(l) {
		return
	}
	if len(c.lines) == mostLines {
		c.overflow = true
		return
	}
	id, _ := l.Number()
	parent, _ := strconv.ParseUint(string(l.Parent), 10, 64)
	n := mountView{view: v, concerns: own, target: procfs.Unescape(l.Target), mount: policy.Mount{
		ID: id, Parent: parent, Dev: string(l.Dev), Root: procfs.Unescape(l.Root), Type: procfs.Unescape(l.FSType()), Source: source(l),
	}}
	n.peers, n.masters = propagation(l)
	c.lines = append(c.lines, n)
}

// propagation returns the peer groups of the optional fields: "rw shared:5 master:3 - ext4 /dev/vda1 rw".
func propagation(l *procfs.MountLine) (peers, masters string) {
	optional, _, _ := strings.Cut(string(l.Rest), " - ")
	for field := range strings.FieldsSeq(optional) {
		if strings.HasPrefix(field, "shared:") {
			peers = field
		}
		if group, ok := strings.CutPrefix(field, "master:"); ok {
			masters = "shared:" + group
		}
	}
	return peers, masters
}

func source(l *procfs.MountLine) string {
	_, rest, _ := strings.Cut(string(l.Rest), " - ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		return procfs.Unescape([]byte(fields[1]))
	}
	return ""
}

// Below reads the mounts of one pod, for an operator who wants to unmount them. self means that this process's own
// namespaces are the node. It returns in bounded time; what is unread by then is Unknown.
func (r *Reader) Below(ctx context.Context, uid parsers.PodUID, sockets []string, self bool) policy.PodMounts {
	pods, on, own, err := r.nodeView(self)
	if err != nil {
		return policy.PodMounts{Outside: policy.Fact{Origin: r.ProcDir, Detail: err.Error()}}
	}
	w := parsers.PodSet{uid: true}
	m, first := r.collect(ctx, w, sockets, &collector{uid: uid})
	found, rest := split(first.lines, own, pods+"/"+string(uid))
	found = foldHidden(found, on)
	p := policy.PodMounts{Outside: m.outside(uid, own, found, rest)}
	if p.Outside.Truth == policy.No {
		p.Outside = r.others(ctx, w, sockets, first, found, ownPod{own, pods, uid}, p.Outside)
	}
	p.Whole = m.Err == nil && p.Outside.Truth != policy.Unknown
	for _, l := range found {
		p.Mounts = append(p.Mounts, l.mount)
	}
	p.Sort()
	return p
}

// nodeView returns the path of the pods directory and the ID of its mount, and the first mount of the node's mount
// namespace, which identifies it. This process must be in it.
func (r *Reader) nodeView(self bool) (pods string, on uint64, namespace string, err error) {
	namespace, err = r.firstMount("self")
	if err == nil && !self {
		var node string
		if node, err = r.firstMount("1"); err == nil && node != namespace {
			err = errors.New("this process is not in the mount namespace of PID 1: run it in a root shell of the node")
		}
	}
	if err != nil {
		return "", 0, "", err
	}
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, r.RootDir+"/pods", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", 0, "", beneath.PathError("open", r.RootDir+"/pods", err)
	}
	defer beneath.Close(fd)
	if on, err = beneath.MountID(fd); err != nil {
		return "", 0, "", err
	}
	pods, err = os.Readlink(r.ProcDir + "/self/fd/" + strconv.Itoa(fd))
	return pods, on, namespace, err
}

// firstMount returns the ID of the first mount in a process's mountinfo.
func (r *Reader) firstMount(pid string) (id string, err error) {
	path := r.ProcDir + "/" + pid + "/mountinfo"
	line, err := procfs.FirstMountAt(path)
	if id, _, _ = strings.Cut(string(line), " "); err == nil && id == "" {
		err = errors.New(path + " shows no mount")
	}
	return id, err
}

// collect reads the mounts into a collector like want. After a time-out that is empty.
func (r *Reader) collect(ctx context.Context, w parsers.PodSet, sockets []string, want *collector) (*Answer, *collector) {
	own := *r
	own.collector = want
	m := own.Read(ctx, w, sockets)
	c := m.collector
	if c == nil {
		c = want.fresh()
	}
	if c.overflow {
		m.Err = cmp.Or(m.Err, errors.New("there are more mounts than are inspected"))
	}
	return m, c
}

// split returns the mounts below dir in the node's own namespace, and all other lines.
func split(lines []mountView, own, dir string) (found, rest []mountView) {
	for _, l := range lines {
		below, ok := strings.CutPrefix(l.target, dir+"/")
		if !ok || l.view.first != own || l.view.root != "" {
			rest = append(rest, l)
			continue
		}
		l.mount.Path = below
		found = append(found, l)
	}
	return found, rest
}

// foldHidden adds hidden mounts as copies to those that they copy. The kubelet bind-mounts its root directory on itself, and
// what is mounted there is propagated to the covered directory, below the mount of the pods directory.
func foldHidden(found []mountView, on uint64) (shown []mountView) {
	hidden, here := map[uint64]bool{}, map[uint64]bool{on: true}
	for _, l := range found {
		here[l.mount.ID] = true
	}
	for known := -1; known < len(hidden); { // a mount on a hidden mount is hidden, too
		known = len(hidden)
		for _, l := range found {
			if !here[l.mount.Parent] || hidden[l.mount.Parent] {
				hidden[l.mount.ID] = true
			}
		}
	}
	for _, l := range found {
		if !hidden[l.mount.ID] {
			shown = append(shown, l)
		}
	}
	for _, l := range found {
		if !hidden[l.mount.ID] {
			continue
		}
		i := slices.IndexFunc(shown, func(o mountView) bool {
			return l.peers != "" && o.peers == l.peers && o.mount.Path == l.mount.Path && o.mount.Dev == l.mount.Dev && o.mount.Root == l.mount.Root
		})
		if i < 0 {
			shown = append(shown, l) // not a copy of a shown mount
			continue
		}
		shown[i].mount.Copies = append(shown[i].mount.Copies, l.mount.ID)
	}
	return shown
}

// outside reports a mount of the pod that is neither in found nor a copy, and adds each copy to its mount.
func (m *Answer) outside(uid parsers.PodUID, own string, found, rest []mountView) policy.Fact {
	if !slices.ContainsFunc(m.views, func(v *view) bool { return v.first == own && v.whole }) && m.Err == nil {
		m.Err = errors.New("the node's own mount namespace was not read completely")
	}
	for _, l := range rest {
		// The same ID is the same mount, seen by a process with another root.
		same := slices.ContainsFunc(found, func(f mountView) bool { return f.mount.ID == l.mount.ID && !l.view.byFile })
		if !same && !copyOf(l, found, uid) && l.concerns {
			h := Hit{Target: l.target, view: l.view, root: l.mount.Root, fsType: l.mount.Type, procDir: m.procDir}
			return m.fact(uid, h, true)
		}
	}
	return m.fact(uid, Hit{}, false)
}

// copyOf reports whether l is a copy of one of the pod's mounts, and adds its ID there.
func copyOf(l mountView, found []mountView, uid parsers.PodUID) bool {
	for i := range found {
		o := &found[i]
		if o.peers == "" || l.peers != o.peers && l.masters != o.peers || l.mount.Dev != o.mount.Dev || l.mount.Root != o.mount.Root ||
			!strings.HasSuffix(l.target, "/pods/"+string(uid)+"/"+o.mount.Path) {
			continue
		}
		o.mount.Copies = append(o.mount.Copies, l.mount.ID)
		return true
	}
	return false
}

// ownPod is the pod to unmount, with the node's own namespace and the path of the pods directory in it.
type ownPod struct {
	own, pods string
	uid       parsers.PodUID
}

// others reads the namespaces once more. It adds to the mounts the places that receive their unmount, and the users of the
// same CSI volumes. It returns outside, or why these are unknown.
func (r *Reader) others(
	ctx context.Context, w parsers.PodSet, sockets []string, first *collector, found []mountView, at ownPod, outside policy.Fact,
) policy.Fact {
	groups, copies, volumes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	byID := map[uint64]*mountView{}
	for i := range found {
		byID[found[i].mount.ID] = &found[i]
	}
	for i, l := range found {
		if up := byID[l.mount.Parent]; up != nil && up.peers != "" {
			found[i].on, found[i].receivers = up, first.receivers(up.peers, up.mount.Dev)
			maps.Copy(groups, found[i].receivers)
			for _, id := range up.mount.Copies {
				copies[strconv.FormatUint(id, 10)] = true
			}
		}
		if l.mount.CSI() {
			volumes[l.mount.Dev] = true
		}
	}
	if len(groups)+len(volumes) == 0 {
		return outside
	}
	m, second := r.collect(ctx, w, sockets, &collector{second: func(l *procfs.MountLine) bool {
		peers, masters := propagation(l)
		return groups[peers] || groups[masters] || copies[string(l.Parent)] ||
			volumes[string(l.Dev)] && slices.ContainsFunc(found, func(f mountView) bool { return sameVolume(l, f.mount) })
	}})
	if m.Err == nil && len(groups) > 0 && slices.ContainsFunc(m.views, func(v *view) bool { return v.byFile }) {
		m.Err = errors.New("every process of a mount namespace has another root: it is not known whether an unmount is propagated there")
	}
	if m.Err != nil {
		return policy.Fact{Origin: m.origin, Detail: m.Err.Error()}
	}
	for i := range found {
		l := &found[i]
		for _, o := range second.lines {
			if where, ok := l.sharesWith(o, at.uid); ok {
				l.mount.Shares = addShare(l.mount.Shares, where, o, at.own, m)
			}
			l.mount.Users = addUser(l.mount.Users, l, o, at, m)
		}
	}
	return outside
}

// sharesWith returns the place at which o receives the unmount of l, or the place of o if it is another mount on a copy. It
// does not check whether anything is mounted at the first: doubt keeps.
func (l *mountView) sharesWith(o mountView, uid parsers.PodUID) (string, bool) {
	if l.on == nil || o.mount.ID == l.on.mount.ID {
		return "", false
	}
	if slices.Contains(l.on.mount.Copies, o.mount.Parent) { // it is mounted on a copy
		mine := o.mount.ID == l.mount.ID || slices.Contains(l.mount.Copies, o.mount.ID)
		return o.target, !mine && strings.HasSuffix(o.target, "/pods/"+string(uid)+"/"+l.mount.Path)
	}
	if !l.receivers[o.peers] && !l.receivers[o.masters] || slices.Contains(l.on.mount.Copies, o.mount.ID) {
		return "", false
	}
	below, _ := procfs.Relative(l.target, l.on.target)
	at, reached := procfs.Relative(path.Join(l.on.mount.Root, below), o.mount.Root)
	return path.Join(o.target, at), reached
}

func addShare(shares []string, where string, o mountView, own string, m *Answer) []string {
	words := clean.Name(where)
	if o.view.first != own {
		words += " in " + o.view.words(m.procDir)
	}
	if len(shares) < mostShares && !slices.Contains(shares, words) {
		shares = append(shares, words)
	}
	return shares
}

// mostShares bounds the shown places that share a mount, and the users of its volume.
const mostShares = 3

// sameVolume reports whether the line may show the CSI volume of m: a mount of it or of a part of it, or a mount in a pod's
// directory that overlaps with it.
func sameVolume(l *procfs.MountLine, m policy.Mount) bool {
	if !m.CSI() || string(l.Dev) != m.Dev {
		return false
	}
	root := procfs.Unescape(l.Root)
	_, part := procfs.Relative(root, m.Root)
	return part || strings.Contains(string(l.Target), "/pods/") && overlap(root, m.Root)
}

// overlap reports whether two directories of a file system are the same or one contains the other. Otherwise they are
// different volumes, as are different block devices in devtmpfs.
func overlap(a, b string) bool {
	_, below := procfs.Relative(a, b)
	_, above := procfs.Relative(b, a)
	return below || above
}

// addUser adds the pod or process that has o mounted, if that is the volume of l.
func addUser(users []string, l *mountView, o mountView, at ownPod, m *Answer) []string {
	if !l.mount.CSI() || o.mount.Dev != l.mount.Dev || !overlap(o.mount.Root, l.mount.Root) {
		return users
	}
	var words string
	below, ok := strings.CutPrefix(o.target, at.pods+"/")
	name, _, _ := strings.Cut(below, "/")
	uid, isPod := parsers.ParsePodUID(name)
	switch {
	case o.view.first != at.own:
		_, part := procfs.Relative(o.mount.Root, l.mount.Root)
		if !part || strings.Contains(o.target, "/pods/") || strings.Contains(o.target, string(pluginsDir)) {
			return users // an agent's copy of the node's mounts, or the driver's own
		}
		words = o.view.user(m.procDir)
	case ok && isPod && uid != at.uid:
		words = "pod " + string(uid)
	}
	if words == "" || len(users) == mostShares || slices.Contains(users, words) {
		return users
	}
	return append(users, words)
}
