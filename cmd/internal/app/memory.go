package app

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// limitMemory sets the runtime's memory limit below that of the cgroup, unless GOMEMLIMIT is lower.
func limitMemory(procDir, cgroupRoot string) {
	if limit := memoryLimit(procDir, cgroupRoot); limit < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit returns four fifths of the memory limit of this process's cgroup, v2 or v1, or math.MaxInt64 without a limit.
func memoryLimit(procDir, cgroupRoot string) int64 {
	limit := int64(math.MaxInt64)
	text, _ := procfs.Cgroup(procDir, "self")
	for line := range bytes.Lines([]byte(text)) {
		f := bytes.SplitN(bytes.TrimSuffix(line, []byte{'\n'}), []byte{':'}, 3)
		if len(f) < 3 {
			continue
		}
		var file string
		switch string(f[1]) {
		case "":
			file = cgroupRoot + string(f[2]) + "/memory.max"
		case "memory":
			file = cgroupRoot + "/memory" + string(f[2]) + "/memory.limit_in_bytes"
		default:
			continue
		}
		b, err := beneath.ReadNamed(file, 64)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 {
			limit = min(limit, n/5*4)
		}
	}
	return limit
}

// releaseMemory returns the memory that an idle daemon does not need: the free heap, and the pages of the program's file.
func releaseMemory() {
	debug.FreeOSMemory()
	unmapProgram()
}

// unmapProgram releases the pages of the program's instructions and constants with MADV_DONTNEED (madvise(2)). A look uses
// some 25 MiB of them, an idle daemon a fraction. They remain in the page cache, so their next use costs only minor faults. A
// mapping with changed pages, which proc(5) calls anonymous, is left alone: the relocations of a PIE and the breakpoints of a
// debugger have no other copy. An error only costs memory: an idle daemon has 31 MiB without this.
func unmapProgram() {
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
		case !strings.HasSuffix(name, ":"): // the first line of a mapping
			_, err := fmt.Sscanf(name, "%x-%x", &from, &to)
			ours = err == nil && (strings.HasPrefix(rest, "r-xp ") || strings.HasPrefix(rest, "r--p ")) && strings.HasSuffix(rest, " "+exe)
		case name == "Anonymous:":
			same = strings.TrimSpace(rest) == "0 kB"
		case ours && same && name == "Swap:" && strings.TrimSpace(rest) == "0 kB": // a changed page in swap is not counted as anonymous
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) //nolint:forbidigo // unix.Madvise needs a slice
		}
	}
}
