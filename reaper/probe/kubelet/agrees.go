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

// settings returns the settings to compare with the running kubelets.
func (r *Reader) settings() reading.Settings {
	s := reading.Settings{Waive: r.Waive, RootDir: r.RootDir, RootDirSet: r.RootDirSet}
	if e := r.RuntimeEndpoint; e != cri.EndpointAuto && e != cri.EndpointNone {
		s.Endpoint = e
	}
	return s
}

// comparedKubelets returns the kubelets in the form that settings are compared with.
func comparedKubelets(ks []*Kubelet, s reading.Settings) []reading.Kubelet {
	all := make([]reading.Kubelet, len(ks))
	for i, k := range ks {
		all[i] = reading.Kubelet{Words: k.String(), PID: k.ID.PID, Hidden: k.hidden, Apart: k.files.apart}
		if s.Endpoint != "" {
			all[i].Endpoint = k.compareEndpoint(s.Endpoint)
		}
	}
	return all
}

// agrees reports whether the settings agree with the kubelets that were found: with a wrong root directory or socket the
// facts would be those of another node. doubt is why there may be more kubelets. moved is that of Answer.Moved.
func (r *Reader) agrees(ks kubelets, doubt error) (agrees policy.Fact, moved bool) {
	s := r.settings()
	others := comparedKubelets(ks.others, reading.Settings{}) // the socket of another kubelet does not matter
	if r.Waive || doubt != nil {
		return s.Agree(r.ProcDir, nil, others, doubt), false
	}
	ours := comparedKubelets(ks.ours, s)
	return s.Agree(r.ProcDir, ours, others, nil), s.Moved(ours, others)
}

// compareEndpoint returns the kubelet's endpoint of the runtime, and whether it is the same as ours.
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

// sameSocket reports whether two endpoints are the same socket: by path, or by the file, since one path may
// lead through a symlink.
func (k *Kubelet) sameSocket(theirs, ours string) (bool, error) {
	a, okA := cri.SocketPath(theirs)
	b, okB := cri.SocketPath(ours)
	if !okA || !okB {
		return false, nil // not a Unix socket (tcp, npipe)
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
	// The runtime may be down and have removed its socket.
	return k.sameFile(filepath.Dir(a), filepath.Dir(b))
}

// namedSocket returns the kubelet's configured socket. If the kubelet has another mount namespace, the path must lead to the
// same socket here. A container may have /run/crio and no link /var/run, so the usual places are compared, too.
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
		err = errors.New("the kubelet has a mount namespace of its own, where this path is another socket than here; " +
			"set --runtime-endpoint to the socket's path here")
	case err == nil:
		for _, here := range usual {
			if same, err := k.sameFile(path, here); err == nil && same {
				return cri.NamedSocket(here, from)
			}
		}
		if _, err := k.files.stat(path); err != nil {
			return s // the runtime is down
		}
		err = errors.New("the kubelet sees it, but this process does not; in a container, mount its directory: host.runtime of the chart")
	}
	s.Err = s.Explain(path, err)
	return s
}

// Sockets returns the sockets of runtimes to ask: the operator's; else that of the running kubelet's configuration; else all
// usual ones that exist, since any of several runtimes may have a pod.
func (r *Reader) Sockets(usual []string) cri.Sockets {
	if e := r.RuntimeEndpoint; e != "" && e != cri.EndpointAuto {
		return cri.NamedSocket(e, "--runtime-endpoint")
	}
	if k, err := oneKubelet(r.ProcDir, r.RootDir); err == nil && k != nil {
		endpoint, err := k.endpoint()
		if err != nil {
			err = fmt.Errorf("cannot read the configuration of the kubelet (PID %d): %w; %s", k.ID.PID, err, reading.AdviceReadable)
			return cri.Sockets{Err: err}
		}
		if endpoint != "" {
			return k.namedSocket(endpoint, usual)
		}
	}
	found, err := cri.ExistingSockets(usual)
	return cri.Sockets{Paths: found, Tried: usual, Err: err}
}

// CheckWaived returns an error if there is, or may be, a kubelet with this root directory or a runtime at one of the sockets.
//
// At a socket that refuses the connection (ECONNREFUSED) nothing listens: a runtime that was killed or uninstalled has left
// the file. If the runtime is only down, its kubelet still runs and is found.
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
