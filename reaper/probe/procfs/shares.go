package procfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// Shares divide the time and memory of a look among the payers of the processes that it reads, so that none of
// them can use up the look. A payer is a pod, or a user outside of pods, with any number of processes. Each
// has a small share first. The processes that need more are read last, in equal parts of the time that is left.
type Shares struct {
	// Mounts is set by the reader of mounts. In our user namespace only root can mount, so all users outside of
	// pods share what root has.
	Mounts bool

	dir, cgroups string
	proc         int
	ours         string         // our user namespace
	node         parsers.PodUID // the pod that the node is in
	small, most  time.Duration
	end          time.Time
	payers       map[string]*payer
	creators     map[string]string // the payer of each user namespace
	late         []*Process
	rests        int // how often rest was called
}

type payer struct {
	name         string
	spent        time.Duration
	held, doubts int
}

const (
	// MostHeld bounds what is remembered of one payer, and mostDoubts for how many of its processes Each
	// calls over.
	MostHeld, mostDoubts = 5_000, 100
	root                 = "user ID 0"
)

// Process is a process to read: its name below the proc directory, and when its share ends.
type Process struct {
	PID   string
	Until time.Time
	payer *payer
}

var (
	// ErrShare means that more is to be read than the share of the payer, or of one process.
	ErrShare = errors.New("more is to be read of it than the share of its pod or user in one look, or of one process")
	// errLook means that processes of others have used up the time.
	errLook = errors.New("the time of this look ended before it was read")
)

// NewShares returns the shares of a look that may take as long as limit. cgroups is where the cgroup file
// systems are mounted.
func NewShares(dir string, proc int, cgroups string, limit time.Duration) *Shares {
	ours, _ := os.Readlink(dir + "/self/ns/user")
	node, _ := podOf(dir, cgroups, "1", "")
	return &Shares{
		dir: dir, proc: proc, cgroups: cgroups, ours: ours, node: node, small: limit / 32, most: limit / 4, end: time.Now().Add(limit * 3 / 4),
		payers: map[string]*payer{}, creators: map[string]string{},
	}
}

// End returns when the time of the look ends.
func (s *Shares) End() time.Time { return s.end }

// Over returns ErrShare once the time of the process's share has ended.
func (p *Process) Over() error {
	if time.Now().After(p.Until) {
		return ErrShare
	}
	return nil
}

// Payer returns the name of the process's payer.
func (p *Process) Payer() string { return p.payer.name }

// Hold counts one thing more, with a text of that length, that is remembered of the payer.
func (p *Process) Hold(length int) error {
	if p.payer.held += 1 + length/256; p.payer.held > MostHeld {
		return ErrShare
	}
	return nil
}

// Each calls do for every process, also for those that start meanwhile. If do returns ErrShare, Each may call it once
// more for that process. It calls over for a process that was not read completely: with ErrShare, or with another error
// if its payer did not cause it.
func (s *Shares) Each(ctx context.Context, do func(p *Process) (ended bool, err error), over func(p *Process, err error)) (int, error) {
	return each(ctx, s.dir, s.proc, func(pid string) bool {
		p := &Process{PID: pid, payer: s.payer(pid)}
		ended, err := s.read(p, s.small, do)
		if err != nil {
			s.late = append(s.late, p)
		}
		return ended
	}, func() bool { return s.rest(do, over) })
}

// rest reads the processes that need more than the small share, and reports whether one has ended. Root's come
// first: what goes unread of them is a doubt about the node.
func (s *Shares) rest(do func(p *Process) (bool, error), over func(p *Process, err error)) (again bool) {
	late, owners := s.late, map[*payer]bool{}
	s.late, s.rests = nil, s.rests+1
	var pids []string
	for _, p := range late {
		owners[p.payer] = true
		pids = append(pids, p.PID)
	}
	passed := passedOver(s.dir, s.proc, pids, s.rests)
	slices.SortStableFunc(late, func(a, b *Process) int { return cmp.Compare(a.payer.rank(), b.payer.rank()) })
	share := s.small + min(s.most, time.Until(s.end)/time.Duration(max(1, len(owners))))
	for _, p := range late {
		had := p.payer.spent >= s.small
		ended, err := s.read(p, share, do)
		again = again || ended && !passed[p.PID]
		if err == nil {
			continue
		}
		if p.Over() != nil && !had {
			err = errLook
		}
		if p.payer.doubts++; p.payer.doubts <= mostDoubts || p.payer.name == root {
			over(p, err)
		}
	}
	return again
}

