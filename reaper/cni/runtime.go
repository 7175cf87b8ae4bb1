package cni

import (
	"context"
	"errors"
	"net/netip"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

const (
	callTime = 10 * time.Second // bounds one call to a runtime
	// statusTime bounds all questions for the addresses of living sandboxes.
	statusTime = 5 * time.Second
)

// sandboxes is what all runtimes list. They are asked after the files were listed: a sandbox whose file was seen is in the
// answers, unless it is being made.
type sandboxes struct {
	ready map[sandboxID]bool // true if it is ready, or a container of it has not exited; false if it is listed
	paths map[sandboxID]string
}

var errNoRuntime = errors.New("no container runtime answers at a usual socket; set runtime_endpoints")

// askRuntimes returns what the runtimes list. With an error that is not complete.
func (s *Sweeper) askRuntimes(ctx context.Context) (sandboxes, error) {
	boxes := sandboxes{ready: map[sandboxID]bool{}, paths: map[sandboxID]string{}}
	answers, err := cri.Ask(ctx, s.cfg.Endpoints, s.cfg.Sockets, s.callTime)
	if err != nil {
		return boxes, err
	}
	answered := false
	for _, a := range answers {
		if a.Absent {
			continue
		}
		answered = true
		if a.Err != nil {
			return boxes, a.Err
		}
		for _, b := range a.Sandboxes {
			boxes.add(a.Path, b.GetId(), b.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY)
		}
		for _, c := range a.Containers {
			boxes.add(a.Path, c.GetPodSandboxId(), c.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED)
		}
	}
	if !answered {
		return boxes, errNoRuntime
	}
	return boxes, nil
}

func (b *sandboxes) add(path, name string, ready bool) {
	if id, ok := parseID(name); ok {
		b.ready[id] = b.ready[id] || ready
		b.paths[id] = path
	}
}

// addresses returns the addresses of all ready sandboxes. With an error some are missing.
func (b *sandboxes) addresses(ctx context.Context) (map[netip.Addr]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	found := map[netip.Addr]bool{}
	conns := map[string]*cri.Conn{}
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for id, ready := range b.ready {
		if !ready {
			continue
		}
		conn := conns[b.paths[id]]
		if conn == nil {
			var err error
			if conn, err = cri.Dial(b.paths[id], statusTime, cri.MaxVerbose); err != nil {
				return found, err
			}
			conns[b.paths[id]] = conn
		}
		var st runtimeapi.PodSandboxStatusResponse
		if err := conn.Call(ctx, "PodSandboxStatus", &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id.String()}, &st); err != nil {
			return found, err
		}
		ips := []string{st.GetStatus().GetNetwork().GetIp()}
		for _, more := range st.GetStatus().GetNetwork().GetAdditionalIps() {
			ips = append(ips, more.GetIp())
		}
		for _, ip := range ips {
			if a, err := netip.ParseAddr(ip); err == nil {
				found[a.Unmap()] = true
			}
		}
	}
	return found, nil
}
