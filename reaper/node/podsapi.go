package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// podsAPI is the list of the kubelet's PodsAPI (KEP-4188, on by default since 1.37): all pods of its pod manager, also static
// and completed ones. It only keeps: a pod leaves it while the volume manager may still hold its volumes.
type podsAPI struct {
	source string // "" if the kubelet has no such socket
	pods   map[parsers.PodUID]listedPod
}

type listedPod struct{ listed, static bool }

func (l *podsAPI) fact(uid parsers.PodUID) judge.Fact {
	f := judge.Fact{Truth: judge.No, Source: l.source}
	switch {
	case l.pods[uid].listed:
		f.Truth, f.Alive, f.Detail = judge.Yes, true, "the kubelet lists the pod"
	case l.source == "":
		f.Detail = "the kubelet has no PodsAPI"
	}
	return f
}

// mostList bounds the answer in bytes. The pods of a tenant may be 1.5 MiB each, the limit of etcd.
const mostList = 256 << 20

// askPodsAPI asks for the list. A missing socket, and one at which nothing listens, is no fact.
func (s *Scanner) askPodsAPI(ctx context.Context, kubelet int) (podsAPI, error) {
	path := s.cfg.RootDir + "/pods-api/pods-api.sock"
	var l podsAPI
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, err
	case info.Mode().Type() != fs.ModeSocket:
		return l, fmt.Errorf("%s is no socket", path)
	}
	var peers peerChecker
	conn, err := cri.Connect(path, mostList, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return peers.dial(ctx, path)
	}))
	if err != nil {
		return l, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, s.patience()/2)
	defer cancel()
	answer, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	switch {
	case peers.refused():
		return l, nil
	case status.Code(err) == codes.Unimplemented:
		return l, nil
	case err != nil:
		return l, fmt.Errorf("the kubelet's PodsAPI does not list its pods: %s", cri.Reason(err))
	}
	l.source = "unix://" + path
	if l.pods, err = readListedPods(answer.GetPods()); err != nil {
		return l, err
	}
	return l, peers.check(kubelet)
}

// readListedPods reads UID and source of each pod, a marshalled v1.Pod. The pods that could be read are returned with an
// error.
func readListedPods(list [][]byte) (map[parsers.PodUID]listedPod, error) {
	pods := map[parsers.PodUID]listedPod{}
	var first error
	for _, pod := range list {
		uids, static, err := readListedPod(pod)
		if err == nil && len(uids) == 0 {
			err = errors.New("it has no UID")
		}
		if err != nil && first == nil {
			first = fmt.Errorf("cannot read a pod of the kubelet's PodsAPI: %w", err)
		}
		for _, uid := range uids {
			pods[parsers.PodUID(uid)] = listedPod{true, static}
		}
	}
	return pods, first
}

// readListedPod reads field 1 of v1.Pod, its ObjectMeta: field 5 is the UID, and field 12 an annotation, of which field 1 is
// the key and field 2 the value. The UID of a static pod may be in an annotation alone; in that of another pod a user may have
// put any (cri.PodNames).
func readListedPod(pod []byte) (uids []string, static bool, err error) {
	hash := ""
	err = eachField(pod, func(number protowire.Number, meta []byte) error {
		if number != 1 {
			return nil
		}
		return eachField(meta, func(number protowire.Number, value []byte) error {
			switch int32(number) {
			case 5:
				uids = append(uids, string(value))
			case 12:
				var pair [2]string
				err := eachField(value, func(number protowire.Number, text []byte) error {
					if number == 1 || number == 2 {
						pair[number-1] = string(text)
					}
					return nil
				})
				if err != nil {
					return err
				}
				switch pair[0] {
				case cri.AnnotationSource:
					static = cri.IsStatic(pair[1])
				case cri.AnnotationHash:
					hash = pair[1]
				}
			}
			return nil
		})
	})
	if static {
		uids = append(uids, hash)
	}
	return cri.Distinct(uids...), static, err
}

// eachField calls do for every length-delimited field of a message, and skips the others.
func eachField(b []byte, do func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			if err := do(number, value); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// peerChecker remembers which processes listened at a socket: gRPC may connect again.
type peerChecker struct {
	mu    sync.Mutex
	peers []unix.Ucred
	err   error // of the last dial
}

func (p *peerChecker) dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err != nil {
		return nil, err
	}
	cred := unix.Ucred{}
	if raw, err := c.(*net.UnixConn).SyscallConn(); err == nil { //nolint:forcetypeassert // the network is unix
		_ = raw.Control(func(fd uintptr) { // it fails for a closed connection only
			if got, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				cred = *got
			}
		})
	}
	p.peers = append(p.peers, cred)
	return c, nil
}

// refused reports whether nothing listens at the socket: the kubelet has ended.
func (p *peerChecker) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers) == 0 && (errors.Is(p.err, unix.ECONNREFUSED) || fdpath.Gone(p.err))
}

// check returns nil if all peers are the kubelet, run by root (SO_PEERCRED of unix(7)).
func (p *peerChecker) check(kubelet int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.peers {
		if kubelet == 0 || c.Uid != 0 || int(c.Pid) != kubelet {
			return fmt.Errorf("the process at the kubelet's PodsAPI is PID %d of user %d, and not the running kubelet", c.Pid, c.Uid)
		}
	}
	return nil
}
