package kubelet

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sweep does what cleanupOrphanedPodDirs does: it removes what it can of the directories of pods that are neither listed
// nor running, and reports the first error of each kind.
func (k *kubelet) sweep() {
	// Without its runtime HandlePodCleanups ends before, and it is not called until all sources are known.
	if k.state.NoRuntime || k.state.PodsAPI == PodsAPIInitializing || k.paused {
		return
	}
	entries, err := os.ReadDir(k.Root + "/pods")
	if err != nil {
		return
	}
	var f faults
	var skipped []string
	for _, e := range entries {
		if !e.IsDir() || !k.Forge && k.wants(e.Name()) {
			continue
		}
		f.uid = e.Name()
		dir := k.Root + "/pods/" + f.uid
		switch {
		case k.Forge:
			f.volume("error occurred when trying to remove the volumes dir: not a directory")
		case k.hasVolumes(f.uid, dir):
			k.v3(k.skipped, f.uid, "but volumes are not cleaned up")
			skipped = append(skipped, f.uid)
		case k.version == "1.19":
			k.clean119(dir, &f)
		default:
			k.clean(dir, &f)
		}
	}
	k.report(f.volumes)
	k.report(f.removals)
	k.cleanupFails(f.removals)
	for _, uid := range skipped {
		if slices.Contains(k.state.Cgroups, uid) {
			k.v3(k.reducing, uid, "but volumes not yet removed.  Reducing cpu to minimum")
		}
	}
}

// faults are the errors of one sweep.
type faults struct {
	uid               string // of the pod at hand
	volumes, removals []string
}

func (f *faults) text(format string, args []any) string {
	return fmt.Sprintf("orphaned pod %q found, but ", f.uid) + fmt.Sprintf(format, args...)
}

func (f *faults) volume(format string, args ...any) {
	f.volumes = append(f.volumes, f.text(format, args))
}

func (f *faults) removal(format string, args ...any) {
	f.removals = append(f.removals, f.text(format, args))
}

func (k *kubelet) wants(uid string) bool {
	return slices.Contains(k.state.Running, uid) || slices.ContainsFunc(k.state.Listed, func(p Listed) bool { return p.UID == uid })
}

// v3 prints a message about an orphaned pod at level 3.
func (k *kubelet) v3(at place, uid, msg string) {
	if k.version == "1.19" {
		k.text('I', 3, at, fmt.Sprintf("Orphaned pod %q found, %s", uid, msg))
	} else {
		k.info(3, at, "Orphaned pod found, "+msg, "podUID", uid)
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

// cleanupFails prints the error that the sweep returns.
func (k *kubelet) cleanupFails(removals []string) {
	all := strings.Join(removals, ", ")
	switch {
	case len(removals) == 0:
		return
	case len(removals) > 1:
		all = "[" + all + "]"
	}
	if k.version == "1.19" {
		k.text('E', 0, k.cleanupFailed, "Failed cleaning up orphaned pod directories: "+all)
	} else {
		k.error(all, k.cleanupFailed, "Failed cleaning up orphaned pod directories")
	}
}

// hasVolumes reports whether the volume manager has a volume of the pod, or one is mounted, or that is not known.
func (k *kubelet) hasVolumes(uid, dir string) bool {
	if slices.ContainsFunc(k.state.Manager, func(m Managed) bool { return m.UID == uid }) {
		return true
	}
	paths, err := k.mountedVolumes(dir)
	switch old := k.version == "1.19"; {
	case err != nil && old:
		k.text('E', 0, k.checkFailed, fmt.Sprintf("pod %q found, but error %v occurred during checking mounted volumes from disk", uid, err))
	case err != nil:
		k.error(err.Error(), k.checkFailed, "Pod found, but error occurred during checking mounted volumes from disk", "podUID", uid)
	case len(paths) == 0:
		return false
	case old:
		k.text('I', 4, k.mounted, fmt.Sprintf("pod %q found, but volumes are still mounted on disk %v", uid, paths))
	default:
		k.info(4, k.mounted, "Pod found, but volumes are still mounted on disk", "podUID", uid, "paths", paths)
	}
	return true
}

// clean119 removes a pod's directory unless it has volumes or subpaths.
func (k *kubelet) clean119(dir string, f *faults) {
	paths, err := k.volumePaths(dir)
	switch {
	case err != nil:
		f.volume("error %v occurred during reading volume dir from disk", err)
		return
	case len(paths) > 0:
		f.volume("volume paths are still present on disk")
		return
	}
	if _, err := os.Stat(dir + "/volume-subpaths"); err == nil {
		f.volume("volume subpaths are still present on disk")
		return
	}
	k.v3(k.removing, f.uid, "removing")
	if err := k.removeAll(dir, os.Remove); err != nil {
		k.text('E', 0, k.dirFailed, fmt.Sprintf("Failed to remove orphaned pod %q dir; err: %v", f.uid, err))
		f.removals = append(f.removals, err.Error())
	}
}

// clean removes empty volumes and subpaths, then the directories below volumes, and if that succeeds all else.
func (k *kubelet) clean(dir string, f *faults) {
	before := len(f.volumes)
	k.cleanVolumes(dir, f)
	if len(f.volumes) > before {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.removal("error occurred during reading the pod dir from disk: %v", err)
		return
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		if err := k.removeAll(path, os.Remove); err != nil {
			k.error(err.Error(), k.subdirFailed, "Failed to remove orphaned pod subdir", "podUID", f.uid, "path", path)
			f.removal("error occurred when trying to remove subdir %q: %v", path, err)
		}
	}
	k.v3(k.removing, f.uid, "removing")
	if err := unix.Rmdir(dir); err != nil {
		k.error(err.Error(), k.dirFailed, "Failed to remove orphaned pod dir", "podUID", f.uid)
		f.removal("error occurred when trying to remove the pod directory: %v", err)
	}
}

// cleanVolumes does what removeOrphanedPodVolumeDirs does.
func (k *kubelet) cleanVolumes(dir string, f *faults) {
	paths, err := k.volumePaths(dir)
	if err != nil {
		f.volume("error occurred during reading volume dir from disk: %v", err)
		return
	}
	for _, path := range paths {
		if err := unix.Rmdir(path); err != nil {
			f.volume("failed to rmdir() volume at path %v: %v", path, err)
		} else {
			k.info(0, k.cleanedVolume, "Cleaned up orphaned volume from pod", "podUID", f.uid, "path", path)
		}
	}
	if paths, err = k.subpathPaths(dir); err != nil {
		f.volume("error occurred during reading of volume-subpaths dir from disk: %v", err)
		return
	}
	verb := "rmdir()"
	if k.version == "1.37" {
		verb = "remove"
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			f.volume("failed to %s subpath at path %v: %v", verb, path, err)
		} else {
			k.info(0, k.cleanedSubpath, "Cleaned up orphaned volume subpath from pod", "podUID", f.uid, "path", path)
		}
	}
	volumes := dir + "/volumes"
	if err := k.removeAll(volumes, unix.Rmdir); err != nil {
		f.volume("error occurred when trying to remove the volumes dir: %v", err)
	} else {
		k.info(0, k.cleanedDir, "Cleaned up orphaned pod volumes dir", "podUID", f.uid, "path", volumes)
	}
}
