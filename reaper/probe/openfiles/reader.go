package openfiles

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Reader reads which files the processes and the loop devices use.
type Reader struct {
	ProcDir     string
	SysBlockDir string // the block devices
	DevDir      string // their nodes
	// SelfIsNode means that this process's own namespaces are the node, which may then be a part of a machine.
	SelfIsNode bool
	CgroupRoot string
	Open       *beneath.Opener
	Guard      *bounded.Guard
	// Apart is for reads that may hang with one process, so that they do not block other work. The default is Guard.
	Apart *bounded.Guard

	ownRoot string // this process's root directory, "" except in tests
}

// Answer has the users of the files of the wanted pods.
type Answer struct {
	Err error // something could not be read: users that were not found are unknown

	pods   map[parsers.PodUID]string // a user of a file of the pod
	doubts map[parsers.PodUID]string // a process that may use a file of the pod
	again  map[parsers.PodUID]string // a process with a path that names the UID itself, and so no quarantine entry
	// namespaces are mount namespaces as mnt:[N], with a descriptor of each below the proc directory
	namespaces map[string]string
	strays     map[inode]stray
	devs       map[uint64]bool // the devices of the pods' files: see devicesOf
	read       int             // processes that were read, without this one
	refused    int             // processes that may not be read
	refusing   string          // the first of them, and why
	init       string          // PID 1, if it may not be read
	alone      bool            // this process is PID 1 and the only one of its namespace
	procDir    string
	partly     int    // processes that were not read completely
	partOf     string // the first of them, and why
	origin     string // what was read
}

func (r *Reader) newAnswer(err error) *Answer {
	return &Answer{
		pods: map[parsers.PodUID]string{}, doubts: map[parsers.PodUID]string{}, again: map[parsers.PodUID]string{},
		strays: map[inode]stray{}, Err: err, procDir: r.ProcDir,
		namespaces: map[string]string{},
	}
}

// Walked has the files that the walk of one pod's directory met.
type Walked struct {
	Dev    uint64 // the directory's device
	Inodes []uint64
}

// Fact reports whether a file of the pod is used. A stray is the pod's if it is in walked, which is nil if the
// directory was not walked.
func (a *Answer) Fact(uid parsers.PodUID, walked *Walked) policy.Fact {
	u := reading.FileUse{User: a.pods[uid], Doubt: a.doubts[uid], Err: a.Err, Read: a.read, Refused: a.refused, First: a.refusing, Init: a.init, Alone: a.alone}
	if u.User == "" && walked != nil && len(a.strays) > 0 {
		u.User = a.user(walked)
	}
	return u.Fact(a.origin)
}

// Use reports the users of a pod directory that was made again. Files of the parked one have another name.
func (a *Answer) Use(uid parsers.PodUID) reading.NewUse {
	u := reading.NewUse{User: a.again[uid], Doubt: a.doubts[uid], Err: a.Err}
	if u.Err == nil && a.refused > 0 {
		u.Err = reading.Refusal(a.refused, a.refusing)
	}
	if words := a.pods[uid]; u.User == "" && parsers.BareUID([]byte(words), uid) {
		u.User = words
	}
	return u
}

// Namespaces returns the mount namespaces, as mnt:[N], that a descriptor of a process holds, with the path of
// one such descriptor below the proc directory.
func (a *Answer) Namespaces() map[string]string { return a.namespaces }

// Read finds the users of files of the pods of w, below the open directories of the pods and of the
// quarantine, which may be nil. It returns in bounded time.
func (r *Reader) Read(ctx context.Context, pods, quarantine *bounded.Handle, w parsers.PodSet) *Answer {
	quarantine.Ref()
	a, err := bounded.On(ctx, r.Guard, "processes", pods, func(int) *Answer {
		defer quarantine.Unref()
		return r.readAll(ctx, pods, quarantine, w)
	})
	if errors.Is(err, bounded.ErrStuck) {
		quarantine.Unref() // the reading has not begun
	}
	if err != nil {
		a = r.newAnswer(fmt.Errorf("cannot read the processes: %w", err))
	}
	a.origin = fmt.Sprintf("%s/*/{cwd,root,exe,fd}, %s", a.procDir, policy.Count(a.read, "process"))
	if a.partly > 0 {
		a.origin += fmt.Sprintf(", %d of them only in part: %s", a.partly, a.partOf)
	}
	return a
}

// partOfMachine reports whether the node may be a part of a machine.
func (r *Reader) partOfMachine() bool {
	link, err := os.Readlink(r.ProcDir + "/self/ns/pid")
	return r.SelfIsNode || err == nil && link != procfs.InitialPIDNamespace
}
