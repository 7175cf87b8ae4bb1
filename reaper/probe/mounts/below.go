package mounts

import (
	"cmp"
	"context"
	"errors"
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
//     nobody: all copies lie in the dead pod's own directory. If it lies on a mount of the pod, that may be a
//     bind of a directory of the node, and the peer is the node's own: see Mount.Shares.

// seen is a line of mountinfo that counts for the unmounting of one pod.
type seen struct {
	view           *view
	mount          policy.Mount
	target         string
	peers, masters string // the peer group, and that of which it is a slave; "" if there is none
	concerns       bool   // it is about the pod by where it lies, and not by its name alone
}

// mostLines bounds what is held of all namespaces.
const mostLines = 10_000

// gather is what one reading collects for the unmounting of one pod.
type gather struct {
	uid   parsers.PodUID
	also  func(l *procfs.MountLine) bool // what the second reading is for
	lines []seen                         // of the pod in the first reading, and those of also in the second
	more  bool
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
	if slices.ContainsFunc(g.lines, func(o seen) bool { return o.view == v && o.mount.ID == id }) {
		return // a further part of a long line
	}
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
	first := &gather{uid: uid}
	m := r.gathering(ctx, w, sockets, first)
	found, rest := split(first.lines, own, pods+"/"+string(uid))
	found = foldHidden(found, on)
	p := policy.PodMounts{Outside: m.outside(uid, own, found, rest)}
	if p.Outside.Truth == policy.No {
		r.others(ctx, w, sockets, found, own, pods, &p.Outside)
	}
	for _, l := range found {
		p.Mounts = append(p.Mounts, l.mount)
	}
	p.Sort()
	return p
}

// own returns the path of the pods directory and the ID of its mount, and the first mount of the node's mount namespace,
// by which that is known. This process must be in it.
func (r *Reader) own(self bool) (pods string, on uint64, namespace string, err error) {
	namespace, err = firstMount(r.ProcDir + "/self/mountinfo")
	if err == nil && !self {
		var node string
		if node, err = firstMount(r.ProcDir + "/1/mountinfo"); err == nil && node != namespace {
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

// firstMount returns the ID of the first mount that a mountinfo shows. It is the same in two processes only if they share
// the mount namespace; unlike the link of the namespace it needs no capability.
func firstMount(path string) (id string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	err = procfs.EachMount(f, func(l *procfs.MountLine) error {
		id = string(l.ID)
		return errFound
	})
	if errors.Is(err, errFound) {
		return id, nil
	}
	return "", cmp.Or(err, errors.New(path+" shows no mount"))
}

func (r *Reader) gathering(ctx context.Context, w parsers.PodSet, sockets []string, g *gather) *Answer {
	own := *r
	own.gather = g
	m := own.Read(ctx, w, sockets)
	if g.more {
		m.Err = cmp.Or(m.Err, errors.New("there are more mounts than are looked at"))
	}
	return m
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
	for range found { // until what is on a hidden mount is hidden, too
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

// others reads the namespaces once more for who shares the mounts that other mounts of the pod are on, and for who
// uses the same CSI volumes.
func (r *Reader) others(ctx context.Context, w parsers.PodSet, sockets []string, found []seen, own, pods string, doubt *policy.Fact) {
	groups, volumes := map[string]bool{}, map[string]bool{}
	for _, l := range found {
		for _, up := range found {
			if up.mount.ID == l.mount.Parent && up.peers != "" {
				groups[up.peers] = true
			}
		}
		if l.mount.CSI() {
			volumes[l.mount.Dev] = true
		}
	}
	if len(groups)+len(volumes) == 0 {
		return
	}
	second := &gather{also: func(l *procfs.MountLine) bool {
		peers, masters := propagation(l)
		return groups[peers] || groups[masters] || volumes[string(l.Dev)] && strings.Contains(string(l.Target), "/pods/")
	}}
	m := r.gathering(ctx, w, sockets, second)
	if m.Err == nil && len(groups) > 0 && slices.ContainsFunc(m.views, func(v *view) bool { return v.byFile }) {
		m.Err = errors.New("of a mount namespace in which every process has another root, it is not known who receives what is unmounted")
	}
	if m.Err != nil {
		*doubt = policy.Fact{Origin: m.origin, Detail: m.Err.Error()}
		return
	}
	for i := range found {
		l := &found[i]
		for _, o := range second.lines {
			l.mount.Shares = addShare(l.mount.Shares, l, o, found, own, m)
			l.mount.Users = addUser(l.mount.Users, l, o, own, pods)
		}
	}
}

// addShare adds the place at which a mount of the same group, or a slave, receives what is unmounted at l. Copies of the
// pod's own mounts do not count. Whether anything is mounted there is not asked: doubt keeps.
func addShare(shares []string, l *seen, o seen, found []seen, own string, m *Answer) []string {
	i := slices.IndexFunc(found, func(f seen) bool { return f.mount.ID == l.mount.Parent })
	if i < 0 {
		return shares
	}
	up := found[i]
	if up.peers == "" || o.peers != up.peers && o.masters != up.peers || o.mount.ID == up.mount.ID || slices.Contains(up.mount.Copies, o.mount.ID) {
		return shares
	}
	below, _ := procfs.Relative(l.target, up.target)
	at, reached := procfs.Relative(path.Join(up.mount.Root, below), o.mount.Root)
	if !reached {
		return shares // it shows another part of the file system
	}
	words := clean.Name(path.Join(o.target, at))
	if o.view.first != own {
		words += " in " + o.view.words(m.procDir)
	}
	if len(shares) < mostShares && !slices.Contains(shares, words) {
		shares = append(shares, words)
	}
	return shares
}

// mostShares bounds what is shown.
const mostShares = 3

// addUser adds another pod that has the file system of l mounted. Of devtmpfs all block volumes have the same device.
func addUser(users []parsers.PodUID, l *seen, o seen, own, pods string) []parsers.PodUID {
	if !l.mount.CSI() || o.view.first != own || o.mount.Dev != l.mount.Dev || o.mount.Type == "devtmpfs" && o.mount.Root != l.mount.Root {
		return users
	}
	below, ok := strings.CutPrefix(o.target, pods+"/")
	name, _, _ := strings.Cut(below, "/")
	uid, isPod := parsers.ParsePodUID(name)
	if !ok || !isPod || strings.HasPrefix(l.target, pods+"/"+name+"/") || slices.Contains(users, uid) {
		return users
	}
	return append(users, uid)
}
