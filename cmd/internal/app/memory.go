package app

import (
	"bytes"
	"math"
	"runtime/debug"
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// limitMemory has the runtime collect before the cgroup's memory is used up. It keeps an operator's lower
// GOMEMLIMIT.
func limitMemory(procDir, cgroupRoot string) {
	if limit := memoryLimit(procDir, cgroupRoot); limit < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit is four fifths of the memory of this process's cgroup, v2 or v1, and math.MaxInt64
// where there is no limit.
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
