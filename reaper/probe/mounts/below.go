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

// An unmount reaches further than one mount namespace. The kernel passes it on from the mount that has
// the mount point to all mounts of its peer group, and to their slaves (mount_namespaces(7), SHARED
// SUBTREES). So two questions come before one:
//
//   - Which other mounts are copies of the pod's own? A copy lies at the same path below pods/UID and is
//     in the peer group of the mount, or its slave. No process can put a mount of its own into that group.
//     It goes along, as it does when the kubelet unmounts. All other mounts of the pod speak against it.
//   - Who else receives what is unmounted? If the mount point lies on the mount that has the pods directory,
//     none: all copies lie in the dead pod's own directory. If it lies on a mount of the pod, that may be a
//     bind of a directory of the node, and the peer is the node's own: see Mount.Shares. A slave that is shared
//     itself passes it on to its own peers and slaves. At each place the kernel detaches what is mounted there,
//     whatever that is.

// seen is a line of mountinfo that counts for the unmounting of one pod.
type seen struct {
	view           *view
	mount          policy.Mount
	target         string
	peers, masters string // the peer group, and that of which it is a slave; "" if there is none
	concerns       bool   // it is about the pod by where it lies, and not by its name alone
	// on is the pod's mount that has the mount point, if that is shared, and receivers are the peer groups that it passes on to.
	on        *seen
	receivers map[string]bool
}

// mostLines bounds what is held of all namespaces.
const mostLines = 10_000

// gather is what one reading collects for the unmounting of one pod.
type gather struct {
	uid   parsers.PodUID
	also  func(l *procfs.MountLine) bool // what the second reading is for
	lines []seen                         // of the pod in the first reading, and those of also in the second
	links map[link]bool                  // of all mounts in the first reading
	more  bool
}

// link is what a mount receives from, and passes on to.
type link struct{ peers, masters, dev string }

// mostLinks bounds what is held of all namespaces.
const mostLinks = 200_000

// anew returns a gather for one reading. That may be abandoned, and go on: nothing else uses what it writes to.
func (g *gather) anew() *gather {
	if g == nil {
		return nil
	}
	return &gather{uid: g.uid, also: g.also, links: map[link]bool{}}
}

// note takes in how the mount passes on what is mounted and unmounted on it.
func (g *gather) note(l *procfs.MountLine) {
	if g == nil || g.also != nil {
		return
	}
	peers, masters := propagation(l)
	if peers == "" && masters == "" {
		return
	}
	if len(g.links) == mostLinks {
		g.more = true
		return
	}
	g.links[link{peers, masters, string(l.Dev)}] = true
}

