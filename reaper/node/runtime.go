package node

import (
	"context"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// runtimes is what all container runtimes list of pods.
type runtimes struct {
	pods   map[parsers.PodUID]*runtimePod
	source string // the sockets that answered, "" if none did
}

// runtimePod is what they list of one pod.
type runtimePod struct {
	fact            judge.Fact
	namespace, name string
	static          bool
}

// askRuntimes asks every socket that connects, or those that are set.
func (s *Scanner) askRuntimes(ctx context.Context) (runtimes, error) {
	answers, err := cri.Ask(ctx, s.cfg.Endpoints, s.cfg.Sockets, s.patience()/4)
	if err != nil {
		return runtimes{}, err
	}
	return merge(answers)
}

// merge puts the answers together. Their error is the first.
func merge(answers []cri.Answer) (runtimes, error) {
	r := runtimes{pods: map[parsers.PodUID]*runtimePod{}}
	var sources []string
	var first error
	for _, a := range answers {
		if a.Absent {
			continue
		}
		if a.Err != nil && first == nil {
			first = a.Err
		}
		if a.Err == nil {
			sources = append(sources, "unix://"+a.Path)
		}
		// What an incomplete answer lists is there, too.
		if err := r.add(a.Lists); err != nil && first == nil {
			first = err
		}
	}
	r.source = strings.Join(sources, ", ")
	return r, first
}

// add adds the answer of one socket. A sandbox or container without any of the kubelet's labels is no pod's (crictl, another
// client of the runtime). One with some of them but no UID may be any pod's, so the answer is not complete.
func (r *runtimes) add(l cri.Lists) error {
	owners := map[string][]string{}
	var lost error
	for _, box := range l.Sandboxes {
		names := cri.PodNames(box)
		owners[box.GetId()] = names
		if len(names) == 0 && cri.Marked(box.GetLabels(), box.GetAnnotations()) {
			lost = fmt.Errorf("sandbox %s at %s has the kubelet's labels and no pod UID: it may be of any pod", bounded.Brief(box.GetId()), l.Path)
		}
		ready := box.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
		source := box.GetAnnotations()[cri.AnnotationSource]
		for _, pod := range r.named(names) {
			pod.namespace, pod.name = bounded.Brief(box.GetMetadata().GetNamespace()), bounded.Brief(box.GetMetadata().GetName())
			pod.static = pod.static || cri.IsStatic(source)
			pod.note(ready, ready, fmt.Sprintf("sandbox %s is %s", short(box.GetId()), strings.TrimPrefix(box.GetState().String(), "SANDBOX_")))
		}
	}
	for _, c := range l.Containers {
		names := cri.Distinct(append([]string{c.GetLabels()[cri.LabelUID]}, owners[c.GetPodSandboxId()]...)...)
		if len(names) == 0 && cri.Marked(c.GetLabels(), c.GetAnnotations()) {
			lost = fmt.Errorf("container %s at %s has the kubelet's labels and no pod UID: it may be of any pod", bounded.Brief(c.GetId()), l.Path)
		}
		state := c.GetState()
		for _, pod := range r.named(names) {
			pod.note(state != runtimeapi.ContainerState_CONTAINER_EXITED, state == runtimeapi.ContainerState_CONTAINER_RUNNING,
				fmt.Sprintf("container %s is %s", short(c.GetId()), strings.TrimPrefix(state.String(), "CONTAINER_")))
		}
	}
	return lost
}

// named returns the pods with these UIDs.
func (r *runtimes) named(names []string) []*runtimePod {
	var pods []*runtimePod
	for _, name := range names {
		uid, ok := parsers.ParsePodUID(name)
		if !ok {
			continue
		}
		if r.pods[uid] == nil {
			r.pods[uid] = &runtimePod{fact: judge.Fact{Truth: judge.No}}
		}
		pods = append(pods, r.pods[uid])
	}
	return pods
}

// note adds a sandbox or container, and keeps the one that shows most.
func (p *runtimePod) note(keeps, alive bool, detail string) {
	truth := judge.No
	if keeps {
		truth = judge.Yes
	}
	if p.fact.Detail == "" || truth > p.fact.Truth || alive && !p.fact.Alive {
		p.fact = judge.Fact{Truth: truth, Alive: alive, Detail: detail}
	}
}

func short(id string) string { return bounded.Name(id[:min(len(id), 12)]) }
