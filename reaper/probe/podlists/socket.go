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

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// The limits of an answer. The kubelet's own is 16 MiB, and 500 pods with devices need some 100 KiB.
const (
	maxAnswer = 16 << 20
	mostPods  = 16384
)

// socketAnswer is a message from a socket, with the processes that listened there.
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
		a.err = fmt.Errorf("%s is not a socket", socket)
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
	_ = conn.Close()
	mu.Lock()
	defer mu.Unlock()
	switch a.by = by; {
	case status.Code(err) == codes.Unimplemented:
		a.err = fmt.Errorf("it has no method %s", path.Base(methods[0]))
	case err != nil:
		a.err = fmt.Errorf("its answer to %s: %s", path.Base(methods[0]), cri.Reason(err))
	}
	return a
}

// peers are the processes that listened at the socket, one for each connection: gRPC may connect again.
type peers []unix.Ucred

// check returns nil if all peers are the process pid, run by root. A pid of 0 is unknown.
func (p peers) check(pid int) error {
	for _, c := range p {
		if pid == 0 || c.Uid != 0 || int(c.Pid) != pid {
			return fmt.Errorf("the process at the socket is PID %d of UID %d, not the running kubelet", c.Pid, c.Uid)
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
	return c, *cred, nil // a PID of 0 is unknown
}

// wireCodec leaves messages encoded: only a few of their fields are read.
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

// eachField calls do for every length-delimited field of a message, and skips the others.
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

const (
	listPods     = "/v1alpha1.Pods/ListPods"
	podsAPIEntry = "pods-api/pods-api.sock"
	longestUID   = 255 // as a directory's name
)

// PodsAPI requests the list of the kubelet's PodsAPI (KEP-4188, enabled since 1.37). Root needs no credentials. It
// lists all pods of the pod manager with their UIDs, also static and completed ones, once all sources are ready.
// pid is the kubelet's, 0 if unknown.
func (r *Reader) PodsAPI(ctx context.Context, pid int) reading.PodsAPI {
	path := filepath.Join(r.RootDir, podsAPIEntry)
	l := reading.PodsAPI{Origin: "unix://" + path}
	if r.Waive {
		l.Silent = "not asked: --runtime-endpoint none"
		return l
	}
	a := r.askSocket(ctx, "pods-api", podsAPIEntry, listPods)
	if a.err != nil {
		l.Silent = clean.Name(a.err.Error())
		return l
	}
	var err error
	l.Pods, l.Listed, err = readPodsAPI(a.text)
	if err = cmp.Or(err, a.by.check(pid)); err != nil {
		l.Doubt = clean.Name(err.Error())
	}
	return l
}

// readPodsAPI reads ListPodsResponse: field 1 is a v1.Pod, marshalled, its field 1 the ObjectMeta, of
// which field 5 is the UID. The pods that could be read are returned with the error.
func readPodsAPI(text []byte) (uids map[parsers.PodUID]bool, listed int, doubt error) {
	uids = map[parsers.PodUID]bool{}
	err := eachField(text, func(number protowire.Number, pod []byte) error {
		if number != 1 {
			doubt = errors.New("its answer has an unknown field")
			return nil
		}
		if listed++; listed > mostPods {
			return fmt.Errorf("it lists more than %d pods", mostPods)
		}
		named := false
		err := eachField(pod, func(number protowire.Number, meta []byte) error {
			if number != 1 {
				return nil
			}
			return eachField(meta, func(number protowire.Number, uid []byte) error {
				if number == 5 && len(uid) > 0 && len(uid) <= longestUID {
					uids[parsers.PodUID(uid)], named = true, true
				}
				return nil
			})
		})
		if err != nil {
			doubt = fmt.Errorf("cannot read a pod of its answer: %w", err)
		} else if !named {
			doubt = errors.New("it lists a pod without a UID")
		}
		return nil
	})
	switch {
	case err != nil:
		doubt = fmt.Errorf("cannot read its answer: %w", err)
	case doubt == nil && listed == 0:
		doubt = errors.New("it lists no pod")
	}
	return uids, listed, doubt
}
