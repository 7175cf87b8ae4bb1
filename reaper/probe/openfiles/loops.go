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

// loops finds the loop devices whose file lies in a pod: the kernel holds it open, no process
// does. backing_file exists while the device has a file (sysfs-block-loop).
//
// A node may be a part of a machine, as those of kind are. Its sysfs shows the machine's devices,
// but it has no nodes for them. So with part a device that cannot be opened is the machine's.
func (s *scan) loops(part bool) error {
	dir := s.SysBlockDir
	s.places.hang = false // a process's file hung
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
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

// loop checks whether the file of one loop device is a pod's. Its path is valid in the mount namespace in which the device
// was set up, which may have ended. So the device is asked for the inode. If it cannot be opened, a pod's file with that path
// counts as the file.
func (s *scan) loop(device, number, path string) error {
	words := fmt.Sprintf("the loop device %s has %s; remove it with losetup -d %[1]s if nothing uses it", clean.Name(device), clean.Name(path))
	id, err := s.places.stat(device, func() fileID { return statLoop(device, number) })
	known := err == nil
	if !known && !errors.Is(err, errDevice) {
		return err
	}
	for _, at := range spots(s.wanted, path) {
		truth := policy.Yes
		if !strings.Contains(at.prefix, "/volumeDevices/") { // the kubelet's own device for a block volume of the pod
			truth = s.places.leads(at, link{id: id, sure: known})
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
			s.strays[id] = stray{what: words}
		}
		return nil
	}
	// A file outside of the pods has that path. In a container PID 1 has the files of the node.
	for _, at := range [...]string{s.ownRoot + path, s.ProcDir + "/1/root" + path} {
		if _, err := s.places.stat("of the kernel: "+at, func() fileID { return statLink(at) }); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the loop device %s has %s, which is not there, and it is not known whether that is a pod's, since %w; "+
		"losetup --list shows it", clean.Name(device), clean.Name(path), errDevice)
}

var errDevice = errors.New("the device cannot be opened")

// statLoop asks a loop device for its file (loop(4), LOOP_GET_STATUS64). Opening the device in a
// unit with a DevicePolicy needs DeviceAllow=block-loop. It is opened only if it has the number of
// sysfs, and only for reading.
func statLoop(device, number string) fileID {
	var st unix.Stat_t
	err := unix.Lstat(device, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK ||
		fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)) != number {
		return fileID{err: errDevice}
	}
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fileID{err: errDevice}
	}
	if err != nil {
		return fileID{err: err}
	}
	defer beneath.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		return fileID{err: err}
	}
	return fileID{id: inode{info.Device, info.Inode}}
}
