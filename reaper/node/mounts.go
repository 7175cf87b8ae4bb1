package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// mountTables is what one mountinfo of each (mount namespace, root) shows: proc_pid_mountinfo(5).
type mountTables struct {
	source string
	pods   map[parsers.PodUID]judge.Fact // a mount that has the UID in its root, mount point or options
	doubts map[parsers.PodUID]string     // why the mounts of one pod's own processes are not known
	staged map[string]string             // by path below plugins/kubernetes.io/csi, a mount there in words
	sees   judge.Fact
}

// fact reports whether a mount has the pod's UID.
func (m *mountTables) fact(uid parsers.PodUID) judge.Fact {
	if m == nil {
		return judge.Fact{}
	}
	if f, ok := m.pods[uid]; ok {
		f.Source = m.source
		return f
	}
	if why := m.doubts[uid]; why != "" {
		return judge.Fact{Source: m.source, Detail: why}
	}
	return judge.Fact{Truth: judge.No, Source: m.source}
}

// Budgets of what is read. A pod's processes have the mounts of their containers; a driver's have those of the node, some
// 20 lines of 200 bytes a pod. All others together may have what the kernel allows: fs.mount-max is 100,000 a namespace.
const (
	podBytes, podEntries   = 8 << 20, 20_000
	unitBytes, unitEntries = 256 << 20, 1_000_000
)

// lineSum is a hash of a table's first line, since a tenant chooses how long that is.
type lineSum [sha256.Size]byte

var noLine = lineSum(sha256.Sum256(nil))

// budget is how much more is read of the tables of one owner.
type budget struct{ bytes, entries int }

var errBudget = errors.New("its mount tables are too large to read")

// mountReader reads the tables of one scan.
type mountReader struct {
	*Scanner
	*mountTables
	wanted  parsers.PodSet
	kubelet int
	seen    map[lineSum]bool
	budgets map[owner]*budget
	ownUser string // our user namespace
	node    parsers.PodUID
	own     *table   // our own
	host    *table   // the kubelet's, or that of PID 1
	dirs    []ownDir // the pods directory and the quarantine
	views   int
}

// view is whose table it is.
type view struct {
	pid   int
	own   bool // ours
	apart bool // in another user namespace: mounting there needs no privilege on the node
	owner owner
}

// readMounts reads the tables of all processes: first our own, which shows where our directories lie, then the kubelet's.
func (s *Scanner) readMounts(ctx context.Context, kubelet int, wanted parsers.PodSet) (*mountTables, error) {
	r := &mountReader{
		Scanner: s, wanted: wanted, kubelet: kubelet, seen: map[lineSum]bool{}, budgets: map[owner]*budget{}, node: s.ownPod(),
		mountTables: &mountTables{pods: map[parsers.PodUID]judge.Fact{}, doubts: map[parsers.PodUID]string{}, staged: map[string]string{}},
	}
	var err error
	if r.ownUser, err = os.Readlink(s.cfg.Proc + "/self/ns/user"); err != nil {
		return nil, err
	}
	if err := r.readOwn(); err != nil {
		return nil, err
	}
	read := map[int]bool{}
	// A process that started after the listing may be the only one left of a namespace. Any user can start processes without
	// end, so this ends after some listings.
	const listings = 3
	for range listings {
		pids, err := s.listProcesses()
		if err != nil {
			return r.mountTables, err
		}
		began := len(read)
		for _, pid := range pids {
			if read[pid] {
				continue
			}
			read[pid] = true
			if err := ctx.Err(); err != nil {
				return r.mountTables, fmt.Errorf("cannot read the mounts in time: %w", err)
			}
			if err := r.readProcess(pid); err != nil {
				return r.mountTables, err
			}
		}
		if len(read) == began {
			break
		}
	}
	r.source = fmt.Sprintf("%s/*/mountinfo, %s", s.cfg.Proc, count(r.views, "mount table"))
	return r.mountTables, nil
}

