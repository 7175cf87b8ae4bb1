package procfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// The mountinfo of a process has only what is mounted below its root. It does not have all mounts of a
// namespace in which every process has a root of its own (chroot(2)), in which the root of every process
// was removed, or which has no process. listmount(2) and statmount(2) list a namespace by an open file of
// it, whatever the roots of its processes. They exist since Linux 6.8, accept the file of a namespace since
// 6.12, and return the source of a mount since 6.13. The code below writes their results as lines of
// mountinfo, so that the same code reads both.
//
// They need only the capability to open that file: CAP_SYS_PTRACE for /proc/PID/ns/mnt. A mount costs 3 to
// 4 µs, a line of mountinfo 1 to 3.

// ErrNoNamespaces means that the kernel, or a filter of system calls, does not have them.
var ErrNoNamespaces = errors.New("this kernel lists no mount namespace by its file (Linux 6.13 does), " +
	"and entering one needs CAP_SYS_ADMIN and CAP_SYS_CHROOT")

// From linux/mount.h.
const (
	statmountSBBasic  = 0x1
	statmountMntBasic = 0x2
	statmountMntRoot  = 0x8
	statmountMntPoint = 0x10
	statmountFSType   = 0x20
	statmountMntOpts  = 0x80
	statmountSBSource = 0x200
	// listmountRoot stands for the root of the namespace: LSMT_ROOT.
	listmountRoot = math.MaxUint64
)

// mntIDReq is struct mnt_id_req in its first size, which every version accepts. The second word
// had to be 0 before 6.12, and is the file of the mount namespace since.
type mntIDReq struct {
	size, ns  uint32
	id, param uint64
}

// The offsets of fields in struct statmount. A string field is an offset into the text, which starts
// at byte 512.
const (
	atOpts, atMask, atMajor, atMinor, atFSType  = 4, 8, 16, 20, 36
	atID, atParent, atRoot, atPoint, atSBSource = 56, 60, 104, 108, 124
)

const (
	statmountText    = 512
	biggestStatmount = 1 << 20
	idsAtOnce        = 1024
)

// NamespaceMounts calls do for each line that mountinfo would have at the root of the mount namespace whose
// file is open. The file must be that of a mount namespace: any other harms a kernel without the fix of
// November 2025 (78f0e33cd6c9).
func NamespaceMounts(ns int, do func(l *MountLine) error) error {
	var text []byte
	buf := make([]byte, 4<<10)
	ids := make([]uint64, idsAtOnce)
	some, sourced, last := false, false, uint64(0)
	for {
		n, err := listmount(ns, last, ids)
		if err != nil {
			return err
		}
		for _, id := range ids[:n] {
			last = id
			var line bool
			text, buf, line, err = appendMount(text[:0], buf, ns, id)
			if beneath.Gone(err) { // unmounted meanwhile
				continue
			}
			some, sourced = true, sourced || line
			var l MountLine
			if errors.Is(err, unix.EOVERFLOW) { // the user who mounted it chose the length of its paths
				l, err = MountLine{Cut: true}, nil
			} else if err == nil {
				l, err = cutMount(text)
			}
			if err == nil {
				err = do(&l)
			}
			if err != nil {
				return err
			}
		}
		if n < len(ids) {
			break
		}
	}
	if !sourced && some {
		return ErrNoNamespaces // before 6.13: the source of an overlay or a bindfs is missing
	}
	return nil
}

func listmount(ns int, last uint64, ids []uint64) (int, error) {
	req := mntIDReq{size: uint32(unsafe.Sizeof(mntIDReq{})), ns: uint32(ns), id: listmountRoot, param: last}
	n, err := mountCall(unix.SYS_LISTMOUNT, &req, unsafe.Pointer(&ids[0]), len(ids))
	return n, noNamespaces(err)
}

// mountCall makes one of the two calls: x/sys has only their numbers.
func mountCall(call uintptr, req *mntIDReq, into unsafe.Pointer, size int) (int, error) {
	return beneath.Retry(func() (int, error) {
		n, _, errno := unix.Syscall6(call, uintptr(unsafe.Pointer(req)), uintptr(into), uintptr(size), 0, 0, 0) //nolint:forbidigo // it changes nothing
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	})
}

