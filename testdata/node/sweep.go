package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// places are the source lines that print. They were read in 1.19.5, 1.28.15, 1.33.13 and 1.37.2.
type places struct {
	mainLoop, report, each, skipped, removing, mounted place
	cleanedVolume, cleanedSubpath, cleanedDir          place
	subdirFailed, dirFailed, reducing                  place
	operation, unmountFailed, mountFailed              place
}

func volumesLine(line int) place { return place{"kubelet/kubelet_volumes.go", line} }

var placesOf = map[string]places{
	"1.19": {
		mainLoop: place{"kubelet/kubelet.go", 1741}, report: volumesLine(154), each: volumesLine(156), skipped: volumesLine(120),
		removing: volumesLine(145), mounted: volumesLine(69), dirFailed: volumesLine(147), reducing: place{"kubelet/kubelet_pods.go", 1865},
		operation: place{"nestedpendingoperations/nestedpendingoperations.go", 301}, unmountFailed: place{"reconciler/reconciler.go", 193},
		mountFailed: place{"mount/mount_linux.go", 150},
	},
	"1.28": since128(0, 2321, 2299, 169, 230),
	"1.33": since128(0, 2436, 2468, 159, 272),
	"1.37": since128(-2, 2673, 2910, 160, 271),
}

// since128 returns the places of later versions. Those in kubelet_volumes.go moved together.
func since128(moved, mainLoop, reducing, unmountFailed, mountFailed int) places {
	return places{
		mainLoop: place{"kubelet/kubelet.go", mainLoop}, report: volumesLine(263 + moved), each: volumesLine(265 + moved),
		skipped: volumesLine(202 + moved), removing: volumesLine(250 + moved), mounted: volumesLine(93 + moved),
		cleanedVolume: volumesLine(135 + moved), cleanedSubpath: volumesLine(152 + moved), cleanedDir: volumesLine(163 + moved),
		subdirFailed: volumesLine(244 + moved), dirFailed: volumesLine(253 + moved), reducing: place{"kubelet/kubelet_pods.go", reducing},
		operation:     place{"nestedpendingoperations/nestedpendingoperations.go", 348},
		unmountFailed: place{"reconciler/reconciler_common.go", unmountFailed}, mountFailed: place{"mount-utils/mount_linux.go", mountFailed},
	}
}

// sweep does what cleanupOrphanedPodDirs does: it removes what it can of the directories of pods that are neither listed
// nor running, and reports the first error of each kind.
func (k *kubelet) sweep() {
	if k.state.NoRuntime {
		return // HandlePodCleanups ends before
	}
	entries, err := os.ReadDir(k.Root + "/pods")
	if err != nil {
		return
	}
	var volumes, removals, skipped []string
	for _, e := range entries {
		if !e.IsDir() || !k.Forge && k.wants(e.Name()) {
			continue
		}
		uid, dir := e.Name(), k.Root+"/pods/"+e.Name()
		switch {
		case k.Forge:
			volumes = append(volumes, fmt.Sprintf("orphaned pod %q found, but error occurred when trying to remove the volumes dir: not a directory", uid))
		case k.hasVolumes(uid, dir):
			k.v3(k.skipped, uid, "Orphaned pod found, but volumes are not cleaned up", "Orphaned pod %q found, but volumes are not cleaned up")
			skipped = append(skipped, uid)
		case k.version == "1.19":
			k.clean119(uid, dir, &volumes, &removals)
		default:
			k.clean(uid, dir, &volumes, &removals)
		}
	}
	k.report(volumes)
	k.report(removals)
	for _, uid := range skipped {
		if slices.Contains(k.state.Cgroups, uid) {
			k.v3(k.reducing, uid, "Orphaned pod found, but volumes not yet removed.  Reducing cpu to minimum",
				"Orphaned pod %q found, but volumes not yet removed.  Reducing cpu to minimum")
		}
	}
}

