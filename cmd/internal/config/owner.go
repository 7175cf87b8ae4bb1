package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// unsafeFileError is a file that others than root, or we, can change: whoever writes the configuration
// of a program that removes files as root decides which.
type unsafeFileError struct {
	why, mend string
}

func (e *unsafeFileError) Error() string { return e.why }

func isUnsafe(err error) bool { _, ok := errors.AsType[*unsafeFileError](err); return ok }

// checkConfigOwner refuses a configuration that anybody else may write. What is no regular file (a
// pipe, /dev/null) is the word of whoever started the program.
func checkConfigOwner(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	name := f.Name()
	if err := mayWrite(name, info, "644"); err != nil {
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
	// /tmp is sticky: nobody replaces another's file there. A ConfigMap is mounted read-only, from a
	// directory of mode 0777.
	if in.Mode()&fs.ModeSticky != 0 || on.Flags&unix.ST_RDONLY != 0 {
		return nil
	}
	return mayWrite(dir, in, "755")
}

// mayWrite says who may write to a file, or in a directory, who must not.
func mayWrite(name string, info fs.FileInfo, mode string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	quoted := clean.Shell(name)
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid() && (st.Uid != overflowUID || !inUserNamespace()):
		return &unsafeFileError{fmt.Sprintf("%s belongs to the user %d, who may change it", name, st.Uid), "chown root " + quoted}
	case info.Mode()&0o002 != 0:
		return &unsafeFileError{fmt.Sprintf("%s has mode %04o: any user may change it", name, info.Mode().Perm()), "chmod " + mode + " " + quoted}
	case info.Mode()&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid():
		return &unsafeFileError{
			fmt.Sprintf("%s has mode %04o: the group %d may change it", name, info.Mode().Perm(), st.Gid),
			"chmod " + mode + " " + quoted,
		}
	}
	return nil
}

// overflowUID is how a user namespace shows a user that it does not have (user_namespaces(7)).
const overflowUID = 65534

// inUserNamespace reports whether this is a user namespace that does not have all users: the host's root
// is shown as nobody there.
func inUserNamespace() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.Contains(string(users), " 4294967295")
}