// noNamespaces returns ErrNoNamespaces for the errors of a kernel without the calls, of one that requires the
// second word to be 0, and of a filter.
func noNamespaces(err error) error {
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%w (%s)", ErrNoNamespaces, err.Error()) // EINVAL must not look as if a process had ended
	}
	return err
}

// appendMount adds the line of one mount, and reports whether the line has the source of the mount.
func appendMount(text, buf []byte, ns int, id uint64) (more, grown []byte, sourced bool, _ error) {
	const mask = statmountSBBasic | statmountMntBasic | statmountMntRoot | statmountMntPoint | statmountFSType | statmountMntOpts | statmountSBSource
	req := mntIDReq{size: uint32(unsafe.Sizeof(mntIDReq{})), ns: uint32(ns), id: id, param: mask}
	for {
		_, err := mountCall(unix.SYS_STATMOUNT, &req, unsafe.Pointer(&buf[0]), len(buf))
		if errors.Is(err, unix.EOVERFLOW) && len(buf) < biggestStatmount {
			buf = make([]byte, 4*len(buf))
			continue
		}
		if err != nil {
			return text, buf, false, noNamespaces(err)
		}
		break
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(buf[at:]) }
	has := binary.NativeEndian.Uint64(buf[atMask:])
	field := func(bit uint64, at int, none string) []byte {
		from := int(word(at))
		if has&bit == 0 || from >= len(buf)-statmountText {
			return []byte(none)
		}
		s := buf[statmountText+from:]
		if i := bytes.IndexByte(s, 0); i >= 0 {
			s = s[:i]
		}
		if len(s) == 0 {
			return []byte(none)
		}
		return s
	}
	text = fmt.Appendf(text, "%d %d %d:%d ", word(atID), word(atParent), word(atMajor), word(atMinor))
	text = append(appendEscaped(text, field(statmountMntRoot, atRoot, "/")), ' ')
	text = append(appendEscaped(text, field(statmountMntPoint, atPoint, "(unreachable)")), " rw - "...)
	text = append(appendEscaped(text, field(statmountFSType, atFSType, "none")), ' ')
	text = append(appendEscaped(text, field(statmountSBSource, atSBSource, "none")), ' ')
	// The file system has escaped the options already.
	text = append(text, bytes.ReplaceAll(field(statmountMntOpts, atOpts, "rw"), []byte{'\n'}, []byte(`\012`))...)
	return text, buf, has&statmountSBSource != 0, nil
}

// appendEscaped escapes as mountinfo does: statmount returns the bytes as they are.
func appendEscaped(text, s []byte) []byte {
	for _, c := range s {
		switch c {
		case ' ', '\t', '\n', '\\', '#':
			text = append(text, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		default:
			text = append(text, c)
		}
	}
	return text
}

// OpenNamespace opens the file of a mount namespace, /proc/PID/ns/mnt or /proc/PID/fd/N. It checks before
// and after that the file is one.
func OpenNamespace(proc int, path string) (int, error) {
	link, err := Namespace(proc, path)
	if err != nil {
		return -1, err
	}
	if !IsMountNamespace([]byte(link)) {
		return -1, errNoNamespace
	}
	fd, err := beneath.OpenTrusted(proc, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	if !IsNamespace(fd, link) {
		beneath.Close(fd)
		return -1, errNoNamespace
	}
	return fd, nil
}

// Namespace reads the link of a namespace, such as PID/ns/mnt below the proc directory: mnt:[4026531841].
func Namespace(proc int, path string) (string, error) {
	var buf [64]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Readlinkat(proc, path, buf[:]) })
	return string(buf[:max(n, 0)]), err
}

// IsNamespace reports whether the open file, which may be an O_PATH handle, is the namespace that a link
// shows as inode, mnt:[N]. It compares with the file of our own namespace and asks no file server.
func IsNamespace(fd int, inode string) bool {
	var own unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/proc/self/ns/mnt", unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &own); err != nil {
		return false
	}
	st, err := beneath.Stat(fd)
	return err == nil && beneath.DevOf(&st) == beneath.DevOf(&own) && inode == fmt.Sprintf("mnt:[%d]", st.Ino)
}

var errNoNamespace = errors.New("it is not a mount namespace")
