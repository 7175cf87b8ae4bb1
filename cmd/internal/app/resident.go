package app

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack returns to the kernel what a pass has touched and an idle daemon does not need:
// the free heap, and what is in memory of the program's own file.
func giveBack() {
	debug.FreeOSMemory()
	dropProgram()
}

// dropProgram unmaps the program's instructions and constants, of which a look needs some 13 MiB and
// waiting for the next one a fraction. They stay in the page cache, so what is needed again
// costs a minor fault and no reading (madvise(2), MADV_DONTNEED on a mapping of a file). A
// mapping is left alone where a page of it was changed, which proc(5) calls anonymous: a PIE's relocations and
// a debugger's breakpoints are nowhere else. What can be written is left alone as well.
// Where it fails the daemon takes more memory, and that is all: 18.5 MiB instead of 9.2 with
// everything off.
func dropProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer closeQuietly(smaps)
	var from, to uintptr
	ours, same := false, false
	for sc := bufio.NewScanner(smaps); sc.Scan(); {
		name, rest, _ := strings.Cut(sc.Text(), " ")
		switch {
		case !strings.HasSuffix(name, ":"): // the line with which a mapping begins
			_, err := fmt.Sscanf(name, "%x-%x", &from, &to)
			ours = err == nil && (strings.HasPrefix(rest, "r-xp ") || strings.HasPrefix(rest, "r--p ")) && strings.HasSuffix(rest, " "+exe)
		case name == "Anonymous:":
			same = strings.TrimSpace(rest) == "0 kB"
		case ours && same && name == "Swap:" && strings.TrimSpace(rest) == "0 kB": // a changed page in swap is anonymous no more
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) //nolint:forbidigo // unix.Madvise wants a slice, and instructions have none
		}
	}
}
