package audit

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const testUID = "0fb1a2c3-1111-4222-8333-444455556666"

// journald is a socket at journald's path, in a mount namespace of the test's own. It reads only on request.
type journald struct{ conn *net.UnixConn }

func newJournald(t *testing.T) *journald {
	t.Helper()
	testkit.Must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	testkit.Must(t, os.MkdirAll("/run/systemd/journal", 0o755))
	return listenJournald(t)
}

func listenJournald(t *testing.T) *journald {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "/run/systemd/journal/socket", Net: "unixgram"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &journald{conn}
}

// fields is one journal entry: the values of each field, in order.
type fields map[string][]string

func (e fields) get(name string) string {
	if len(e[name]) != 1 {
		return ""
	}
	return e[name][0]
}

// read returns the next entry and reports whether it came in a file.
func (j *journald) read(t *testing.T) (fields, bool) {
	t.Helper()
	testkit.Must(t, j.conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
	buf, oob := make([]byte, 1<<20), make([]byte, 128)
	n, oobn, _, _, err := j.conn.ReadMsgUnix(buf, oob)
	testkit.Must(t, err)
	if oobn == 0 {
		return decodeNative(t, buf[:n]), false
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	testkit.Must(t, err)
	fds, err := unix.ParseUnixRights(&msgs[0])
	testkit.Must(t, err)
	f := os.NewFile(uintptr(fds[0]), "record")
	defer func() { _ = f.Close() }()
	// journald maps or reads the file from its start, at any offset.
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	testkit.Must(t, err)
	return decodeNative(t, b), true
}

// decodeNative parses journald's native protocol: NAME=VALUE and a newline, or NAME, a newline, the length as 64 bits
// little-endian, the value and a newline.
func decodeNative(t *testing.T, b []byte) fields {
	t.Helper()
	e := fields{}
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			t.Fatalf("the entry ends in the middle of a line: %q", b)
		}
		if name, value, ok := bytes.Cut(line, []byte{'='}); ok {
			e[string(name)] = append(e[string(name)], string(value))
			b = rest
			continue
		}
		n := binary.LittleEndian.Uint64(rest)
		e[string(line)] = append(e[string(line)], string(rest[8:8+n]))
		if rest[8+n] != '\n' {
			t.Fatalf("%s is longer than its length field", line)
		}
		b = rest[8+n+1:]
	}
	return e
}

// sample returns a record of kind k with every field set.
func sample(k policy.Kind) policy.Record {
	return policy.Record{
		Seq: 42, Kind: k, UID: testUID, Namespace: "shop", PodName: "cart-0", Entry: testUID + "-1", Decision: policy.Keep,
		At: policy.Instant{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), BootID: "5b1ad9a2-a09f-4daf-b4eb-407793f6fb3e", Boot: time.Hour},
		Why: []policy.Why{
			{Reason: policy.ReasonMounted, Detail: "/var/lib/kubelet/pods/x is a mount point of process 812"},
			{Reason: policy.ReasonHold},
		},
		Taken:   map[string]policy.Tally{"skeleton": {Entries: 5, Bytes: 20480}, "projected": {Entries: 9, Bytes: 3 << 20}},
		Left:    []policy.Residue{{Path: "volumes/kubernetes.io~nfs/data", Class: contents.ClassData, Bytes: 5 << 30, Entries: 12, Partial: true}},
		VolData: map[string]string{"volumes/kubernetes.io~csi/pv/vol_data.json": "{\n\"volumeHandle\":\"h\"}"},
		Archive: "cni-20260102-030405-000", Pods: []string{"shop/cart-0", "shop/cart-1"}, Repaired: 2, Runtimes: []string{"containerd 1.6.20"},
		Err: "cannot move: input/output error", By: &policy.User{UID: new(uint32(1000)), Login: "alice", SudoUser: "bob"},
	}
}

// kinds returns all kinds of the table.
func kinds() []policy.Kind {
	var ks []policy.Kind
	for _, m := range policy.Kinds() {
		ks = append(ks, m.Kind)
	}
	return ks
}

// nasty lists names that must not break out of their field or line.
var nasty = []string{
	"a\nORPHAN_REAPER_POD_UID=forged\nMESSAGE=forged", "a\x00b", "\x1b[31mred\x1b[0m", "\xff\xfe", "a\u202eb", "a=b", "a\u2028b",
	strings.Repeat("x", 5000),
}
