package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// usualSockets are the sockets of the runtimes of common distributions.
var usualSockets = []string{
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/k3s/containerd/containerd.sock", // k3s and rke2
	"/run/k0s/containerd.sock",
	"/var/snap/microk8s/common/run/containerd.sock",
	"/run/cri-dockerd.sock",
	"/run/cri-dockerd/cri-dockerd.sock",
	"/run/k3s/cri-dockerd/cri-dockerd.sock",
	// Usually the same as those in /run, unless /var/run is a separate directory.
	"/var/run/containerd/containerd.sock",
	"/var/run/crio/crio.sock",
	"/var/run/cri-dockerd.sock",
	"/var/run/dockershim.sock", // the kubelet itself, before 1.24
	"/run/dockershim.sock",
}

// The words of --runtime-endpoint that are no address.
const (
	EndpointAuto = "auto"
	EndpointNone = "none"
)

// UsualSockets returns the usual sockets of CRI runtimes, below nodeRoot.
func UsualSockets(nodeRoot string) []string {
	all := make([]string, len(usualSockets))
	for i, path := range usualSockets {
		all[i] = filepath.Join("/", nodeRoot, path)
	}
	return all
}

// Sockets are the sockets of runtimes on this node.
type Sockets struct {
	Paths []string
	// Named is true if an operator or the kubelet's configuration named the socket. It must then speak CRI.
	Named bool
	From  string   // the source of the name, for messages
	Tried []string // the usual sockets, if none was named
	Err   error
}

// AdviceSet is the advice about a wrong socket.
const AdviceSet = "if it is not the kubelet's, set --runtime-endpoint"

// Explain adds to an error of one socket what an operator can do about it.
func (s Sockets) Explain(path string, err error) error {
	if s.Named {
		return fmt.Errorf("cannot ask the runtime at %s, named by %s: %w", path, s.From, err)
	}
	return fmt.Errorf("cannot ask the runtime at %s: %w; set --runtime-endpoint to the kubelet's runtime, "+
		"or remove the socket if nothing serves it", path, err)
}

// Nobody returns the error for a node without any socket.
func (s Sockets) Nobody() error {
	tried, more := s.Tried, ""
	if n := len(tried) - 3; n > 0 {
		tried, more = tried[:3], fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("no CRI socket found at %s%s; set --runtime-endpoint", strings.Join(tried, ", "), more)
}

// SocketPath returns the path of an endpoint. As for the kubelet, that is a URL or a bare path.
func SocketPath(endpoint string) (path string, ok bool) {
	path, ok = strings.CutPrefix(endpoint, "unix://")
	if !ok {
		path = strings.TrimPrefix(endpoint, "unix:")
	}
	return path, strings.HasPrefix(path, "/")
}

// NamedSocket returns the socket of a named endpoint. from is the source of the name.
func NamedSocket(endpoint, from string) Sockets {
	path, ok := SocketPath(endpoint)
	if !ok {
		return Sockets{Err: fmt.Errorf("%q, named by %s, is not unix:///PATH", endpoint, from)}
	}
	s := Sockets{Paths: []string{path}, Named: true, From: from}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		s.Err = s.Explain(path, err)
	case info.Mode().Type() != fs.ModeSocket:
		// The error of connect(2), "connection refused", would suggest a runtime that is down.
		s.Err = s.Explain(path, errors.New("it is no socket"))
	}
	return s
}

// ExistingSockets returns the paths that are sockets, and each socket once even if it has several paths. It skips other files:
// nothing can listen there, and a container engine makes a directory if it bind-mounts a socket that does not exist yet. A path
// that cannot be read is an error.
func ExistingSockets(paths []string) ([]string, error) {
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
