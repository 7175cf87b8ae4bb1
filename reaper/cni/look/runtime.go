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
	// lists is Node.RuntimeLists; Yes where each runtime has answered both questions wholly,
	// in time, and with at least one pod's sandbox.
	lists  policy.Fact
	origin string
	err    error
	// paths are the sockets that answered, and versions the versions of those that were asked for it.
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
		r.lists.Detail = "the runtime lists no pod's sandbox at all: it was made anew, or it is not the kubelet's; " + cri.AdviceSet
	}
	return r
}

// add adds the answer of one socket and returns how many sandboxes in it are pods'.
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
		// Its sandbox is there, whether that is listed or not.
		if id := k.GetPodSandboxId(); of == policy.Yes || r.ids[id].text == "" {
			r.list(id, listedID{text + " of that sandbox", of, a.Path, false})
		}
	}
	return pods
}

// list adds one ID. Of two states the livelier one counts.
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

// longVersion is more than any runtime returns, and little enough for a record.
const longVersion = 1 << 10

// runtimeVersion returns the runtime's name and version, or why they are not known.
func (r *Reader) runtimeVersion(ctx context.Context, path string) string {
	conn, err := cri.Dial(path, r.Guard.Limit(), longVersion)
	if err == nil {
		defer conn.Close()
		var v runtimeapi.VersionResponse
		// The kubelet sends the version of its own API so; no runtime reads it.
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

// version returns the version of the runtime that lists a container, or of all where none does: whether a runtime fails on a broken
// cache file depends on it. It is for messages: no verdict needs it, and its failure is no failure of the look.
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

// facts returns whether the ID is listed, and whether it is ready.
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

// statusTime bounds the answer about one sandbox, so that one that hangs does not use up the time of the others.
const statusTime = 2 * time.Second

// sandboxNetns asks for the network namespaces of some sandboxes, which are given by their sockets, by PodSandboxStatus with its
// verbose flag. All of them together have the patience of one question; a sandbox without an answer until then is left out. "" is a
// sandbox without a namespace of its own, as with hostNetwork.
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
