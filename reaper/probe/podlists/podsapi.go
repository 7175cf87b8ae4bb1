package podlists

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
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
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
)

// The kubelet's PodsAPI (KEP-4188, on since 1.37) lists to root, without credentials, all pods of its
// pod manager with their UIDs, static and completed ones too. It has no list until all sources are ready.
const (
	listPods     = "/v1alpha1.Pods/ListPods"
	podsAPIEntry = "pods-api/pods-api.sock"
	longestUID   = 255 // as a directory's name
)

// PodsAPI asks the kubelet of this PID, 0 where none is known, once.
func (r *Reader) PodsAPI(ctx context.Context, pid int) lists.PodsAPI {
	path := filepath.Join(r.RootDir, podsAPIEntry)
	l := lists.PodsAPI{Origin: "unix://" + path}
	if r.Waive {
		l.Silent = "not asked: --runtime-endpoint none"
		return l
	}
	text, err := bounded.Do(ctx, r.Guard, "pods-api", func() podsText { return r.askPodsAPI(ctx, path) })
	if err == nil {
		err = text.err
	}
	if err != nil {
		l.Silent = clean.Name(err.Error())
		return l
	}
	l.Pods, l.Listed, err = readPodsAPI(text.bytes)
	if err == nil {
		err = text.by.is(pid)
	}
	if err != nil {
		l.Doubt = clean.Name(err.Error())
	}
	return l
}

type podsText struct {
	listText
	by peers
}

func (r *Reader) askPodsAPI(ctx context.Context, path string) (a podsText) {
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		a.err = errors.New("the kubelet has no such socket")
		return a
	} else if err != nil {
		a.err = err
		return a
	} else if info.Mode()&fs.ModeSocket == 0 {
		a.err = fmt.Errorf("%s is no socket", path)
		return a
	}
	var mu sync.Mutex
	var by peers
	conn, err := cri.Connect(path, maxPodResources, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		c, p, err := dialPeer(ctx, path)
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
	err = conn.Invoke(ctx, listPods, []byte{}, &a.bytes, grpc.ForceCodec(wireCodec{}))
	_ = conn.Close() // nothing was sent that could be lost
	mu.Lock()
	defer mu.Unlock()
	switch a.by = by; {
	case status.Code(err) == codes.Unimplemented:
		a.err = errors.New("it answers, and has no ListPods")
	case err != nil:
		a.err = fmt.Errorf("its answer to ListPods: %s", cri.Reason(err))
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

func dialPeer(ctx context.Context, path string) (net.Conn, unix.Ucred, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
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

// readPodsAPI reads ListPodsResponse: field 1 is a v1.Pod, marshalled, its field 1 the ObjectMeta, of
// which field 5 is the UID. The pods that could be read are returned with the error.
func readPodsAPI(text []byte) (uids map[parsers.PodUID]bool, listed int, doubt error) {
	uids = map[parsers.PodUID]bool{}
	err := eachField(text, func(number protowire.Number, pod []byte) error {
		if number != 1 {
			doubt = errors.New("its answer has more than pods")
			return nil
		}
		if listed++; listed > mostPodResources {
			return fmt.Errorf("it lists more than %d pods", mostPodResources)
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
