package podlists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// Bounds of what is read from a socket of the kubelet. One of 500 pods with devices answers with some
// 100 KiB (and its own limit is 16 MiB).
const (
	maxAnswer = 16 << 20
	mostPods  = 16384
)

// socketAnswer is what came from a socket, on the wire, and who listened there.
type socketAnswer struct {
	text []byte
	by   peers
	err  error
}

// askSocket calls the first of the methods that the kubelet's socket has.
func (r *Reader) askSocket(ctx context.Context, what, entry string, methods ...string) socketAnswer {
	a, err := bounded.Do(ctx, r.Guard, what, func() socketAnswer { return r.call(ctx, filepath.Join(r.RootDir, entry), methods) })
	a.err = cmp.Or(err, a.err)
	return a
}

func (r *Reader) call(ctx context.Context, socket string, methods []string) (a socketAnswer) {
	switch info, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist):
		a.err = errors.New("the kubelet has no such socket")
		return a
	case err != nil:
		a.err = err
		return a
	case info.Mode()&fs.ModeSocket == 0:
		a.err = fmt.Errorf("%s is no socket", socket)
		return a
	}
	var mu sync.Mutex
	var by peers
	conn, err := cri.Connect(socket, maxAnswer, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		c, p, err := dialPeer(ctx, socket)
		mu.Lock()
		defer mu.Unlock()
		by = append(by, p)
		return c, err
	}))
	if err != nil {
		a.err = err
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, r.Guard.Limit())
	defer cancel()
	for _, method := range methods {
		err = conn.Invoke(ctx, method, []byte{}, &a.text, grpc.ForceCodec(wireCodec{}))
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	_ = conn.Close() // nothing was sent that could be lost
	mu.Lock()
	defer mu.Unlock()
	switch a.by = by; {
	case status.Code(err) == codes.Unimplemented:
		a.err = fmt.Errorf("it answers, and has no %s", path.Base(methods[0]))
	case err != nil:
		a.err = fmt.Errorf("its answer to %s: %s", path.Base(methods[0]), cri.Reason(err))
	}
	return a
}

// peers are the processes that listened at the socket, at each connection: gRPC may connect again.
type peers []unix.Ucred

// is reports why the answer is not known to be that of the process with this PID, run by root.
func (p peers) is(pid int) error {
	for _, c := range p {
		if pid == 0 || c.Uid != 0 || int(c.Pid) != pid {
			return fmt.Errorf("the process at the socket is PID %d of UID %d, and not the kubelet that runs", c.Pid, c.Uid)
		}
	}
	if len(p) == 0 {
		return errors.New("it is not known which process listens at the socket")
	}
	return nil
}

func dialPeer(ctx context.Context, socket string) (net.Conn, unix.Ucred, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, unix.Ucred{}, err
	}
	cred := &unix.Ucred{}
	if u, ok := c.(*net.UnixConn); ok {
		if raw, rawErr := u.SyscallConn(); rawErr == nil {
			_ = raw.Control(func(fd uintptr) {
				if got, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					cred = got
				}
			})
		}
	}
	return c, *cred, nil // a PID of 0 is no kubelet's
}

// wireCodec hands messages through as they are on the wire: few of their fields are read.
type wireCodec struct{}

func (wireCodec) Name() string { return "proto" }

func (wireCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send %T", v)
	}
	return b, nil
}

func (wireCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// eachField calls do for every field of a message that has a length, and passes over the others.
func eachField(b []byte, do func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := do(number, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
