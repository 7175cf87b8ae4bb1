package look

import (
	"context"
	"encoding/json"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

// statusTime bounds the answer about one sandbox, so that one that hangs does not use up the time of the others.
const statusTime = 2 * time.Second

// sandboxNetns asks for the network namespaces of some sandboxes, which are given with their
// sockets, by PodSandboxStatus with its verbose flag. A sandbox without an answer within the
// patience is left out; "" is a sandbox without a namespace of its own, as with hostNetwork.
func (r *Reader) sandboxNetns(ctx context.Context, ids map[string]string) map[string]string {
	bySocket := map[string][]string{}
	for id, socket := range ids {
		bySocket[socket] = append(bySocket[socket], id)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Guard.Limit())
	defer cancel()
	found := map[string]string{}
	for socket, ids := range bySocket {
		conn, err := cri.Dial(socket, statusTime, cri.MaxVerbose)
		if err != nil {
			continue
		}
		for _, id := range ids {
			var st runtimeapi.PodSandboxStatusResponse
			err := conn.Call(ctx, "PodSandboxStatus", &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true}, &st)
			if err != nil || st.GetStatus().GetId() != id { // runtimes accept the beginning of an ID, too
				continue
			}
			if path, ok := netnsInInfo(st.GetInfo()["info"]); ok {
				found[id] = path
			}
		}
		conn.Close()
	}
	return found
}

// netnsInInfo reads the namespace from what containerd (since 1.0) and CRI-O (since 1.19) add
// to the verbose status of a sandbox: the OCI specification of its first container.
//
//	{"pid":812,"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"},{"type":"network","path":"/var/run/netns/cni-…"}]}}}
func netnsInInfo(info string) (path string, ok bool) {
	var v struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if json.Unmarshal([]byte(info), &v) != nil || len(v.RuntimeSpec.Linux.Namespaces) == 0 {
		return "", false
	}
	for _, n := range v.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" {
			if n.Path == "" { // made by the OCI runtime itself: a process is in it
				return "", false
			}
			return n.Path, true
		}
	}
	return "", true
}
