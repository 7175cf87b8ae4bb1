package runtime

import (
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Pod is all that the runtimes list of one pod.
type Pod struct {
	sandboxes []*policy.Sandbox
	loose     int // containers that are in none of the sandboxes
	made      policy.Span
}

// sandbox adds one sandbox to its pods. What a runtime lists twice is one sandbox. It is ready if
// one of the two is, and it is no pod's alone: a list that contradicts itself removes nothing.
func (c *census) sandbox(boxes map[string]*policy.Sandbox, socket string, names []string, s *runtimeapi.PodSandbox) {
	c.known[names[0]] = true
	ready := s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	for _, uid := range uidsOf(names) {
		c.pod(uid).made.Add(stamp(s.GetCreatedAt()))
	}
	if box := boxes[s.GetId()]; box != nil {
		box.Ready, box.Shared = box.Ready || ready, true
		return
	}
	box := &policy.Sandbox{ID: s.GetId(), Socket: socket, Ready: ready, Shared: len(names) > 1}
	box.Created = stamp(s.GetCreatedAt())
	boxes[box.ID] = box
	for _, uid := range uidsOf(names) {
		pod := c.pod(uid)
		pod.sandboxes = append(pod.sandboxes, box)
	}
}

// container adds one container to its sandbox, which has the owners, and to the pods that it
// names besides.
func (c *census) container(box *policy.Sandbox, owners, names []string, k *runtimeapi.Container) {
	if box == nil {
		c.known[names[0]] = true
	} else if k.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		box.Busy = true
	}
	for _, uid := range uidsOf(names) {
		c.pod(uid).made.Add(stamp(k.GetCreatedAt()))
		if box != nil && slices.Contains(owners, string(uid)) {
			continue
		}
		c.pod(uid).loose++
		if box != nil {
			box.Shared = true
		}
	}
}

// stamp reads CRI's created_at, zero where the runtime does not say.
func stamp(at int64) (t time.Time) {
	if at > 0 {
		t = time.Unix(0, at)
	}
	return t
}

func (c *census) pod(uid parsers.PodUID) *Pod {
	pod := c.has[uid]
	if pod == nil {
		pod = &Pod{}
		c.has[uid] = pod
	}
	return pod
}

func uidsOf(names []string) []parsers.PodUID {
	var uids []parsers.PodUID
	for _, n := range names {
		if uid, ok := parsers.ParsePodUID(n); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}
