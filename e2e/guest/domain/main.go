// Command domain is what TestSELinux runs in the guest: it loads a policy, labels files, and runs a command in a domain.
// The busybox of Debian is built without SELinux.
//
//	domain load POLICY
//	domain label CONTEXT PATH...     and all below
//	domain run CONTEXT COMMAND...
//	domain start COMMAND...          without new privileges, as systemd starts a service
//	domain try                       what the domain of the program must not do, each refused or not
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if err := do(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "domain:", os.Args[1:], err)
		os.Exit(1)
	}
}

// store writes to a file that is there, by one write(2).
func store(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func do(what string, args []string) error {
	switch what {
	case "load":
		policy, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		return store("/sys/fs/selinux/load", string(policy))
	case "label":
		for _, path := range args[1:] {
			err := filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return unix.Lsetxattr(path, "security.selinux", []byte(args[0]), 0)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	case "run":
		runtime.LockOSThread() // the next exec of this thread
		if err := store("/proc/thread-self/attr/exec", args[0]); err != nil {
			return err
		}
		return unix.Exec(args[1], args[1:], os.Environ())
	case "start":
		runtime.LockOSThread() // no_new_privs is a thread's
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		return unix.Exec(args[0], args, os.Environ())
	case "try":
		return try()
	}
	return errors.New("no such thing")
}

// attempts are what the program must not be able to do, though it has root's rights here. PID 1 is of another domain.
var attempts = []struct {
	name string
	do   func() error
}{
	{"ptrace of another domain", func() error { return unix.PtraceSeize(1) }},
	{"a signal to another domain", func() error { return unix.Kill(other(), unix.SIGCONT) }},
	{"memory of another domain", func() error {
		f, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}},
	{"write to /etc", func() error { return store("/node/etc/passwd", "x") }},
	{"make a file in /etc", func() error { return os.WriteFile("/node/etc/cron", []byte("x"), 0o644) }},
	{"read /etc/shadow", func() error { _, err := os.ReadFile("/node/etc/shadow"); return err }},
	{"replace a program", func() error { return os.Rename("/node/bin/tool", "/node/bin/other") }},
	{"run a pod's file", func() error {
		_, err := os.StartProcess("/node/kubelet/tool", []string{"tool"}, &os.ProcAttr{})
		return err
	}},
	{"mount", func() error { return unix.Mount("tmpfs", "/node/kubelet", "tmpfs", 0, "") }},
	{"unmount", func() error { return unix.Unmount("/node", unix.MNT_DETACH) }},
	{"make a device", func() error { return unix.Mknod("/node/kubelet/sda", unix.S_IFBLK|0o600, 8<<8) }},
	{"set the time", func() error { return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 1}) }},
	{"turn SELinux off", func() error { return store("/sys/fs/selinux/enforce", "0") }},
	{"relabel", func() error {
		return unix.Setxattr("/node/kubelet/tool", "security.selinux", []byte("system_u:object_r:bin_t:s0"), 0)
	}},
	{"another domain", func() error {
		return store("/proc/self/attr/current", "system_u:system_r:unconfined_t:s0")
	}},
}

// other is a process of another domain: the one that started this one's.
func other() int {
	pid, _ := strconv.Atoi(os.Getenv("OTHER"))
	return pid
}

func try() error {
	var failed []string
	for _, a := range attempts {
		err := a.do()
		fmt.Printf("%s: %v\n", a.name, err)
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			failed = append(failed, a.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not refused: %s", strings.Join(failed, ", "))
	}
	// What it must be able to read.
	for _, path := range []string{"/proc/1/maps", "/proc/1/mountinfo", "/node/log/messages"} {
		if _, err := os.ReadFile(path); err != nil {
			return err
		}
	}
	if _, err := os.ReadDir("/proc/1/fd"); err != nil {
		return err
	}
	_, err := os.Stat("/proc/1/root/init")
	return err
}
