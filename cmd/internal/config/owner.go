package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// checkConfigOwner returns an error for a configuration that others than root, or we, can change: it determines which files
// are removed as root.
func checkConfigOwner(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name := f.Name()
	if !info.Mode().IsRegular() {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3) {
			return nil // /dev/null, see null(4)
		}
		return exit.Usagef("", "cannot read the configuration: %s is not a file", name)
	}
	if err := onlyOurs(name, info); err != nil {
		return err
	}
	dir := filepath.Dir(name)
	in, err := os.Stat(dir)
	if err != nil {
		return err
	}
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &on); err != nil {
		return err
	}
	// /tmp is sticky: only the owner can replace a file there. A ConfigMap is mounted read-only, from a
	// directory of mode 0777.
	if in.Mode()&fs.ModeSticky != 0 || on.Flags&unix.ST_RDONLY != 0 {
		return nil
	}
	return onlyOurs(dir, in)
}

// onlyOurs returns an error where another user than root and this one may write to a file, or in a directory.
func onlyOurs(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	theirs := st.Uid != 0 && int(st.Uid) != os.Geteuid() && (st.Uid != overflowUID || !inUserNamespace())
	group := info.Mode()&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid()
	if !theirs && !group && info.Mode()&0o002 == 0 {
		return nil
	}
	quoted := clean.Shell(name)
	return exit.Usagef("chown root:root "+quoted+" && chmod go-w "+quoted,
		"cannot use the configuration: %s belongs to user %d and group %d and has mode %04o, so that others may change it",
		name, st.Uid, st.Gid, info.Mode().Perm())
}

// overflowUID is how a user namespace shows a user that it does not have (user_namespaces(7)).
const overflowUID = 65534

// inUserNamespace reports whether this is a user namespace without all users: it shows the host's root as
// nobody.
func inUserNamespace() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.Contains(string(users), " 4294967295")
}
