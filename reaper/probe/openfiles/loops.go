package openfiles

import (
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
	s.places.hang = false // that was a process's file
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

// loop follows up the file of one loop device. Its path is the one in the mount namespace in which the device was set up,
// which may have ended: so the device itself is asked for the inode. If it cannot be, a file of that path counts as it.
func (s *scan) loop(device, number, path string) error {
	words := fmt.Sprintf("the loop device %s has %s; remove it with losetup -d %[1]s if nothing uses it", clean.Name(device), clean.Name(path))
	id, err := s.places.ask(device, func() answered { return statLoop(device, number) })
	known := err == nil
	if !known && !errors.Is(err, errDevice) {
		return err
	}
	for _, at := range spots(s.wanted, path) {
		// Below volumeDevices is the kubelet's own device for a block volume of the pod.
		volume := strings.Contains(at.prefix, "/volumeDevices/")
		truth := policy.Yes
		if !volume {
			truth = s.places.below(at, link{id: id, sure: known})
		}
		if truth == policy.Yes || truth == policy.Unknown && !known {
			s.pods[at.uid] = words
			return nil
		}
		if truth == policy.Unknown {
			s.doubts[at.uid] = words
		}
	}
	if known {
		if s.devs[id.dev] {
			s.stray(id, stray{what: words})
		}
		return nil
	}
	// A container has neither the devices nor the files of the node: then PID 1 must show it.
	for _, at := range [...]string{s.ownRoot + path, s.ProcDir + "/1/root" + path} {
		if _, err := s.places.ask("of the kernel: "+at, func() answered { return statLink(at) }); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the loop device %s has %s, which is not there, and it is not known whether that is a pod's, since %w; "+
		"losetup --list shows it", clean.Name(device), clean.Name(path), errDevice)
}

// errDevice is of a device that cannot be asked.
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
