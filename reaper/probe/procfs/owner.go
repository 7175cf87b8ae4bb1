package procfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// Owner is whose a process is. What goes unread of it is a doubt about its own pod. It is a doubt
// about the node where Enters is true and it has more of the pods' file system before it than its
// own pod's directory: see Shows.
type Owner struct {
	UID string         // its effective user ID
	Pod parsers.PodUID // by its cgroup, "" where it is in none
	// Enters says that it has user ID 0, or in our user namespace a capability that opens the
	// directories of others. What cannot be read counts as that.
	Enters bool
}

// The capabilities that open any pod's directory, by their bits: CAP_DAC_OVERRIDE,
// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYS_ADMIN.
const capEnters = 1<<1 | 1<<2 | 1<<19 | 1<<21

// OwnerOf reads whose a process or a thread is, a path below the proc directory.
func OwnerOf(dir, pid string) Owner {
	o := Owner{Enters: true}
	o.Pod, _ = PodOf(dir, pid)
	text, err := beneath.ReadNamed(dir+"/"+pid+"/status", 1<<20)
	if err != nil {
		o.Enters = !Vanished(err)
		return o
	}
	ids := strings.Fields(statusField(text, "Uid:"))
	caps, err := strconv.ParseUint(strings.TrimSpace(statusField(text, "CapPrm:")), 16, 64)
	if len(ids) != 4 || err != nil {
		return o
	}
	o.UID = ids[1]
	ours, err := os.Readlink(dir + "/self/ns/user")
	theirs, err2 := os.Readlink(dir + "/" + pid + "/ns/user")
	if err == nil && err2 == nil && ours != theirs {
		caps = 0 // they hold in that namespace only
	}
	o.Enters = caps&capEnters != 0
	for _, id := range ids {
		o.Enters = o.Enters || id == "0"
	}
	return o
}

func statusField(text []byte, name string) string {
	_, text, _ = bytes.Cut(text, []byte("\n"+name))
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	return string(text)
}

// PodOf reads which pod's cgroup a process is in.
func PodOf(dir, pid string) (parsers.PodUID, bool) {
	text, _ := Cgroup(dir, pid)
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\n' }) {
		if uid, ok := parsers.PodOfCgroup(part); ok {
			return uid, true
		}
	}
	return "", false
}

// Region is a directory of the node as mountinfo would say it.
type Region struct {
	Dev    string // major:minor of its file system
	Path   string // from the root of that
	FSType string
}

// RegionOf finds what mountinfo says of an open directory. Its handle may be one of O_PATH: the
// file system is not asked. The error is never that the directory is not there.
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
	f, err := os.Open(dir + "/self/mountinfo")
	if err != nil {
		return Region{}, unix.EINVAL
	}
	defer f.Close() //nolint:errcheck // read only
	found := Region{}
	err = EachMount(f, func(l *MountLine) error {
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

// Relative returns what follows base in p, false where p is not base or below it.
func Relative(p, base string) (string, bool) {
	if base == "/" {
		return p, strings.HasPrefix(p, "/")
	}
	rest, ok := strings.CutPrefix(p, base)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// Reaches says whether a mount shows another part of a region than the directory of one pod.
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

// showsLimit bounds how much of mountinfo is read, and for how long, to know what a process has
// before it. Who may mount that much may do all.
const (
	showsLimit = 64 << 20
	showsTime  = 500 * time.Millisecond
)

var errShows = errors.New("it shows the pods' file system")

// Shows says whether the mount namespace of a process shows another part of the regions than the
// directory of one pod. What cannot be read counts as yes, unless the process has ended; so does a
// process with another root, whose mountinfo does not show all.
func Shows(dir, pid string, in []Region, own parsers.PodUID) bool {
	root, err := os.Readlink(dir + "/" + pid + "/root")
	if err != nil {
		return !Vanished(err)
	}
	if root != "/" || len(in) == 0 {
		return true
	}
	f, err := os.Open(dir + "/" + pid + "/mountinfo")
	if err != nil {
		return !Vanished(err)
	}
	defer f.Close() //nolint:errcheck // read only
	whole, limit := false, io.LimitedReader{R: f, N: showsLimit}
	until := time.Now().Add(showsTime)
	err = EachMount(&limit, func(l *MountLine) error {
		whole = whole || string(l.Target) == "/"
		if IsMountNamespace(l.Root) || l.Reaches(in, own) || time.Now().After(until) {
			return errShows
		}
		return nil
	})
	return err != nil && !Vanished(err) || limit.N <= 0 || err == nil && !whole
}
