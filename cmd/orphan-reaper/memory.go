package main

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseMemory returns what an idle daemon does not need: the free heap, and the pages of the program's own file, of which a
// pass uses some 25 MiB. These remain in the page cache, so that their next use costs minor faults only (madvise(2)).
func releaseMemory() {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	var from, to uint64
	ours, same := false, false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 4 && strings.Contains(f[0], "-"): // the first line of a mapping: proc_pid_maps(5)
			first, last, _ := strings.Cut(f[0], "-")
			from, err = strconv.ParseUint(first, 16, 64)
			to, _ = strconv.ParseUint(last, 16, 64)
			ours = err == nil && to > from && (f[1] == "r-xp" || f[1] == "r--p") && f[len(f)-1] == exe
		case len(f) == 3 && f[0] == "Anonymous:": // pages that were changed, as by a debugger, have no other copy
			same = f[1] == "0"
		case len(f) == 3 && f[0] == "Swap:" && ours && same && f[1] == "0": // nor have those in swap
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED) //nolint:forbidigo // unix.Madvise needs a slice
		}
	}
}
