package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// RKE2Log is the file to which RKE2's kubelet logs, and not to the journal (docs.rke2.io, "Logging").
const RKE2Log = "/var/lib/rancher/rke2/agent/logs/kubelet.log"

// LogFiles returns the files to follow, each once: the named ones, if sources has file, or auto and no
// journal is read; with auto RKE2's log, if RKE2's agent is installed; and the kubelet's own.
func LogFiles(sources, named []string, journal bool, rke2 string, own ...string) []string {
	var paths []string
	automatic := slices.Contains(sources, "auto")
	if slices.Contains(sources, "file") || (automatic && !journal) {
		paths = slices.Clone(named)
	}
	agent := filepath.Dir(filepath.Dir(rke2))
	if info, err := os.Stat(agent); automatic && err == nil && info.IsDir() && !slices.Contains(paths, rke2) {
		paths = append(paths, rke2)
	}
	for _, path := range own {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// JournaldRuns reports whether journald receives messages here.
func JournaldRuns() bool {
	var st unix.Stat_t
	err := unix.Stat("/run/systemd/journal/socket", &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// journals returns the journals in the directories that match name.
func journals(dirs []string, name string) (files []string) {
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "*", name)) // its only error is that of a bad pattern
		files = append(files, found...)
	}
	return files
}

// JournalKept reports whether a journal is in any of the directories. With Storage=none journald
// forwards lines to syslog and keeps none.
func JournalKept(dirs ...string) bool { return len(journals(dirs, "*.journal")) > 0 }

// journalLag is how much later than the journal a file with the same lines may be written.
const journalLag = 5 * time.Minute

// WrittenAfterJournal returns the files that were written well after the journals in the directories: they
// have lines that no journal has. journald changes the time of its file with each entry.
func WrittenAfterJournal(dirs, files []string) []string {
	var last time.Time
	for _, path := range journals(dirs, "*.journal") {
		if at := written(path); at.After(last) {
			last = at
		}
	}
	var later []string
	for _, path := range files {
		if written(path).After(last.Add(journalLag)) {
			later = append(later, path)
		}
	}
	return later
}

// written returns when a regular file was last written, zero for anything else.
func written(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

// JournalClosed returns the first system journal in the directories that this process may not read, ""
// if there is none. journalctl --quiet then shows only the other journals, such as the user's own, without
// a message.
func JournalClosed(dirs ...string) string {
	for _, path := range journals(dirs, "system*.journal") {
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS); errors.Is(err, fs.ErrPermission) {
			return path
		}
	}
	for _, dir := range dirs {
		if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) {
			return dir
		}
	}
	return ""
}
