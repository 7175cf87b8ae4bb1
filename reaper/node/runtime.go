package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
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

// askRuntimes asks every socket that connects, or those that are set. A socket that connects and gives no complete answer is
// an error, also beside one that answers: the kubelet may use either. A gRPC server without CRI is no runtime.
func (s *Scanner) askRuntimes(ctx context.Context) (runtimes, error) {
	paths, err := s.sockets()
	if err != nil {
		return runtimes{}, err
	}
	answers := make([]socketAnswer, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { answers[i] = s.askSocket(ctx, path, len(s.cfg.Endpoints) > 0) })
	}
	wg.Wait()
	return merge(answers)
}

// sockets returns the sockets to ask.
func (s *Scanner) sockets() ([]string, error) {
	if len(s.cfg.Endpoints) == 0 {
		return cri.ExistingSockets(s.cfg.Sockets)
	}
	var paths []string
	for _, endpoint := range s.cfg.Endpoints {
		path, ok := cri.SocketPath(endpoint)
		if !ok {
			return nil, fmt.Errorf("the runtime endpoint %q is not unix:///PATH", endpoint)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// socketAnswer is the answer at one socket. It is empty where no runtime listens.
type socketAnswer struct {
	cri.Lists
	absent bool
	err    error
}

func (s *Scanner) askSocket(ctx context.Context, path string, set bool) socketAnswer {
	limit := s.patience() / 4 // it makes up to three calls
	dial, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(dial, "unix", path)
	if err != nil {
		absent := !set && (fdpath.Gone(err) || errors.Is(err, unix.ECONNREFUSED))
		return socketAnswer{absent: absent, err: fmt.Errorf("cannot connect to the runtime at %s: %s", path, err.Error())}
	}
	_ = c.Close()
	a := socketAnswer{Lists: cri.List(ctx, path, limit, cri.MaxAnswer)}
	switch {
	case a.NoCRI && !set:
		a.absent = true
	case a.SandboxErr != nil:
		a.err = a.SandboxErr
	case a.ContainerErr != nil:
		a.err = a.ContainerErr
	}
	if a.err != nil {
		a.err = fmt.Errorf("cannot ask the runtime at %s: %w; if it is not the kubelet's, set runtime_endpoints", path, a.err)
	}
	return a
}

// merge puts the answers together. Their error is the first.
func merge(answers []socketAnswer) (runtimes, error) {
	r := runtimes{pods: map[parsers.PodUID]*runtimePod{}}
	var sources []string
	var first error
	for _, a := range answers {
		if a.absent {
			continue
		}
		if a.err != nil && first == nil {
			first = a.err
		}
		if a.err == nil {
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
			pod.static = pod.static || source == "file" || source == "http"
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
