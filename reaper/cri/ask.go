package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Answer is the answer at one socket.
type Answer struct {
	Lists
	Absent bool  // no runtime listens there
	Err    error // why the answer is not complete
}

// Ask asks all runtimes at the endpoints, or, if there are none, at each of the usual sockets that connects. A socket that
// connects and gives no complete answer has an error, also beside one that answers: the kubelet may use either. A gRPC
// server without CRI is no runtime. limit is for each of the up to four calls at one socket.
func Ask(ctx context.Context, endpoints, usual []string, limit time.Duration) ([]Answer, error) {
	paths, err := socketsOf(endpoints, usual)
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { answers[i] = ask(ctx, path, len(endpoints) > 0, limit) })
	}
	wg.Wait()
	return answers, nil
}

func socketsOf(endpoints, usual []string) ([]string, error) {
	if len(endpoints) == 0 {
		return ExistingSockets(usual)
	}
	var paths []string
	for _, endpoint := range endpoints {
		path, ok := SocketPath(endpoint)
		if !ok {
			return nil, fmt.Errorf("the runtime endpoint %q is not unix:///PATH", endpoint)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func ask(ctx context.Context, path string, set bool, limit time.Duration) Answer {
	dial, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(dial, "unix", path)
	if err != nil {
		absent := !set && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED))
		return Answer{Absent: absent, Err: fmt.Errorf("cannot connect to the runtime at %s: %s", path, err.Error())}
	}
	_ = c.Close()
	a := Answer{Lists: List(ctx, path, limit, MaxAnswer)}
	switch {
	case a.NoCRI && !set:
		a.Absent = true
	case a.SandboxErr != nil:
		a.Err = a.SandboxErr
	case a.ContainerErr != nil:
		a.Err = a.ContainerErr
	}
	if a.Err != nil {
		a.Err = fmt.Errorf("cannot ask the runtime at %s: %w; if it is not the kubelet's, set runtime_endpoints", path, a.Err)
	}
	return a
}