// receivers returns the peer groups of which each mount, and each slave, receives what is unmounted on a mount of the
// group from. A group that no process shows counts as one: what its master is cannot be known.
func (g *gather) receivers(from, dev string) map[string]bool {
	in, shown := map[string]bool{from: true}, map[string]bool{}
	for l := range g.links {
		shown[l.peers] = true
	}
	for l := range g.links {
		if l.masters != "" && l.dev == dev && !shown[l.masters] {
			in[l.masters] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for l := range g.links {
			if l.peers != "" && in[l.masters] && !in[l.peers] {
				in[l.peers], grown = true, true
			}
		}
	}
	return in
}

func (g *gather) wants(l *procfs.MountLine) bool { return g != nil && g.also != nil && g.also(l) }

// add takes in a line. named reports whether it names the pod, and concerns whether it is about it. What lies on another
// mount of the pod is about it by its name alone, and a stranger can write that.
func (g *gather) add(v *view, l *procfs.MountLine, named bool, concerns func() bool) {
	about := g.also == nil && named && concerns()
	if g.also == nil && !about && (!named || v.apart) || g.also != nil && !g.also(l) {
		return
	}
	if len(g.lines) == mostLines {
		g.more = true
		return
	}
	id, _ := l.Number()
	parent, _ := strconv.ParseUint(string(l.Parent), 10, 64)
	n := seen{view: v, concerns: about, target: procfs.Unescape(l.Target), mount: policy.Mount{
		ID: id, Parent: parent, Dev: string(l.Dev), Root: procfs.Unescape(l.Root), Type: procfs.Unescape(l.FSType()), Source: source(l),
	}}
	n.peers, n.masters = propagation(l)
	g.lines = append(g.lines, n)
}

// propagation returns the optional fields: "rw shared:5 master:3 - ext4 /dev/vda1 rw".
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

// Below reads what is mounted of one pod, for an operator who wants it unmounted. self means that this process's own
// namespaces are the node. It returns in bounded time; what is not known by then is Unknown.
func (r *Reader) Below(ctx context.Context, uid parsers.PodUID, sockets []string, self bool) policy.PodMounts {
	pods, on, own, err := r.own(self)
	if err != nil {
		return policy.PodMounts{Outside: policy.Fact{Origin: r.ProcDir, Detail: err.Error()}}
	}
	w := parsers.PodSet{uid: true}
	m, first := r.gathering(ctx, w, sockets, &gather{uid: uid})
	found, rest := split(first.lines, own, pods+"/"+string(uid))
	found = foldHidden(found, on)
	p := policy.PodMounts{Outside: m.outside(uid, own, found, rest)}
	if p.Outside.Truth == policy.No {
		p.Outside = r.others(ctx, w, sockets, first, found, nodeView{own, pods, uid}, p.Outside)
	}
	p.Whole = m.Err == nil && p.Outside.Truth != policy.Unknown
	for _, l := range found {
		p.Mounts = append(p.Mounts, l.mount)
	}
	p.Sort()
	return p
}

// own returns the path of the pods directory and the ID of its mount, and the first mount of the node's mount namespace,
// by which that is known. This process must be in it.
func (r *Reader) own(self bool) (pods string, on uint64, namespace string, err error) {
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
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(r.RootDir+"/pods", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
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

// firstMount returns the ID of the first mount that a process shows.
func (r *Reader) firstMount(pid string) (id string, err error) {
	path := r.ProcDir + "/" + pid + "/mountinfo"
	line, err := procfs.FirstMountAt(path)
	if id, _, _ = strings.Cut(string(line), " "); err == nil && id == "" {
		err = errors.New(path + " shows no mount")
	}
	return id, err
}

// gathering reads the mounts, and returns what want asks for. Nothing is returned of a reading that takes too long.
func (r *Reader) gathering(ctx context.Context, w parsers.PodSet, sockets []string, want *gather) (*Answer, *gather) {
	own := *r
	own.gather = want
	m := own.Read(ctx, w, sockets)
	g := m.gather
	if g == nil {
		g = want.anew()
	}
	if g.more {
		m.Err = cmp.Or(m.Err, errors.New("there are more mounts than are inspected"))
	}
	return m, g
}

// split returns the mounts below dir in the node's own namespace, and all other lines.
func split(lines []seen, own, dir string) (found, rest []seen) {
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

// foldHidden takes mounts out that lie below the mount of the pods directory, and are copies of those that lie on it: the
// kubelet bind-mounts its root directory on itself, and what is mounted there is passed on to the place that this covers.
func foldHidden(found []seen, on uint64) (shown []seen) {
	hidden, here := map[uint64]bool{}, map[uint64]bool{on: true}
	for _, l := range found {
		here[l.mount.ID] = true
	}
	for known := -1; known < len(hidden); { // until what is on a hidden mount is hidden, too
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
		i := slices.IndexFunc(shown, func(o seen) bool {
			return l.peers != "" && o.peers == l.peers && o.mount.Path == l.mount.Path && o.mount.Dev == l.mount.Dev && o.mount.Root == l.mount.Root
		})
		if i < 0 {
			shown = append(shown, l) // what covers it is not known: it stays
			continue
		}
		shown[i].mount.Copies = append(shown[i].mount.Copies, l.mount.ID)
	}
	return shown
}

// outside reports what else is mounted of the pod, and notes copies with the mounts whose copies they are.
func (m *Answer) outside(uid parsers.PodUID, own string, found, rest []seen) policy.Fact {
	if !slices.ContainsFunc(m.views, func(v *view) bool { return v.first == own && v.whole }) && m.Err == nil {
		m.Err = errors.New("the node's own mount namespace was not seen in whole")
	}
	for _, l := range rest {
		// The same ID is the same mount, seen by a process with another root.
		same := slices.ContainsFunc(found, func(f seen) bool { return f.mount.ID == l.mount.ID && !l.view.byFile })
		if !same && !copyOf(l, found, uid) && l.concerns {
			h := Hit{Target: l.target, view: l.view, root: l.mount.Root, fsType: l.mount.Type, procDir: m.procDir}
			return m.fact(uid, h, true)
		}
	}
	return m.fact(uid, Hit{}, false)
}

// copyOf reports whether the line is of a copy of one of the pod's mounts, and notes its ID there.
func copyOf(l seen, found []seen, uid parsers.PodUID) bool {
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

// nodeView is where the pod's mounts are read: the node's own namespace, and the pods directory in it.
type nodeView struct {
	own, pods string
	uid       parsers.PodUID
}

// others reads the namespaces once more for who shares the mounts that other mounts of the pod are on, and for who
// uses the same CSI volumes. It returns outside, or why that is not known.
func (r *Reader) others(
	ctx context.Context, w parsers.PodSet, sockets []string, first *gather, found []seen, at nodeView, outside policy.Fact,
) policy.Fact {
	groups, copies, volumes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	byID := map[uint64]*seen{}
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
	m, second := r.gathering(ctx, w, sockets, &gather{also: func(l *procfs.MountLine) bool {
		peers, masters := propagation(l)
		return groups[peers] || groups[masters] || copies[string(l.Parent)] ||
			volumes[string(l.Dev)] && slices.ContainsFunc(found, func(f seen) bool { return sameVolume(l, f.mount) })
	}})
	if m.Err == nil && len(groups) > 0 && slices.ContainsFunc(m.views, func(v *view) bool { return v.byFile }) {
		m.Err = errors.New("of a mount namespace in which every process has another root, it is not known who receives what is unmounted")
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

// sharesWith returns the place at which o receives what is unmounted at l, or has another mount in the place of one.
// Whether anything is mounted there is asked of copies of the pod's own mounts alone: doubt keeps.
func (l *seen) sharesWith(o seen, uid parsers.PodUID) (string, bool) {
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
	return path.Join(o.target, at), reached // or it shows another part of the file system
}

func addShare(shares []string, where string, o seen, own string, m *Answer) []string {
	words := clean.Name(where)
	if o.view.first != own {
		words += " in " + o.view.words(m.procDir)
	}
	if len(shares) < mostShares && !slices.Contains(shares, words) {
		shares = append(shares, words)
	}
	return shares
}

// mostShares bounds what is shown of who shares a mount, or uses its volume.
const mostShares = 3

// sameVolume reports whether the line may show the CSI volume that m shows: a process's mount of it or of a part of it, or
// a mount in a pod's directory that overlaps with it.
func sameVolume(l *procfs.MountLine, m policy.Mount) bool {
	if !m.CSI() || string(l.Dev) != m.Dev {
		return false
	}
	root := procfs.Unescape(l.Root)
	_, part := procfs.Relative(root, m.Root)
	return part || strings.Contains(string(l.Target), "/pods/") && overlap(root, m.Root)
}

// overlap reports whether one of two directories of a file system is the other or lies in it. Different directories of one
// file system are different volumes, as different block devices are of devtmpfs.
func overlap(a, b string) bool {
	_, below := procfs.Relative(a, b)
	_, above := procfs.Relative(b, a)
	return below || above
}

// addUser adds who else has the volume of l mounted: another pod below pods, or a process at a place of its own.
func addUser(users []string, l *seen, o seen, at nodeView, m *Answer) []string {
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