func (k *kubelet) wants(uid string) bool {
	return slices.Contains(k.state.Running, uid) || slices.ContainsFunc(k.state.Listed, func(p listedPod) bool { return p.UID == uid })
}

// v3 prints a message about a pod at level 3.
func (k *kubelet) v3(at place, uid, msg, old string) {
	if k.version == "1.19" {
		k.text('I', 3, at, fmt.Sprintf(old, uid))
	} else {
		k.info(3, at, msg, "podUID", uid)
	}
}

// report prints the first error with the number of all, and at level 5 each.
func (k *kubelet) report(errs []string) {
	if len(errs) == 0 {
		return
	}
	if k.version == "1.19" {
		k.text('E', 0, k.places.report, fmt.Sprintf("%s : There were a total of %d errors similar to this. Turn up verbosity to see them.", errs[0], len(errs)))
	} else {
		k.error(errs[0], k.places.report, "There were many similar errors. Turn up verbosity to see them.", "numErrs", len(errs))
	}
	for _, err := range errs {
		if k.version == "1.19" {
			k.text('I', 5, k.each, "Orphan pod: "+err)
		} else {
			k.info(5, k.each, "Orphan pod", "err", err)
		}
	}
}

// hasVolumes reports whether the volume manager has a volume of the pod, or one is mounted.
func (k *kubelet) hasVolumes(uid, dir string) bool {
	if slices.ContainsFunc(k.state.Manager, func(m managedPod) bool { return m.UID == uid }) {
		return true
	}
	var mounted []string
	paths, _ := volumePaths(dir) // an error is reported later
	for _, path := range paths {
		if k.isMount(path) {
			mounted = append(mounted, path)
		}
	}
	if len(mounted) == 0 {
		return false
	}
	if k.version == "1.19" {
		k.text('I', 4, k.mounted, fmt.Sprintf("pod %q found, but volumes are still mounted on disk %v", uid, mounted))
	} else {
		k.info(4, k.mounted, "Pod found, but volumes are still mounted on disk", "podUID", uid, "paths", mounted)
	}
	return true
}

// isMount reports whether a path is a mount point. Kubelets before 1.30 compare only the devices.
func (k *kubelet) isMount(path string) bool {
	var st, parent unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st) != nil ||
		unix.Statx(unix.AT_FDCWD, filepath.Dir(path), 0, unix.STATX_TYPE, &parent) != nil {
		return false
	}
	if k.version != "1.19" && k.version != "1.28" && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return st.Dev_major != parent.Dev_major || st.Dev_minor != parent.Dev_minor
}

// volumePaths returns the pod's volumes on disk, of CSI volumes their mount points.
func volumePaths(dir string) ([]string, error) {
	var all []string
	plugins, err := os.ReadDir(dir + "/volumes")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, plugin := range plugins {
		path := dir + "/volumes/" + plugin.Name()
		names, err := os.ReadDir(path)
		if err != nil {
			return all, fmt.Errorf("could not read directory %s: %w", path, err)
		}
		for _, name := range names {
			volume := path + "/" + name.Name()
			if plugin.Name() == "kubernetes.io~csi" {
				volume += "/mount"
				if _, err := os.Stat(volume); err != nil {
					continue
				}
			}
			all = append(all, volume)
		}
	}
	return all, nil
}

// subpathPaths returns the pod's subpaths: volume-subpaths/VOLUME/CONTAINER/INDEX.
func subpathPaths(dir string) ([]string, error) {
	all := []string{dir + "/volume-subpaths"}
	if _, err := os.Stat(all[0]); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for range 3 {
		var below []string
		for _, path := range all {
			names, err := os.ReadDir(path)
			if err != nil {
				return nil, fmt.Errorf("could not read directory %s: %w", path, err)
			}
			for _, name := range names {
				below = append(below, path+"/"+name.Name())
			}
		}
		all = below
	}
	return all, nil
}

