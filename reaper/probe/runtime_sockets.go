package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// usualSockets are the places where the runtimes of the common distributions listen.
var usualSockets = []string{
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/k3s/containerd/containerd.sock", // k3s and rke2
	"/run/k0s/containerd.sock",
	"/var/snap/microk8s/common/run/containerd.sock",
	"/run/cri-dockerd.sock",
	"/run/cri-dockerd/cri-dockerd.sock",
	"/run/k3s/cri-dockerd/cri-dockerd.sock",
	// Usually the same as those in /run; where /var/run is a directory of its own, not.
	"/var/run/containerd/containerd.sock",
	"/var/run/crio/crio.sock",
	"/var/run/cri-dockerd.sock",
	"/var/run/dockershim.sock", // the kubelet itself, before 1.24
	"/run/dockershim.sock",
}

// sockets says where to ask.
type sockets struct {
	paths []string
	// named says that somebody chose the socket: the operator or the kubelet's own
	// configuration. It must then be a CRI.
	named bool
	from  string   // who named it, for people
	tried []string // the usual places, where none was named
	err   error
}

// explain adds to an error of one socket what can be done about it.
func (s sockets) explain(path string, err error) error {
	if s.named {
		return fmt.Errorf("cannot ask the runtime at %s, named by %s: %w", path, s.from, err)
	}
	return fmt.Errorf("cannot ask the runtime at %s: %w; set --runtime-endpoint to the kubelet's runtime, "+
		"or remove the socket if nothing serves it", path, err)
}

// nobody is the error where no place was left to ask.
func (s sockets) nobody() error {
	tried, more := s.tried, ""
	if n := len(tried) - 3; n > 0 {
		tried, more = tried[:3], fmt.Sprintf(" and %d more usual places", n)
	}
	return fmt.Errorf("no CRI socket found at %s%s; set --runtime-endpoint", strings.Join(tried, ", "), more)
}

// findSockets decides where to ask: where the operator says; else where the running
// kubelet's own configuration says; else at every usual place that exists, since nothing
// tells which of several runtimes holds a pod.
func (p *Probe) findSockets(usual []string) sockets {
	if e := p.cfg.RuntimeEndpoint; e != "" && e != endpointAuto {
		return namedSocket(e, "--runtime-endpoint")
	}
	// Where it is not certain which kubelet runs, every socket must answer for itself.
	if k, err := oneKubelet(p.cfg.ProcDir, p.cfg.RootDir); err == nil && k != nil {
		endpoint, err := k.runtimeEndpoint()
		if err != nil {
			return sockets{err: fmt.Errorf("the kubelet (PID %d) does not tell: %w; %s", k.id.PID, err, adviceReadable)}
		}
		if endpoint != "" {
			return k.namedSocket(endpoint)
		}
	}
	found, err := existingSockets(usual)
	return sockets{paths: found, tried: usual, err: err}
}

// namedSocket is the socket that the kubelet was told to use. Where it sees other files
// than we, the path must lead to the same socket here.
func (k kubelet) namedSocket(endpoint string) sockets {
	from := fmt.Sprintf("the kubelet (PID %d)", k.id.PID)
	s := namedSocket(endpoint, from)
	if s.err != nil || !k.files.apart && k.files.err == nil {
		return s
	}
	same, err := k.sameFile(s.paths[0], s.paths[0])
	if err == nil && !same {
		err = errors.New("the kubelet has a mount namespace of its own, where that is another socket than here; " +
			"set --runtime-endpoint to where it is here")
	}
	if err != nil {
		s.err = s.explain(s.paths[0], err)
	}
	return s
}

// socketPath reads an endpoint as the kubelet does: a URL, or a bare path.
func socketPath(endpoint string) (path string, ok bool) {
	path, ok = strings.CutPrefix(endpoint, "unix://")
	if !ok {
		path = strings.TrimPrefix(endpoint, "unix:")
	}
	return path, strings.HasPrefix(path, "/")
}

func namedSocket(endpoint, from string) sockets {
	path, ok := socketPath(endpoint)
	if !ok {
		return sockets{err: fmt.Errorf("%q, named by %s, is no unix:///PATH", endpoint, from)}
	}
	s := sockets{paths: []string{path}, named: true, from: from}
	var st unix.Stat_t
	err := beneath.Uninterrupted(func() error { return unix.Stat(path, &st) })
	switch {
	case err != nil:
		s.err = s.explain(path, beneath.PathError("stat", path, err))
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		// connect(2) would say "connection refused", which sends people looking for a
		// runtime that is down.
		s.err = s.explain(path, fmt.Errorf("it is %s, no socket", beneath.TypeName(uint16(st.Mode))))
	}
	return s
}

// existingSockets returns those of the paths that are sockets, each socket once though it
// may be reached by several paths. What is no socket is left out: nothing can listen
// there, and container engines leave a directory wherever somebody bind-mounted a socket
// that was not there yet. A path that cannot be looked at is an error.
func existingSockets(paths []string) ([]string, error) {
	var found []string
	var infos []fs.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			continue
		case err != nil:
			return nil, fmt.Errorf("%w; set --runtime-endpoint", err)
		}
		same := func(other fs.FileInfo) bool { return os.SameFile(info, other) }
		if info.Mode().Type() != fs.ModeSocket || slices.ContainsFunc(infos, same) {
			continue
		}
		found, infos = append(found, path), append(infos, info)
	}
	return found, nil
}
