package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// ownDir is one of our directories as our own mountinfo shows it.
type ownDir struct {
	path  string // without symbolic links
	mount int    // the ID of the mount that it lies on
}

// findOwn finds the pods directory and the quarantine.
func (r *mountReader) findOwn() error {
	for _, dir := range []string{r.cfg.RootDir + "/pods", r.cfg.QuarantineDir} {
		at, err := r.ownDir(dir)
		switch {
		case fdpath.Gone(err):
		case err != nil:
			return fmt.Errorf("cannot find out on which mount %s lies: %w", dir, err)
		default:
			r.dirs = append(r.dirs, at)
		}
	}
	return nil
}

func (r *mountReader) ownDir(dir string) (ownDir, error) {
	at, err := r.open.Open(dir)
	if err != nil {
		return ownDir{}, err
	}
	defer at.Close()
	id, err := at.MountID()
	if err != nil {
		return ownDir{}, err
	}
	if _, ok := r.own.mounts[int(id)]; !ok { //nolint:gosec // the kernel's mount IDs are an int
		return ownDir{}, fmt.Errorf("mount %d is not in our mountinfo", id)
	}
	path, err := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(at.FD()))
	return ownDir{path, int(id)}, err //nolint:gosec // the same
}

// below reports whether a mount point of our own table is one of the pod's directories, in the pods directory or in quarantine,
// or below it.
func (r *mountReader) below(point string, uid parsers.PodUID) bool {
	for _, dir := range r.dirs {
		if rest, ok := strings.CutPrefix(point, strings.TrimSuffix(dir.path, "/")+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			if _, named := (parsers.PodSet{uid: true}).Component([]byte(first)); named {
				return true
			}
		}
	}
	return false
}

// onPodsDevice reports whether the mount is of the file system that the pods directory lies on.
func (r *mountReader) onPodsDevice(m *mountinfo.Info) bool {
	return len(r.dirs) > 0 && r.own.mounts[r.dirs[0].mount].dev == device{m.Major, m.Minor}
}

// seesMounts reports whether what is mounted on our directories in the kubelet's mount namespace, or in that of PID 1 where
// no kubelet runs, is mounted here, too. From a private namespace rmdir of a directory that is a mount point on the host
// succeeds, and detaches the host's mount (measured, Linux 6.18).
func (r *mountReader) seesMounts() judge.Fact {
	f := judge.Fact{Source: r.cfg.Proc}
	if r.kubelet == 0 {
		// PROC_PID_INIT_INO of linux/proc_ns.h, the same on every machine.
		if link, err := os.Readlink(r.cfg.Proc + "/self/ns/pid"); err != nil || link != "pid:[4026531836]" {
			f.Truth, f.Detail = judge.No, "this is neither the host's PID namespace nor one where the kubelet runs; run on the host, or in the host's PID namespace"
			return f
		}
	}
	if r.own.first == r.host.first {
		f.Truth, f.Detail = judge.Yes, "the mount namespace of the kubelet"
		return f
	}
	if len(r.dirs) == 0 {
		f.Detail = "the pods directory was not found"
		return f
	}
	for _, at := range r.dirs {
		if !r.follows(at.mount) {
			f.Truth = judge.No
			f.Detail = "the host's later mounts do not come to " + r.own.mounts[at.mount].point + " in this mount namespace: in a container mount it " +
				"with mountPropagation: HostToContainer; from a unit remove what makes the namespace (ProtectSystem=, PrivateTmp=, ReadWritePaths=, MountFlags=private and the like)"
			return f
		}
	}
	f.Truth, f.Detail = judge.Yes, "the kubelet's mounts come to this mount namespace"
	return f
}

// follows reports whether a mount of ours is a slave or a peer of one of the host's (mount_namespaces(7)).
func (r *mountReader) follows(mount int) bool {
	for f := range strings.FieldsSeq(r.own.mounts[mount].optional) {
		if tag, group, _ := strings.Cut(f, ":"); (tag == "master" || tag == "shared") && r.host.shared[group] {
			return true
		}
	}
	return false
}
