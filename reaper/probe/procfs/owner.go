package procfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// Owner is the pod or user whose process it is. What goes unread of a process is a doubt about its own
// pod. It is a doubt about the node if Enters is true and the process sees more of the pods' file system
// than its own pod's directory: see Shares.shows.
type Owner struct {
	UID string         // its effective user ID
	Pod parsers.PodUID // by its cgroup, "" if it is in no pod's
	// Enters reports that it may open the directories of others: user ID 0, or in our user namespace
	// one of capEnters, or unknown. It is false for a set-user-ID program of root's that another user has
	// executed: that has only what this user could open.
	Enters bool
	// Apart reports another user namespace: mounting there needs no privilege on the node.
	Apart bool
}

// capEnters has the bits of the capabilities that open any pod's directory: CAP_DAC_OVERRIDE,
// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYS_ADMIN.
const capEnters = 1<<1 | 1<<2 | 1<<19 | 1<<21

// Whose returns the owner of a process or a thread, by its name below the proc directory. The error is for
// one that has ended.
func (s *Shares) Whose(pid string) (Owner, error) {
	o := Owner{Enters: true}
	o.Pod, _ = podOf(s.dir, s.cgroups, pid, s.node)
	text, err := beneath.ReadNamed(s.dir+"/"+pid+"/status", 1<<20)
	if Vanished(err) {
		return o, err
	}
	o.Apart = s.Apart(pid)
	ids := strings.Fields(StatusField(text, "Uid:"))
	if len(ids) == 4 {
		o.UID = ids[1]
	}
	caps, malformed := strconv.ParseUint(strings.TrimSpace(StatusField(text, "CapPrm:")), 16, 64)
	if err == nil && malformed == nil && len(ids) == 4 {
		executed := ids[0] != "0" && (ids[1] == "0" || ids[2] == "0")
		// Capabilities of another user namespace are valid only there.
		o.Enters = !executed && (slices.Contains(ids, "0") || !o.Apart && caps&capEnters != 0)
	}
	return o, nil
}

// Apart reports whether a process or a thread is known to be in another user namespace than we are.
func (s *Shares) Apart(pid string) bool {
	theirs, err := os.Readlink(s.dir + "/" + pid + "/ns/user")
	return err == nil && s.ours != "" && theirs != s.ours
}

// Near reports whether what goes unread of a process is a doubt about more than its own pod. A process that
// may not enter the directories of others can have only its own files open. But a mount in our user namespace
// was made by root, and may be of any pod.
func (s *Shares) Near(pid string, in []Region, o Owner) bool {
	return (o.Enters || s.Mounts && !o.Apart) && s.shows(pid, in, o)
}

// StatusField returns a field of /proc/PID/status, by its name with the colon: proc_pid_status(5).
func StatusField(text []byte, name string) string {
	_, text, _ = bytes.Cut(text, []byte("\n"+name))
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	return string(text)
}

// PodOf returns the pod whose cgroup a process is in. root is where the cgroup file systems are mounted. If this node is
// a container in a pod of another node and sees that node's cgroups, all of its processes are in that pod, also its init.
// So the pod of PID 1 does not count.
func PodOf(dir, root, pid string) (parsers.PodUID, bool) {
	node, _ := podOf(dir, root, "1", "")
	return podOf(dir, root, pid, node)
}

// podOf returns the outermost pod below the pod node. A user with a delegated cgroup (Delegate= of
// systemd.resource-control(5)) may give one below it a pod's name, so only cgroups that root or we have made count.
func podOf(dir, root, pid string, node parsers.PodUID) (parsers.PodUID, bool) {
	text, _ := Cgroup(dir, pid)
	for line := range strings.Lines(text) {
		_, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		hierarchy, at, _ := strings.Cut(line, ":")
		for end := 0; end < len(at); {
			from := end + 1
			if end = strings.IndexByte(at[from:], '/') + from; end < from {
				end = len(at)
			}
			if uid, ok := parsers.PodOfCgroup(at[from:end]); ok && uid != node && !madeByOthers(root, hierarchy, at[:end]) {
				return uid, true
			}
		}
	}
	return "", false
}

// madeByOthers is MadeByOthers of a path. The unified hierarchy has no name, and is mounted at root or below it.
func madeByOthers(root, hierarchy, path string) bool {
	if hierarchy = strings.TrimPrefix(hierarchy, "name="); hierarchy == "" {
		hierarchy = "unified"
	}
	for _, at := range [...]string{root + "/" + hierarchy + path, root + path} {
		if st, err := beneath.StatName(unix.AT_FDCWD, at); err == nil {
			return MadeByOthers(&st)
		}
	}
	return false
}

