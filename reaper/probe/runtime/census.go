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

// census counts what the runtimes listed, by pod.
//
// Of what names no pod, two kinds are told apart. A sandbox or container without any of
// the kubelet's marks was made by somebody else (crictl, a test, another client of the
// runtime): the kubelet marks everything, so it belongs to no pod, and it is counted and
// left out. One with some of the marks but no UID was the kubelet's and has lost its
// owner: it may belong to any pod, so that list decides nothing.
type census struct {
	now                   time.Time
	sandboxes, containers map[parsers.PodUID]*tally
	names                 map[parsers.PodUID]policy.PodName
	static                map[parsers.PodUID]bool // pods that the kubelet has from a manifest or a URL
	running               map[policy.PodName][]policy.StaticSandbox
	has                   map[parsers.PodUID]*Pod
	known                 map[string]bool // every pod once, whatever its name
	pods                  int             // sandboxes that name a pod
	contained             int             // containers that name a pod
	strangers             int             // made by others
	lostSandboxes         []string
	lostContainers        []string
}

// tally is what a pod has in one list: the one to show, and how many more there are.
type tally struct {
	words string
	live  bool // words tell of one that is ready or running
	more  int
}

func newCensus(now time.Time) *census {
	return &census{
		now: now, sandboxes: map[parsers.PodUID]*tally{}, containers: map[parsers.PodUID]*tally{},
		names: map[parsers.PodUID]policy.PodName{}, static: map[parsers.PodUID]bool{}, running: map[policy.PodName][]policy.StaticSandbox{},
		has: map[parsers.PodUID]*Pod{}, known: map[string]bool{},
	}
}

// String sums up for messages.
func (c *census) String() string {
	s := fmt.Sprintf("%s, %s", count(c.pods, "sandbox", "sandboxes"), count(c.contained, "container", "containers"))
	if c.strangers > 0 {
		s += fmt.Sprintf("; %d more are no pod's", c.strangers)
	}
	return s
}

// add counts the answer of one socket. IDs mean something within it only.
func (c *census) add(a cri.Lists) {
	owners, boxes := map[string][]string{}, map[string]*policy.Sandbox{}
	for _, s := range a.Sandboxes {
		names := cri.PodNames(s)
		owners[s.GetId()] = names
		if len(names) == 0 {
			c.stranger(&c.lostSandboxes, s.GetId(), s.GetLabels(), s.GetAnnotations())
			continue
		}
		c.pods++
		state := strings.TrimPrefix(s.GetState().String(), "SANDBOX_")
		live := s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		c.count(c.sandboxes, names, live, c.words("sandbox", s.GetId(), state, s.GetCreatedAt()))
		if source := s.GetAnnotations()[cri.AnnotationSource]; source == "file" || source == "http" {
			for _, uid := range uidsOf(names) {
				c.static[uid] = true
			}
		}
		c.name(names, s)
		c.sandbox(boxes, a.Path, names, s)
	}
	for _, k := range a.Containers {
		names := cri.Distinct(slices.Concat([]string{k.GetLabels()[cri.LabelUID]}, owners[k.GetPodSandboxId()])...)
		if len(names) == 0 {
			c.stranger(&c.lostContainers, k.GetId(), k.GetLabels(), k.GetAnnotations())
			continue
		}
		c.contained++
		state := strings.TrimPrefix(k.GetState().String(), "CONTAINER_")
		live := k.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		c.count(c.containers, names, live, c.words("container", k.GetId(), state, k.GetCreatedAt()))
		c.container(boxes[k.GetPodSandboxId()], owners[k.GetPodSandboxId()], names, k)
	}
}

func (c *census) stranger(lost *[]string, id string, maps ...map[string]string) {
	if cri.Marked(maps...) {
		*lost = append(*lost, policy.ShortID(id))
		return
	}
	c.strangers++
}

func (c *census) count(list map[parsers.PodUID]*tally, names []string, live bool, words string) {
	for _, n := range names {
		uid, ok := parsers.ParsePodUID(n)
		if !ok {
			continue // Judge keeps a directory with such a name whatever the runtime says
		}
		switch t := list[uid]; {
		case t == nil:
			list[uid] = &tally{words: words, live: live}
		case live && !t.live:
			list[uid] = &tally{words: words, live: true, more: t.more + 1}
		default:
			t.more++
		}
	}
}

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
	for _, n := range names {
		if uid, ok := parsers.ParsePodUID(n); ok {
			c.names[uid] = pod
		}
	}
}

func cleaned(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = clean.Name(name)
	}
	return shown
}

// words describes one of them, as "sandbox 02538aa466dd NOTREADY, created 3h ago".
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

func (c *census) sandboxWords() map[parsers.PodUID]string   { return told(c.sandboxes) }
func (c *census) containerWords() map[parsers.PodUID]string { return told(c.containers) }

func (c *census) ready() map[parsers.PodUID]bool {
	ready := map[parsers.PodUID]bool{}
	for uid, t := range c.sandboxes {
		if t.live {
			ready[uid] = true
		}
	}
	return ready
}

func told(list map[parsers.PodUID]*tally) map[parsers.PodUID]string {
	words := make(map[parsers.PodUID]string, len(list))
	for uid, t := range list {
		words[uid] = t.words
		if t.more > 0 {
			words[uid] += fmt.Sprintf(", and %d more", t.more)
		}
	}
	return words
}

func (c *census) sandboxDoubt() error   { return doubt("sandbox", c.lostSandboxes) }
func (c *census) containerDoubt() error { return doubt("container", c.lostContainers) }

func doubt(what string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s (of %d) has the kubelet's labels but no pod UID: it may belong to any pod", what, lost[0], len(lost))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

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
