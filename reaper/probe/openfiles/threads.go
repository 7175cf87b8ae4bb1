package openfiles

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// What kcmp(2) compares: the table of open files, and root and working directory.
const (
	kcmpFiles = 2
	kcmpFS    = 3
)

// sameFiles says whether two threads of a process share open files, root and working
// directory. A thread may leave each of them (unshare(2)), and nothing in /proc tells but a
// listing. kcmp takes what a listing takes, CAP_SYS_PTRACE; where the kernel or a filter has
// none, each thread is read.
func (s *scan) sameFiles(a, b string) bool {
	if !s.ours {
		return false
	}
	first, err := strconv.Atoi(path.Base(a))
	if err != nil {
		return false
	}
	second, err := strconv.Atoi(path.Base(b))
	return err == nil && kcmpEqual(first, second, kcmpFiles) && kcmpEqual(first, second, kcmpFS)
}

func kcmpEqual(a, b, what int) bool {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), uintptr(what), 0, 0, 0) //nolint:forbidigo // it only compares
	return errno == 0 && order == 0
}

// ownNumbers says whether the numbers in the proc directory are those of this process's PID
// namespace, by the name that it has for this process.
func ownNumbers(self string) bool { return self == strconv.Itoa(os.Getpid()) }