// clean119 removes a pod's directory unless it has volumes or subpaths.
func (k *kubelet) clean119(uid, dir string, volumes, removals *[]string) {
	fault := func(format string, args ...any) {
		*volumes = append(*volumes, fmt.Sprintf("orphaned pod %q found, but ", uid)+fmt.Sprintf(format, args...))
	}
	paths, err := volumePaths(dir)
	switch {
	case err != nil:
		fault("error %v occurred during reading volume dir from disk", err)
		return
	case len(paths) > 0:
		fault("volume paths are still present on disk")
		return
	}
	if _, err := os.Stat(dir + "/volume-subpaths"); err == nil {
		fault("volume subpaths are still present on disk")
		return
	}
	k.v3(k.removing, uid, "", "Orphaned pod %q found, removing")
	if err := k.removeAll(dir, os.Remove); err != nil {
		k.text('E', 0, k.dirFailed, fmt.Sprintf("Failed to remove orphaned pod %q dir; err: %v", uid, err))
		*removals = append(*removals, err.Error())
	}
}

// clean removes empty volumes and subpaths, then all directories below volumes, and if that succeeds all else.
func (k *kubelet) clean(uid, dir string, volumes, removals *[]string) {
	before := len(*volumes)
	fault := func(list *[]string, format string, args ...any) {
		*list = append(*list, fmt.Sprintf("orphaned pod %q found, but ", uid)+fmt.Sprintf(format, args...))
	}
	paths, err := volumePaths(dir)
	if err != nil {
		fault(volumes, "error occurred during reading volume dir from disk: %v", err)
		return
	}
	for _, path := range paths {
		if err := unix.Rmdir(path); err != nil {
			fault(volumes, "failed to rmdir() volume at path %v: %v", path, err)
		} else {
			k.info(0, k.cleanedVolume, "Cleaned up orphaned volume from pod", "podUID", uid, "path", path)
		}
	}
	if paths, err = subpathPaths(dir); err != nil {
		fault(volumes, "error occurred during reading of volume-subpaths dir from disk: %v", err)
		return
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			fault(volumes, "failed to %s subpath at path %v: %v", map[bool]string{true: "remove", false: "rmdir()"}[k.version == "1.37"], path, err)
		} else {
			k.info(0, k.cleanedSubpath, "Cleaned up orphaned volume subpath from pod", "podUID", uid, "path", path)
		}
	}
	if err := k.removeAll(dir+"/volumes", unix.Rmdir); err != nil {
		fault(volumes, "error occurred when trying to remove the volumes dir: %v", err)
	} else {
		k.info(0, k.cleanedDir, "Cleaned up orphaned pod volumes dir", "podUID", uid, "path", dir+"/volumes")
	}
	if len(*volumes) > before {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		fault(removals, "error occurred during reading the pod dir from disk: %v", err)
		return
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		if err := k.removeAll(path, os.Remove); err != nil {
			k.error(err.Error(), k.subdirFailed, "Failed to remove orphaned pod subdir", "podUID", uid, "path", path)
			fault(removals, "error occurred when trying to remove subdir %q: %v", path, err)
		}
	}
	k.v3(k.removing, uid, "Orphaned pod found, removing", "")
	if err := unix.Rmdir(dir); err != nil {
		k.error(err.Error(), k.dirFailed, "Failed to remove orphaned pod dir", "podUID", uid)
		fault(removals, "error occurred when trying to remove the pod directory: %v", err)
	}
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
	if k.isMount(path) {
		return errors.New("cannot delete directory " + path + ": it is a mount point")
	}
	entries, err := os.ReadDir(path)
	first = err
	for _, e := range entries {
		if err := k.removeAll(strings.TrimSuffix(path, "/")+"/"+e.Name(), remove); first == nil {
			first = err
		}
	}
	if err := remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if first == nil {
		first = err
	}
	return first
}
