package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// ErrEnded means that a process ended between two reads of it.
var ErrEnded = errors.New("the process has ended")

// Path returns the path of a process's file.
func Path(dir string, pid int, file string) string {
	return filepath.Join(dir, strconv.Itoa(pid), file)
}

// MaxCmdline bounds a command line. Linux allows a quarter of the stack limit, 2 MiB.
const MaxCmdline = 2 << 20

// Read reads at most limit bytes of a process's file.
func Read(dir string, pid int, file string, limit int64) ([]byte, error) {
	b, err := beneath.ReadNamed(Path(dir, pid, file), limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, ErrEnded
	}
	return b, err
}

// Stat has fields of a process's stat file.
type Stat struct {
	Parent int
	Start  int64 // ticks since boot
}

// StatOf reads /proc/PID/stat, proc_pid_stat(5). Field 2 is the name in parentheses, which may
// contain spaces and parentheses, so the fields are counted from the last parenthesis:
//
//	1234 (kube) let) S 1 1234 ...  ->  S is field 3, the parent 4, starttime 22
func StatOf(dir string, pid int) (Stat, error) {
	b, err := Read(dir, pid, "stat", 64<<10)
	if err != nil {
		return Stat{}, err
	}
	const state, parent, start = 0, 1, 22 - 3
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= start {
		return Stat{}, fmt.Errorf("cannot read %s: %d fields after the name", Path(dir, pid, "stat"), len(fields))
	}
	if c := fields[state][0]; c == 'Z' || c == 'X' {
		return Stat{}, ErrEnded
	}
	var st Stat
	if st.Parent, err = strconv.Atoi(string(fields[parent])); err == nil {
		st.Start, err = strconv.ParseInt(string(fields[start]), 10, 64)
	}
	if err == nil && st.Start < 0 {
		err = errors.New("negative start")
	}
	if err != nil {
		return Stat{}, fmt.Errorf("cannot read %s: %w", Path(dir, pid, "stat"), err)
	}
	return st, nil
}

// ClockTick returns the unit of starttime: AT_CLKTCK of getauxval(3), 17 in linux/auxvec.h. The
// start time counts from the boot and includes suspend, as CLOCK_BOOTTIME does (start_boottime,
// called real_start_time before Linux 5.5).
func ClockTick() (time.Duration, error) {
	const atClockTick = 17
	vector, err := unix.Auxv()
	if err != nil {
		return 0, fmt.Errorf("cannot read the clock's unit: %w", err)
	}
	for _, pair := range vector {
		if pair[0] == atClockTick && pair[1] > 0 {
			return time.Second / time.Duration(pair[1]), nil
		}
	}
	return 0, errors.New("cannot read the clock's unit: the kernel does not report it")
}

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

// InitialPIDNamespace is the text of a link to the machine's first PID namespace: PROC_PID_INIT_INO
// of linux/proc_ns.h, the same on every machine.
const InitialPIDNamespace = "pid:[4026531836]"

// IsMountNamespace reports whether the text is that of a link to the file of a mount namespace, or field 4
// of a bind mount of one in mountinfo.
func IsMountNamespace(link []byte) bool { return bytes.HasPrefix(link, []byte("mnt:[")) }

// Who returns a process's PID for messages, with its command where that can be read.
func Who(dir, pid string) string {
	b, err := os.ReadFile(dir + "/" + pid + "/comm")
	if err != nil || len(b) > 64 {
		return pid
	}
	return fmt.Sprintf("%s (%s)", pid, clean.Name(string(bytes.TrimSpace(b))))
}

// Cgroup reads the cgroups of a process, at most 64 KiB.
func Cgroup(dir, pid string) (string, bool) {
	f, err := os.Open(dir + "/" + pid + "/cgroup")
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(text), err == nil
}
