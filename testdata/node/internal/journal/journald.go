package journal

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Receive accepts entries at journald's socket, in its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL).
func (s *Sink) Receive() error {
	const socket = "/run/systemd/journal/socket"
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return err
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var option error
	if err := raw.Control(func(fd uintptr) { option = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return err
	}
	go s.receiveAll(c)
	return option
}

func (s *Sink) receiveAll(c *net.UnixConn) {
	buffer, control := make([]byte, 1<<20), make([]byte, 4096)
	for {
		n, m, _, _, err := c.ReadMsgUnix(buffer, control)
		if err != nil {
			return
		}
		text, sender := buffer[:n], senderOf(control[:m])
		if n == 0 {
			text = sender.file
		}
		fields := append(parseEntry(text), field{"_TRANSPORT", []byte("journal")}, field{"_PID", []byte(strconv.Itoa(sender.pid))})
		if comm, err := os.ReadFile("/proc/" + strconv.Itoa(sender.pid) + "/comm"); err == nil {
			fields = append(fields, field{"_COMM", bytes.TrimSpace(comm)})
		}
		s.mu.Lock()
		s.entry(time.Now().Add(s.offset), fields)
		s.mu.Unlock()
	}
}

// sender is what the kernel adds to a message: the process, and an open file that has the entry if it is large.
type sender struct {
	pid  int
	file []byte
}

func senderOf(control []byte) (from sender) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return from
	}
	for _, m := range messages {
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			from.pid = int(cred.Pid)
		}
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "entry")
			from.file, _ = io.ReadAll(io.NewSectionReader(f, 0, 1<<30)) // what cannot be read is no entry
			_ = f.Close()
		}
	}
	return from
}

// parseEntry parses lines NAME=VALUE, and NAME, a length of 8 bytes and a value with newlines.
func parseEntry(text []byte) (fields []field) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		name, value, simple := bytes.Cut(line, []byte("="))
		if !simple {
			if len(rest) < 8 || binary.LittleEndian.Uint64(rest) > uint64(len(rest)-8) {
				return fields
			}
			size := binary.LittleEndian.Uint64(rest)
			value, rest = rest[8:8+size], bytes.TrimPrefix(rest[8+size:], []byte("\n"))
		}
		if text = rest; len(name) > 0 && name[0] != '_' {
			fields = append(fields, field{string(name), bytes.Clone(value)})
		}
	}
	return fields
}