// readOwn reads the tables of this process and of the kubelet, and with them where our directories lie.
func (r *mountReader) readOwn() (err error) {
	if r.own, err = r.readTable(os.Getpid()); err != nil {
		return err
	}
	if err := r.findOwn(); err != nil {
		return err
	}
	first := r.kubelet
	if first == 0 {
		first = 1
	}
	r.host, err = r.readTable(first)
	if err == nil && r.host.first == r.own.first {
		r.scan(r.own, view{pid: first, own: true})
		r.sees = r.seesMounts()
		return nil
	}
	r.scan(r.own, view{pid: os.Getpid(), own: true})
	switch {
	case vanished(err):
		r.sees.Detail = fmt.Sprintf("PID %d has ended", first)
		return nil
	case err != nil:
		return err
	}
	r.scan(r.host, view{pid: first})
	r.sees = r.seesMounts()
	return nil
}

// readProcess reads the table of one process, unless another one with the same mounts was read. An error is for the node: a
// table of root's that cannot be read. The table of a pod is that pod's doubt only.
func (r *mountReader) readProcess(pid int) error {
	path := r.procPath(pid, "mountinfo")
	fd, err := openProc(path)
	if err != nil {
		return unlessVanished(err)
	}
	in := &tableReader{fd: fd, path: path}
	defer in.close()
	first, err := in.first()
	if err != nil || first == noLine || r.seen[first] {
		return unlessVanished(err)
	}
	r.seen[first] = true
	v := view{pid: pid}
	if v.owner, err = r.ownerAt(pid); err != nil {
		return unlessVanished(err)
	}
	if user, err := os.Readlink(r.procPath(pid, "ns/user")); err == nil {
		v.apart = user != r.ownUser
	}
	t := &table{}
	if err = r.parse(in, v.owner, t); err == nil {
		r.scan(t, v)
		return nil
	}
	switch err = unlessVanished(err); {
	case err == nil:
		return nil
	case v.owner.pod != "":
		r.doubts[v.owner.pod] = fmt.Sprintf("cannot read the mounts of PID %d of this pod: %v", pid, err)
	case v.apart:
		// No privilege is needed to make such a table. What may be in it of a pod is the pod's own mount, seen from outside.
	default:
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return nil
}

func (r *mountReader) ownerAt(pid int) (owner, error) {
	text, err := r.readProc(pid, "cgroup", 64<<10)
	return parseOwner(string(text), r.node), err
}

// concerns reports whether the line has a wanted UID, or is of a staged volume.
func (r *mountReader) concerns(m *mountinfo.Info) bool {
	return strings.Contains(m.Mountpoint, stagedMark) || strings.Contains(m.Mountpoint, blockMark) || len(r.uids(m)) > 0
}

// uids returns the wanted pods that the line has in its root, mount point or options. Only the options have the upper
// directory of an overlay or the source of a bindfs.
func (r *mountReader) uids(m *mountinfo.Info) []parsers.PodUID {
	found := r.wanted.InPath(r.wanted.InPath(nil, []byte(m.Mountpoint)), []byte(m.Root))
	for _, text := range [...]string{m.Options, m.Source, m.VFSOptions} {
		if len(text) >= 32 {
			r.wanted.InText([]byte(text), func(uid parsers.PodUID) { found = append(found, uid) })
		}
	}
	return found
}

// scan adds the mounts of one table. Only in our own mount namespace a path shows where a mount is: in another one a pod's
// program may have mounted anything at a path of any name.
func (r *mountReader) scan(t *table, v view) {
	for _, m := range t.hits {
		r.addStaged(m, v)
		// In another user namespace any user can mount a tmpfs.
		if v.apart && !r.onPodsDevice(m) {
			continue
		}
		for _, uid := range r.uids(m) {
			alive := v.own && r.below(m.Mountpoint, uid)
			if known, ok := r.pods[uid]; ok && (known.Alive || !alive) {
				continue
			}
			r.pods[uid] = judge.Fact{Truth: judge.Yes, Alive: alive, Detail: r.words(m, v)}
		}
	}
}

// words describes a mount for messages.
func (r *mountReader) words(m *mountinfo.Info, v view) string {
	at := "mounted at " + bounded.Name(bounded.Cut(m.Mountpoint, 512))
	if m.Root != "/" {
		at += ", from " + bounded.Name(bounded.Cut(m.Root, 512))
	}
	who := process{pid: v.pid}
	if comm, err := r.readProc(v.pid, "comm", 64); err == nil {
		who.name = strings.TrimSpace(string(comm))
	}
	return fmt.Sprintf("%s (%s) in the mount namespace of %s", at, bounded.Name(m.FSType), who.who())
}

func unlessVanished(err error) error {
	if vanished(err) {
		return nil
	}
	return err
}