// MadeByOthers reports whether another user than root and us has made a cgroup.
func MadeByOthers(st *unix.Statx_t) bool { return st.Uid != 0 && int(st.Uid) != os.Geteuid() }

// Region is a directory of the node in the terms of mountinfo.
type Region struct {
	Dev    string // major:minor of its file system
	Path   string // from the root of that
	FSType string
}

// RegionOf finds an open directory, which may be an O_PATH handle, in mountinfo. It does not ask the file system. Its error
// never means that the directory does not exist.
func RegionOf(dir string, fd int) (Region, error) {
	st, err := beneath.Stat(fd)
	if err != nil {
		return Region{}, err
	}
	mount := st.Mnt_id
	if st.Mask&unix.STATX_MNT_ID == 0 { // before Linux 5.8
		id, err := beneath.MountID(fd)
		if err != nil {
			return Region{}, unix.EINVAL
		}
		mount = uint64(max(0, int(id)))
	}
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return Region{}, unix.EINVAL
	}
	found := Region{}
	err = EachMountOf(dir, "self", func(l *MountLine) error {
		if id, ok := l.Number(); !ok || id != mount || l.Cut {
			return nil
		}
		below, under := Relative(at, Unescape(l.Target))
		if !under {
			return unix.EINVAL
		}
		found = Region{string(l.Dev), path.Join(Unescape(l.Root), below), string(l.FSType())}
		return io.EOF
	})
	if !errors.Is(err, io.EOF) {
		return Region{}, unix.EINVAL
	}
	return found, nil
}

// Relative returns what follows base in p, and false if p is neither base nor below it.
func Relative(p, base string) (string, bool) {
	if base == "/" {
		return p, strings.HasPrefix(p, "/")
	}
	rest, ok := strings.CutPrefix(p, base)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// Reaches reports whether a mount shows a part of a region outside of the directory of the pod own.
func (l *MountLine) Reaches(in []Region, own parsers.PodUID) bool {
	root := Unescape(l.Root)
	for _, place := range in {
		if string(l.Dev) != place.Dev {
			continue
		}
		if _, above := Relative(place.Path, root); above {
			return true
		}
		if below, ok := Relative(root, place.Path); ok {
			if _, ok := Relative(below, "/"+string(own)); own == "" || !ok {
				return true
			}
		}
	}
	return false
}

// The limits within which shows reads mountinfo.
const (
	showsLimit = 64 << 20
	showsTime  = 500 * time.Millisecond
)

var errShows = errors.New("it shows the pods' file system")

// shows reports whether the mount namespace of a process shows a part of the regions outside of the
// directory of its own pod. What cannot be read counts as yes, unless the process has ended. More mounts than the
// limits allow count as yes, too, except in another user namespace, where any user may mount that many. So does the file
// of a mount namespace, which may show anything; but from a user namespace below ours only those can be entered that were
// made there (setns(2)), and these show no more than the process saw when it made them.
func (s *Shares) shows(pid string, in []Region, o Owner) bool {
	link, err := os.Readlink(s.dir + "/" + pid + "/root")
	if Vanished(err) { // also where its first thread alone has ended
		others, _ := Threads(s.proc, pid)
		for _, tid := range others {
			if link, err = os.Readlink(s.dir + "/" + tid + "/root"); err == nil {
				pid = tid
				break
			}
		}
	}
	if err != nil {
		return !Vanished(err)
	}
	if len(in) == 0 {
		return true
	}
	whole, read, until := false, 0, time.Now().Add(showsTime)
	do := func(l *MountLine) error {
		whole = whole || string(l.Target) == "/"
		if !o.Apart && IsMountNamespace(l.Root) || l.Reaches(in, o.Pod) {
			return errShows
		}
		if read += len(l.Text); read > showsLimit || time.Now().After(until) || len(l.Root) == 0 {
			return ErrShare
		}
		return nil
	}
	if link == "/" {
		err = EachMountOf(s.dir, pid, do)
	} else { // mountinfo has only the mounts below its root
		err = namespaceMountsOf(s.dir, pid, do)
	}
	if errors.Is(err, ErrShare) {
		return !o.Apart
	}
	return err != nil && !Vanished(err) || err == nil && !whole
}

func namespaceMountsOf(dir, pid string, do func(l *MountLine) error) error {
	fd, err := OpenNamespace(unix.AT_FDCWD, dir+"/"+pid+"/ns/mnt")
	if err != nil {
		return err
	}
	defer beneath.Close(fd)
	return NamespaceMounts(fd, do)
}
