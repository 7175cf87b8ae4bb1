package probe

import (
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// findSockets decides where to ask: where the operator says; else where the running
// kubelet's own configuration says; else at every usual place that exists, since nothing
// tells which of several runtimes holds a pod.
func (p *Probe) findSockets(usual []string) cri.Sockets {
	if e := p.cfg.RuntimeEndpoint; e != "" && e != cri.EndpointAuto {
		return cri.NamedSocket(e, "--runtime-endpoint")
	}
	// Where it is not certain which kubelet runs, every socket must answer for itself.
	if k, err := oneKubelet(p.cfg.ProcDir, p.cfg.RootDir); err == nil && k != nil {
		endpoint, err := k.runtimeEndpoint()
		if err != nil {
			return cri.Sockets{Err: fmt.Errorf("the kubelet (PID %d) does not tell: %w; %s", k.id.PID, err, adviceReadable)}
		}
		if endpoint != "" {
			return k.namedSocket(endpoint)
		}
	}
	found, err := cri.ExistingSockets(usual)
	return cri.Sockets{Paths: found, Tried: usual, Err: err}
}
