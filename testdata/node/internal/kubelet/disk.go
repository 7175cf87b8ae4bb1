package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file reads and removes pod directories as kubelets do, with the texts of their errors.

// mountedVolumes returns those of the pod's volumes that are mount points.
func (k *kubelet) mountedVolumes(dir string) (mounted []string, err error) {
	paths, err := k.volumePaths(dir)
	for _, path := range paths {
		is, err := k.isMount(path)
		if err != nil {
			return mounted, fmt.Errorf("fail to check mount point %q: %w", path, err)
		}
		if is {
			mounted = append(mounted, path)
		}
	}
	return mounted, err
}

// isMount reports whether a path is a mount point (IsLikelyNotMountPoint). Kubelets before 1.30 compare only the devices, and
// so miss a bind mount of the same file system. Later ones ask the kernel, which answers also where a FUSE server is dead.
func (k *kubelet) isMount(path string) (bool, error) {
	if k.version == "1.19" || k.version == "1.28" {
		st, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		parent, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return false, err
		}
		return st.Sys().(*syscall.Stat_t).Dev != parent.Sys().(*syscall.Stat_t).Dev, nil
	}
	var st, parent unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return false, err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	if err := unix.Statx(unix.AT_FDCWD, filepath.Dir(path), unix.AT_STATX_DONT_SYNC, 0, &parent); err != nil {
		return false, err
	}
	return st.Dev_major != parent.Dev_major || st.Dev_minor != parent.Dev_minor, nil
}

// there reports whether a path exists (PathExists). A mount whose server is dead exists, and has an error.
func there(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	dead := slices.ContainsFunc([]error{unix.ENOTCONN, unix.ESTALE, unix.EIO, unix.EACCES, unix.EHOSTDOWN}, func(e error) bool { return errors.Is(err, e) })
	return err == nil || dead, err
}

// volumePaths returns the pod's volumes on disk, of CSI volumes their mount points.
func (k *kubelet) volumePaths(dir string) ([]string, error) {
	dir += "/volumes"
	if is, err := there(dir); err != nil {
		return nil, fmt.Errorf("error checking if path %q exists: %w", dir, err)
	} else if !is {
		if k.version == "1.19" {
			k.text('W', 0, k.noVolumes, fmt.Sprintf("Path %q does not exist", dir))
		}
		return nil, nil
	}
	plugins, err := k.readDir(dir)
	if err != nil {
		if k.version == "1.19" {
			k.text('E', 0, k.volumesUnread, fmt.Sprintf("Could not read directory %s: %v", dir, err))
		} else {
			k.error(err.Error(), k.volumesUnread, "Could not read directory", "path", dir)
		}
		return nil, err
	}
	var all []string
	for _, plugin := range plugins {
		path := dir + "/" + plugin
		names, err := readNames(path)
		if err != nil {
			return all, fmt.Errorf("could not read directory %s: %w", path, err)
		}
		for _, name := range names {
			volume := path + "/" + name
			if plugin == "kubernetes.io~csi" {
				volume += "/mount"
				if is, _ := there(volume); !is {
					continue
				}
			}
			all = append(all, volume)
		}
	}
	return all, nil
}

// subpathPaths returns the pod's subpaths: volume-subpaths/VOLUME/CONTAINER/INDEX.
func (k *kubelet) subpathPaths(dir string) ([]string, error) {
	dir += "/volume-subpaths"
	if is, err := there(dir); err != nil {
		return nil, fmt.Errorf("error checking if path %q exists: %w", dir, err)
	} else if !is {
		return nil, nil
	}
	volumes, err := k.readDir(dir)
	if err != nil {
		k.error(err.Error(), k.subpathsUnread, "Could not read directory", "path", dir)
		return nil, err
	}
	var all []string
	for _, volume := range volumes {
		path := dir + "/" + volume
		containers, err := k.readDir(path)
		if err != nil {
			return all, fmt.Errorf("could not read directory %s: %w", path, err)
		}
		for _, container := range containers {
			path := path + "/" + container
			names, err := readNames(path)
			if err != nil {
				return all, fmt.Errorf("could not read directory %s: %w", path, err)
			}
			for _, name := range names {
				all = append(all, path+"/"+name)
			}
		}
	}
	return all, nil
}

// readDir returns the names in a directory, sorted. That of 1.19 is ioutil.ReadDir, which opens any file.
func (k *kubelet) readDir(dir string) ([]string, error) {
	if k.version == "1.19" {
		return readNames(dir)
	}
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// readNames returns the names in a directory. The error of another file is that of reading, not of opening it.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// removeAll removes a tree with remove and returns the first error. It stops at a mount that it sees.
func (k *kubelet) removeAll(path string, remove func(string) error) error {
	first := remove(path)
	if first == nil || errors.Is(first, fs.ErrNotExist) {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return first
	}
	switch is, err := k.isMount(path); {
	case err != nil:
		return err
	case is:
		return fmt.Errorf("cannot delete directory %s: it is a mount point", path)
	}
	names, first := readNames(path)
	for _, name := range names {
		if err := k.removeAll(path+"/"+name, remove); first == nil {
			first = err
		}
	}
	err = remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if first == nil {
		first = err
	}
	return first
}
