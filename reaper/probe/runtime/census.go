package runtime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// census groups the listed sandboxes and containers by pod.
//
// A sandbox or container without any of the kubelet's labels belongs to no pod (crictl, a test, another client of the
// runtime): it is only counted. One with some of these labels but no UID may belong to any pod, and makes the list incomplete.
type census struct {
	now            time.Time
	pods           map[parsers.PodUID]*Pod
	running        map[policy.PodName][]policy.StaticSandbox
	names          map[string]bool // of all pods, also those without a valid UID
	sandboxes      int             // of pods
	containers     int             // of pods
	others         int             // sandboxes and containers of no pod
	lostSandboxes  []string        // with labels but no UID
	lostContainers []string
}

func newCensus(now time.Time) *census {
	return &census{now: now, pods: map[parsers.PodUID]*Pod{}, running: map[policy.PodName][]policy.StaticSandbox{}, names: map[string]bool{}}
}

// Pod has what the runtimes list of one pod.
type Pod struct {
	Name policy.PodName // zero if no sandbox has one

	static         bool // the kubelet has it from a manifest or a URL
	sandboxTally   tally
	containerTally tally
	sandboxes      []*policy.Sandbox
	made           policy.Span
}

// Life reports whether the pod has a ready sandbox, and a container that has not exited.
func (p *Pod) Life() (sandbox, container bool) {
	if p == nil {
		return false, false
	}
	return p.sandboxTally.words != "", p.containerTally.words != ""
}

// tally describes one sandbox or container of a pod and counts the others. Stopped sandboxes and exited containers are
// no signs of life, as for the kubelet.
type tally struct {
	words string
	more  int
}

func (t *tally) add(words string) {
	if t.words != "" {
		t.more++
		return
	}
	t.words = words
}

func (t tally) String() string {
	if t.more > 0 {
		return fmt.Sprintf("%s, and %d more", t.words, t.more)
	}
	return t.words
}

func (c *census) String() string {
	s := policy.Count(c.sandboxes, "sandbox") + ", " + policy.Count(c.containers, "container")
	if c.others > 0 {
		s += fmt.Sprintf("; %d more are no pod's", c.others)
	}
	return s
}

// add adds the answer of one socket. IDs are unique only within it.
func (c *census) add(a cri.Lists) {
	owners, sandboxes := map[string][]string{}, map[string]*policy.Sandbox{}
	for _, s := range a.Sandboxes {
		names := cri.PodNames(s)
		owners[s.GetId()] = names
		if len(names) == 0 {
			c.unnamed(&c.lostSandboxes, s.GetId(), s.GetLabels(), s.GetAnnotations())
			continue
		}
		c.sandboxes++
		state := strings.TrimPrefix(s.GetState().String(), "SANDBOX_")
		live := s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		words, source := c.words("sandbox", s.GetId(), state, s.GetCreatedAt()), s.GetAnnotations()[cri.AnnotationSource]
		for _, uid := range uidsOf(names) {
			pod := c.pod(uid)
			if live {
				pod.sandboxTally.add(words)
			}
			pod.static = pod.static || source == "file" || source == "http"
		}
		c.name(names, s)
		c.sandbox(sandboxes, a.Path, names, s)
	}
	for _, k := range a.Containers {
		names := cri.Distinct(slices.Concat([]string{k.GetLabels()[cri.LabelUID]}, owners[k.GetPodSandboxId()])...)
		if len(names) == 0 {
			c.unnamed(&c.lostContainers, k.GetId(), k.GetLabels(), k.GetAnnotations())
			continue
		}
		c.containers++
		state := strings.TrimPrefix(k.GetState().String(), "CONTAINER_")
		words := c.words("container", k.GetId(), state, k.GetCreatedAt())
		if sandboxes[k.GetPodSandboxId()] == nil {
			c.names[names[0]] = true
		}
		for _, uid := range uidsOf(names) {
			pod := c.pod(uid)
			if k.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
				pod.containerTally.add(words)
			}
			pod.made.Add(stamp(k.GetCreatedAt()))
		}
	}
}

// unnamed adds a sandbox or container that names no pod.
func (c *census) unnamed(lost *[]string, id string, maps ...map[string]string) {
	if cri.Marked(maps...) {
		*lost = append(*lost, policy.ShortID(id))
		return
	}
	c.others++
}

// name sets the name of the pods that a sandbox names.
func (c *census) name(names []string, s *runtimeapi.PodSandbox) {
	namespace, name := s.GetLabels()[cri.LabelNamespace], s.GetLabels()[cri.LabelName]
	if namespace == "" || name == "" {
		namespace, name = s.GetMetadata().GetNamespace(), s.GetMetadata().GetName()
	}
	if !policy.IsDNSName(namespace) || !policy.IsDNSName(name) {
		return
	}
	pod := policy.PodName{Namespace: namespace, Name: name}
	if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY && s.GetAnnotations()[cri.AnnotationSource] == "file" {
		c.running[pod] = append(c.running[pod], policy.StaticSandbox{UIDs: cleaned(names), Created: s.GetCreatedAt()})
	}
	for _, uid := range uidsOf(names) {
		c.pod(uid).Name = pod
	}
}

func cleaned(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = clean.Name(name)
	}
	return shown
}

// words describes a sandbox or container, as "sandbox 02538aa466dd NOTREADY, created 3h ago".
func (c *census) words(what, id, state string, created int64) string {
	s := what + " " + policy.ShortID(id) + " " + state
	if age := c.now.Sub(time.Unix(0, created)); created > 0 && age >= 0 {
		s += ", created " + roughly(age) + " ago"
	}
	return s
}

// roughly writes a duration in its largest unit.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

func doubt(what string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s (of %d) has the kubelet's labels but no pod UID: it may belong to any pod", what, lost[0], len(lost))
}

// sandbox adds one sandbox to its pods. If a runtime lists it twice, it is ready if either is.
func (c *census) sandbox(sandboxes map[string]*policy.Sandbox, socket string, names []string, s *runtimeapi.PodSandbox) {
	c.names[names[0]] = true
	ready := s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
	for _, uid := range uidsOf(names) {
		c.pod(uid).made.Add(stamp(s.GetCreatedAt()))
	}
	if box := sandboxes[s.GetId()]; box != nil {
		box.Ready = box.Ready || ready
		return
	}
	box := &policy.Sandbox{ID: s.GetId(), Socket: socket, Ready: ready}
	box.Created = stamp(s.GetCreatedAt())
	sandboxes[box.ID] = box
	for _, uid := range uidsOf(names) {
		pod := c.pod(uid)
		pod.sandboxes = append(pod.sandboxes, box)
	}
}

// stamp converts CRI's created_at; zero is unknown.
func stamp(at int64) (t time.Time) {
	if at > 0 {
		t = time.Unix(0, at)
	}
	return t
}

func (c *census) pod(uid parsers.PodUID) *Pod {
	pod := c.pods[uid]
	if pod == nil {
		pod = &Pod{}
		c.pods[uid] = pod
	}
	return pod
}

// uidsOf leaves out invalid UIDs: Judge keeps a directory with such a name whatever the runtime lists.
func uidsOf(names []string) []parsers.PodUID {
	var uids []parsers.PodUID
	for _, n := range names {
		if uid, ok := parsers.ParsePodUID(n); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}
