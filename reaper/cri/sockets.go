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

// UsualSockets returns the usual sockets of CRI runtimes, below nodeRoot.
func UsualSockets(nodeRoot string) []string {
	all := make([]string, len(usualSockets))
	for i, path := range usualSockets {
		all[i] = filepath.Join("/", nodeRoot, path)
	}
	return all
}

// SocketPath returns the path of an endpoint. As for the kubelet, that is a URL or a bare path.
func SocketPath(endpoint string) (path string, ok bool) {
	path, ok = strings.CutPrefix(endpoint, "unix://")
	if !ok {
		path = strings.TrimPrefix(endpoint, "unix:")
	}
	return path, strings.HasPrefix(path, "/")
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
