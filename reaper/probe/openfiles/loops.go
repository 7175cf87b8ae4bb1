package openfiles

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// mostDevices bounds the block devices of a node.
const mostDevices = 100_000

// loops finds the loop devices whose file lies in a pod: the kernel holds it open, and no
// process does. sysfs-block-loop: backing_file is there while the device has one.
//
// A node may be a part of a machine, as those of kind are. In sysfs it sees the machine's devices,
// for which it has no device nodes: there a device that cannot be asked is the machine's.
func (s *scan) loops(part bool) error {
	dir := s.SysBlockDir
	s.places.hang = false // that a process's file hangs says nothing of these
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if beneath.Gone(err) {
		return nil
	}
	if err != nil {
		return beneath.PathError("open", dir, err)
	}
	defer beneath.Close(fd)
	entries, err := beneath.List(fd, mostDevices)
	if err != nil {
		return beneath.PathError("getdents64", dir, err)
	}
	for _, d := range entries {
		if !strings.HasPrefix(d.Name, "loop") {
			continue
		}
		text, err := os.ReadFile(dir + "/" + d.Name + "/loop/backing_file")
		if err == nil {
			number, _ := os.ReadFile(dir + "/" + d.Name + "/dev")
			err = s.loop(s.DevDir+"/"+d.Name, strings.TrimSpace(string(number)), strings.TrimSuffix(string(text), "\n"))
		}
		if errors.Is(err, errDevice) && part {
			err = nil
		}
		if err != nil && !procfs.Vanished(err) && !errors.Is(err, unix.ENXIO) {
			return err
		}
	}
	return nil
}

// loop follows up the file of one loop device. Its path is the one in the mount namespace in
// which the device was set up, which may have ended: so the device itself is asked for the
// inode. Where that is not to be had, what the path leads to here is taken for the file.
func (s *scan) loop(device, number, path string) error {
	words := fmt.Sprintf("the loop device %s has %s; remove it with losetup -d %[1]s if nothing uses it", clean.Name(device), clean.Name(path))
	id, err := s.places.ask(device, func() answered { return statLoop(device, number) })
	asked := !errors.Is(err, errDevice)
	if asked && err != nil {
		return err
	}
	if s.kernelHolds(words, path, id, asked) || asked {
		return nil
	}
	return fmt.Errorf("the loop device %s has %s, which is not there, and it is not known whether that is a pod's, since %w; "+
		"losetup --list shows it", clean.Name(device), clean.Name(path), errDevice)
}

// kernelHolds follows up a file that the kernel itself holds open, by its path and, where it is
// known, its inode. It says whether the path leads somewhere.
func (s *scan) kernelHolds(words, path string, id inode, known bool) bool {
	for _, at := range spots(s.wanted, path) {
		switch s.kernelHoldsAt(at, id, known) {
		case policy.Yes:
			s.pods[at.uid] = words
			return true
		case policy.Unknown:
			s.doubts[at.uid] = words
		case policy.No:
		}
	}
	_, err := s.places.ask("of the kernel: "+path, func() answered { return s.places.statBelow(cmp.Or(s.ownRoot, "/"), path) })
	if known && s.devs[id.dev] == (device{id.dev, true}) {
		s.stray(id, stray{what: words, sure: true})
	}
	if err == nil || known {
		return err == nil
	}
	// A container has neither the devices nor the files of the node: what the path leads to for PID 1 must do.
	root, ok := s.places.rootOf("1")
	if ok {
		_, err = s.places.ask("of the kernel, for PID 1: "+path, func() answered { return s.places.statBelow(root, path) })
	}
	return err == nil
}

// kernelHoldsAt is places.below for such a file.
func (s *scan) kernelHoldsAt(at spot, id inode, known bool) policy.Truth {
	if strings.Contains(at.prefix, "/volumeDevices/") {
		return policy.Yes // the kubelet's own device for a block volume of the pod
	}
	dir, err := s.places.find(at)
	switch {
	case err == nil:
		defer dir.Close()
		st, err := dir.Stat()
		if err == nil && !known {
			return policy.Yes
		}
		return same(id, idOf(&st), err)
	case errors.Is(err, unix.EXDEV):
		return policy.Yes
	case !notThere(err):
		return policy.Unknown
	case strings.HasSuffix(at.rest, deletedMark):
		return s.places.wasBelow(at, link{process: "self"})
	}
	return policy.No
}

// errDevice says that the device cannot be asked.
var errDevice = errors.New("the device cannot be opened")

// statLoop asks a loop device for its file (loop(4), LOOP_GET_STATUS64). Anybody may who may
// open the device: in a unit with a DevicePolicy, DeviceAllow=block-loop lets it. It is opened
// where it has the number that sysfs gives, and only for reading.
func statLoop(device, number string) answered {
	var st unix.Stat_t
	err := unix.Lstat(device, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK ||
		fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)) != number {
		return answered{err: errDevice}
	}
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return answered{err: errDevice}
	}
	if err != nil {
		return answered{err: err}
	}
	defer beneath.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		return answered{err: err}
	}
	return answered{id: inode{info.Device, info.Inode}}
}
