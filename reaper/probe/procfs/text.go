package procfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Unescape undoes the octal escapes of mountinfo.
func Unescape(field []byte) string {
	var b strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if n, err := strconv.ParseUint(string(field[i+1:i+4]), 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(field[i])
	}
	return b.String()
}

// InitialPIDNamespace is what a link to the machine's first PID namespace reads: PROC_PID_INIT_INO
// of linux/proc_ns.h, the same on every machine.
const InitialPIDNamespace = "pid:[4026531836]"

// IsMountNamespace reports whether a text is what a link to the file of a mount namespace reads,
// and field 4 of a bind of one in mountinfo.
func IsMountNamespace(link []byte) bool { return bytes.HasPrefix(link, []byte("mnt:[")) }

// Who returns a process's PID for people, with its command where that can be read.
func Who(dir, pid string) string {
	b, err := os.ReadFile(dir + "/" + pid + "/comm")
	if err != nil || len(b) > 64 {
		return pid
	}
	return fmt.Sprintf("%s (%s)", pid, clean.Name(string(bytes.TrimSpace(b))))
}

// Cgroup reads the cgroups of a process, as much as can count.
func Cgroup(dir, pid string) (string, bool) {
	f, err := os.Open(dir + "/" + pid + "/cgroup")
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(text), err == nil
}
