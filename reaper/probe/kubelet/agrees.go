package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// settings are what is compared with the kubelets that run.
func (r *Reader) settings() reading.Settings {
	s := reading.Settings{Waive: r.Waive, RootDir: r.RootDir, RootDirSet: r.RootDirSet}
	if e := r.RuntimeEndpoint; e != cri.EndpointAuto && e != cri.EndpointNone {
		s.Endpoint = e
	}
	return s
}

// compared is what settings are compared with. The socket is asked only where they have one.
func compared(ks []*Kubelet, s reading.Settings) []reading.Kubelet {
	all := make([]reading.Kubelet, len(ks))
	for i, k := range ks {
		all[i] = reading.Kubelet{Words: k.String(), PID: k.ID.PID, Hidden: k.hidden, Apart: k.files.apart}
		if s.Endpoint != "" {
			all[i].Endpoint = k.compareEndpoint(s.Endpoint)
		}
	}
	return all
}

// agrees reports whether what the operator set agrees with the kubelets that were found: a wrong root directory or socket
// makes facts of another node. doubt is why there may be more kubelets.
func (r *Reader) agrees(ks kubelets, doubt error) (agrees policy.Fact, moved bool) {
	s := r.settings()
	others := compared(ks.others, reading.Settings{}) // the socket of another kubelet does not matter
	if r.Waive || doubt != nil {
		return s.Agree(r.ProcDir, nil, others, doubt), false
	}
	ours := compared(ks.ours, s)
	return s.Agree(r.ProcDir, ours, others, nil), s.Moved(ours, others)
}

// compareEndpoint returns the kubelet's endpoint of the runtime, and whether that is ours.
func (k *Kubelet) compareEndpoint(ours string) (e reading.Endpoint) {
	theirs, err := k.endpoint()
	if err != nil || theirs == "" {
		e.Err = err
		return e
	}
	e.Told = clean.Name(theirs)
	e.Same, e.Err = k.sameSocket(theirs, ours)
	return e
}

// sameSocket reports whether two endpoints are the same socket: by path, as where the runtime
// is down, or by what lies there, as where one path leads through a symlink.
func (k *Kubelet) sameSocket(theirs, ours string) (bool, error) {
	a, okA := cri.SocketPath(theirs)
	b, okB := cri.SocketPath(ours)
	if !okA || !okB {
		return false, nil // the kubelet's is no socket of this machine (tcp, npipe)
	}
	if !k.files.apart && k.files.err == nil && filepath.Clean(a) == filepath.Clean(b) {
		return true, nil
	}
	if same, err := k.sameFile(a, b); err != nil || same {
		return same, err
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false, nil
	}
	// The runtime is down and has taken its socket along, or it is another one.
	return k.sameFile(filepath.Dir(a), filepath.Dir(b))
}

// namedSocket is the kubelet's configured socket. If it sees other files than we, the path must lead to the same socket
// here. A container has /run/crio, and no link /var/run to it: then the usual place with the kubelet's socket is asked.
func (k *Kubelet) namedSocket(endpoint string, usual []string) cri.Sockets {
	from := fmt.Sprintf("the kubelet (PID %d)", k.ID.PID)
	s := cri.NamedSocket(endpoint, from)
	if !k.files.apart && k.files.err == nil {
		return s
	}
	path, ok := cri.SocketPath(endpoint)
	if !ok {
		return s
	}
	same, err := k.sameFile(path, path)
	switch {
	case err == nil && same:
		return s
	case err == nil && !errors.Is(s.Err, fs.ErrNotExist):
		err = errors.New("the kubelet has a mount namespace of its own, where that is another socket than here; " +
			"set --runtime-endpoint to where it is here")
	case err == nil:
		for _, here := range usual {
			if same, err := k.sameFile(path, here); err == nil && same {
				return cri.NamedSocket(here, from)
			}
		}
		if _, err := k.files.stat(path); err != nil {
			return s // the runtime is down
		}
		err = errors.New("the kubelet sees it, and this process does not; in a container, mount its directory: host.runtime of the chart")
	}
	s.Err = s.Explain(path, err)
	return s
}

// Sockets decides where to ask: at the operator's socket; else at that of the running kubelet's configuration; else at every
// usual place that exists, since any of several runtimes may have a pod.
func (r *Reader) Sockets(usual []string) cri.Sockets {
	if e := r.RuntimeEndpoint; e != "" && e != cri.EndpointAuto {
		return cri.NamedSocket(e, "--runtime-endpoint")
	}
	// Where it is not certain which kubelet runs, every socket must answer for itself.
	if k, err := oneKubelet(r.ProcDir, r.RootDir); err == nil && k != nil {
		endpoint, err := k.endpoint()
		if err != nil {
			return cri.Sockets{Err: fmt.Errorf("the kubelet (PID %d) does not show it: %w; %s", k.ID.PID, err, reading.AdviceReadable)}
		}
		if endpoint != "" {
			return k.namedSocket(endpoint, usual)
		}
	}
	found, err := cri.ExistingSockets(usual)
	return cri.Sockets{Paths: found, Tried: usual, Err: err}
}

// CheckWaived returns an error if there is a kubelet with this root directory, or a runtime at one of the sockets. It asks
// once, at the start, and in doubt refuses.
//
// A socket that refuses the connection (ECONNREFUSED) is no reason: nothing listens, and the file is what a runtime left
// when it was killed or uninstalled. A runtime that is down could come back, but its kubelet runs on meanwhile and is found.
func CheckWaived(ctx context.Context, procDir, rootDir string, sockets []string) error {
	err, hung := bounded.Do(ctx, new(bounded.Guard), "waived", func() error {
		if err := noKubelet(procDir, rootDir); err != nil {
			return err
		}
		for _, path := range sockets {
			if err := notListening(ctx, path); err != nil {
				return err
			}
		}
		return nil
	})
	if hung != nil {
		err = fmt.Errorf("cannot find out whether a kubelet or a runtime is here: %w", hung)
	}
	if err != nil {
		return fmt.Errorf("--runtime-endpoint none is refused: %w", err)
	}
	return nil
}

func noKubelet(procDir, rootDir string) error {
	ks, err := scanner{procDir: procDir, thorough: true}.find(rootDir)
	if err != nil {
		return fmt.Errorf("cannot find out whether a kubelet runs: %w", err)
	}
	if len(ks.ours) > 0 {
		return fmt.Errorf("a kubelet runs here: %s", ks.ours[0])
	}
	return nil
}

func notListening(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("cannot find out whether a runtime is here: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil // nothing can listen there
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("cannot find out whether a runtime is here: %w", err)
	}
	_ = conn.Close() // nothing was sent
	return fmt.Errorf("a runtime listens at %s", path)
}
