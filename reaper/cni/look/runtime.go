package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
)

// runtimeIDs holds the full IDs that the runtimes list, with or without a pod: any sandbox may have an address.
type runtimeIDs struct {
	ids map[string]listedID
	// lists is Node.RuntimeLists. It is Yes if each runtime has listed all sandboxes and containers in time, and there
	// is at least one pod's sandbox.
	lists  policy.Fact
	origin string
	err    error
	// paths are the sockets that answered, and versions the known versions of their runtimes.
	paths    []string
	versions map[string]string
}

type listedID struct {
	text    string // for messages
	ready   policy.Truth
	path    string // of the socket that lists it
	sandbox bool
}

func listedIDs(a probe.Containers) runtimeIDs {
	if a.Unasked != nil {
		return runtimeIDs{lists: policy.Fact{Detail: a.Unasked.Error()}}
	}
	return mergeIDs(a.Lists, a.Sockets)
}

func mergeIDs(answers []cri.Lists, found cri.Sockets) runtimeIDs {
	r := runtimeIDs{ids: map[string]listedID{}, versions: map[string]string{}}
	var origins []string
	var errs []error
	pods := 0
	for _, a := range answers {
		if a.NoCRI && !found.Named {
			continue
		}
		origins = append(origins, "unix://"+a.Path)
		r.paths = append(r.paths, a.Path)
		for _, err := range [...]error{a.SandboxErr, a.ContainerErr} {
			if err != nil {
				errs = append(errs, found.Explain(a.Path, err))
			}
		}
		pods += r.add(a)
	}
	if len(origins) == 0 {
		errs = append(errs, found.Nobody())
	}
	r.origin = strings.Join(origins, ", ")
	r.err = policy.OneLine(errs...)
	r.lists = policy.Fact{Truth: policy.Yes, Origin: r.origin, Detail: fmt.Sprintf("sandboxes and containers: %d", len(r.ids))}
	switch {
	case r.err != nil:
		r.lists.Truth, r.lists.Detail = policy.Unknown, r.err.Error()
	case pods == 0:
		r.lists.Truth = policy.No
		r.lists.Detail = "the runtime lists no sandbox of any pod: it was reset, or it is not the kubelet's; " + cri.AdviceSet
	}
	return r
}

// add adds the answer of one socket and returns the number of pods' sandboxes in it.
func (r *runtimeIDs) add(a cri.Lists) (pods int) {
	for _, s := range a.Sandboxes {
		if len(cri.PodNames(s)) > 0 {
			pods++
		}
		ready := policy.Yes
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			ready = policy.No
			if a.ContainerErr != nil {
				ready = policy.Unknown // one of its containers may run
			}
		}
		text := "sandbox " + policy.ShortID(s.GetId()) + " " + strings.TrimPrefix(s.GetState().String(), "SANDBOX_")
		r.list(s.GetId(), listedID{text, ready, a.Path, true})
	}
	for _, k := range a.Containers {
		ready, of := policy.No, policy.Unknown
		if k.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			ready, of = policy.Yes, policy.Yes
		}
		text := "container " + policy.ShortID(k.GetId()) + " " + strings.TrimPrefix(k.GetState().String(), "CONTAINER_")
		r.list(k.GetId(), listedID{text, ready, a.Path, false})
		// Its sandbox exists, even if it is not listed.
		if id := k.GetPodSandboxId(); of == policy.Yes || r.ids[id].text == "" {
			r.list(id, listedID{text + " of that sandbox", of, a.Path, false})
		}
	}
	return pods
}

// list adds one ID. If it has two states, the one that is more alive counts.
func (r *runtimeIDs) list(id string, l listedID) {
	if id == "" {
		return
	}
	old, known := r.ids[id]
	if known && (old.ready == policy.Yes || l.ready == policy.No || l.ready == old.ready) {
		return
	}
	l.sandbox = l.sandbox || old.sandbox
	r.ids[id] = l
}

// longVersion limits the answer to a request for the version.
const longVersion = 1 << 10

// runtimeVersion returns the runtime's name and version, or its socket and the error.
func (r *Reader) runtimeVersion(ctx context.Context, path string) string {
	conn, err := cri.Dial(path, r.Guard.Limit(), longVersion)
	if err == nil {
		defer conn.Close()
		var v runtimeapi.VersionResponse
		// The kubelet sends this version of its API; runtimes ignore it.
		err = conn.Call(ctx, "Version", &runtimeapi.VersionRequest{Version: "0.1.0"}, &v)
		if err == nil && v.GetRuntimeName() != "" {
			return strings.TrimSpace(clean.Name(v.GetRuntimeName()) + " " + clean.Name(v.GetRuntimeVersion()))
		}
	}
	if err == nil {
		err = errors.New("it gives no name")
	}
	return fmt.Sprintf("the runtime at %s (%s)", clean.Name(path), clean.Name(err.Error()))
}

// version returns, for messages, the version of the runtime that lists a container, or of all runtimes if none does: a
// broken cache file blocks the teardown only in some versions.
func (f *facts) version(ctx context.Context, id string) string {
	ask := f.runtime.paths
	if l, ok := f.runtime.ids[id]; ok {
		ask = []string{l.path}
	}
	var all []string
	for _, path := range ask {
		if _, known := f.runtime.versions[path]; !known {
			f.runtime.versions[path] = f.s.r.runtimeVersion(ctx, path)
		}
		all = append(all, f.runtime.versions[path])
	}
	return strings.Join(all, ", ")
}

func (r *runtimeIDs) listed(id string) bool {
	_, ok := r.ids[id]
	return ok
}

// all returns the IDs, sorted.
func (r *runtimeIDs) all() []string { return slices.Sorted(maps.Keys(r.ids)) }

// facts returns the facts Listed and Ready of an ID.
func (r *runtimeIDs) facts(id string) (listed, ready policy.Fact) {
	listed, ready = policy.Fact{Origin: r.origin}, policy.Fact{Origin: r.origin}
	if l, ok := r.ids[id]; ok {
		listed.Truth, listed.Detail = policy.Yes, l.text
		ready.Truth, ready.Detail = l.ready, l.text
		return listed, ready
	}
	if r.lists.Truth == policy.Yes {
		listed.Truth, ready.Truth = policy.No, policy.No
		return listed, ready
	}
	listed.Detail, ready.Detail = r.lists.Detail, r.lists.Detail
	return listed, ready
}

// statusTime limits the request for one sandbox, so that one that hangs does not use up the time of the others.
const statusTime = 2 * time.Second

// sandboxNetns returns the network namespaces of some sandboxes, by verbose PodSandboxStatus requests to their
// sockets. All requests together have the time limit of one; sandboxes without an answer are left out. A sandbox
// without its own namespace (hostNetwork) has "".
func (r *Reader) sandboxNetns(ctx context.Context, bySocket map[string][]string) map[string]string {
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

// netnsInInfo returns the namespace in the OCI specification of the first container, which containerd (since 1.0) and
// CRI-O (since 1.19) add to the verbose status of a sandbox:
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
			if n.Path == "" { // the OCI runtime created it, and a process is in it
				return "", false
			}
			return n.Path, true
		}
	}
	return "", true
}
