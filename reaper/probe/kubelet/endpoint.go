package kubelet

import (
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// Sockets decides where to ask: where the operator says; else where the running
// kubelet's own configuration says; else at every usual place that exists, since nothing
// tells which of several runtimes holds a pod.
func (r *Reader) Sockets(usual []string) cri.Sockets {
	if e := r.RuntimeEndpoint; e != "" && e != cri.EndpointAuto {
		return cri.NamedSocket(e, "--runtime-endpoint")
	}
	// Where it is not certain which kubelet runs, every socket must answer for itself.
	if k, err := oneKubelet(r.ProcDir, r.RootDir); err == nil && k != nil {
		endpoint, err := k.runtimeEndpoint()
		if err != nil {
			return cri.Sockets{Err: fmt.Errorf("the kubelet (PID %d) does not show it: %w; %s", k.ID.PID, err, reading.AdviceReadable)}
		}
		if endpoint != "" {
			return k.namedSocket(endpoint)
		}
	}
	found, err := cri.ExistingSockets(usual)
	return cri.Sockets{Paths: found, Tried: usual, Err: err}
}