// Again calls do for a process with all that its payer has left.
func (s *Shares) Again(pid string, do func(p *Process) error) error {
	_, err := s.read(&Process{PID: pid, payer: s.payer(pid)}, s.small+s.most, func(p *Process) (bool, error) { return false, do(p) })
	return err
}

func (o *payer) rank() int {
	if o.name == root {
		return 0
	}
	return 1
}

// read calls do with what is left of a share.
func (s *Shares) read(p *Process, share time.Duration, do func(p *Process) (bool, error)) (ended bool, err error) {
	began := time.Now()
	if p.Until = began.Add(share - p.payer.spent); p.Until.After(s.end) {
		p.Until = s.end
	}
	if !p.Until.After(began) {
		return false, ErrShare
	}
	ended, err = do(p)
	p.payer.spent += time.Since(began)
	return ended, err
}

func (s *Shares) payer(pid string) *payer {
	pod, ok := podOf(s.dir, s.cgroups, pid, s.node)
	name := "pod " + string(pod)
	if !ok {
		name = s.user(pid)
	}
	o := s.payers[name]
	if o == nil {
		o = &payer{name: name}
		s.payers[name] = o
	}
	return o
}

// user returns the payer of a process in no pod: the user who runs it, and in another user namespace the one who made it,
// since one user can have thousands of user IDs there.
func (s *Shares) user(pid string) string {
	if ns, err := Namespace(s.proc, pid+"/ns/user"); err == nil && s.ours != "" && ns != s.ours {
		if s.creators[ns] == "" {
			s.creators[ns] = s.creator(pid)
		}
		return s.creators[ns]
	}
	if s.Mounts {
		return root
	}
	uid, err := userOf(s.dir, s.proc, pid)
	if err != nil {
		return "" // it has ended
	}
	return "user ID " + uid
}

// userOf returns the user ID of a process. If that is root's, it returns the real user ID instead: any user may execute a
// set-user-ID program.
func userOf(dir string, proc int, pid string) (string, error) {
	st, err := beneath.StatName(proc, pid)
	if err == nil && st.Uid == 0 {
		text, _ := beneath.ReadNamed(dir+"/"+pid+"/status", 1<<20)
		if ids := strings.Fields(StatusField(text, "Uid:")); len(ids) == 4 {
			return ids[0], nil
		}
	}
	return strconv.FormatUint(uint64(st.Uid), 10), err
}

// From linux/nsfs.h, Linux 4.9 and 4.11.
const (
	nsGetParent   = 0xb702
	nsGetOwnerUID = 0xb704
)

// creator returns the user who made the outermost user namespace between ours and the process's. One that root made is
// a container of its own, and is its own payer.
func (s *Shares) creator(pid string) string {
	const unknown = "another user namespace"
	fd, err := beneath.OpenTrusted(s.proc, pid+"/ns/user", unix.O_RDONLY)
	if err != nil {
		return unknown
	}
	defer func() { beneath.Close(fd) }()
	var st unix.Stat_t
	for range 32 { // the limit of user_namespaces(7) for nesting
		parent, err := unix.IoctlRetInt(fd, nsGetParent)
		if err != nil {
			break
		}
		if unix.Fstat(parent, &st) != nil || fmt.Sprintf("user:[%d]", st.Ino) == s.ours {
			beneath.Close(parent)
			break
		}
		beneath.Close(fd)
		fd = parent
	}
	uid, err := unix.IoctlGetUint32(fd, nsGetOwnerUID)
	if err != nil || unix.Fstat(fd, &st) != nil {
		return unknown
	}
	if uid == 0 {
		return fmt.Sprintf("user namespace %d", st.Ino)
	}
	return "user ID " + strconv.FormatUint(uint64(uid), 10)
}
