package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Answer has what the container runtimes list in one look.
type Answer struct {
	// Lists is Node.RuntimeLists: whether an answer has at least one pod's sandbox.
	Lists policy.Fact
	// Pods has what is listed of each pod, and InRuntime is how many pods there are, also those without a valid UID.
	Pods      map[parsers.PodUID]*Pod
	InRuntime int
	// Running has the ready sandboxes of static pods.
	Running map[policy.PodName][]policy.StaticSandbox
	// SandboxErr and ContainerErr are why the list may not be complete.
	SandboxErr, ContainerErr error
	Origin                   string   // the sockets
	Err                      error    // both errors, for Look.Errors
	Sockets                  []string // that were found
}

// Fill sets the runtime's facts about the pod, and its name. A pod that was known to be static remains so.
func (a Answer) Fill(e *policy.Evidence) {
	pod := a.Pods[e.UID]
	if pod == nil {
		pod = &Pod{}
	}
	e.Facts[policy.FactSandbox] = a.fact(pod.sandboxTally.String(), a.SandboxErr)
	e.Facts[policy.FactContainer] = a.fact(pod.containerTally.String(), a.ContainerErr)
	if pod.Name != (policy.PodName{}) {
		e.Namespace, e.PodName = pod.Name.Namespace, pod.Name.Name
	}
	e.Made, e.Static = pod.made, e.Static || pod.static
	if a.complete() {
		e.Sandboxes = nil
		for _, s := range pod.sandboxes {
			e.Sandboxes = append(e.Sandboxes, *s)
		}
	}
}

// Name returns the pod's name from its sandboxes, and false if they have none.
func (a Answer) Name(uid parsers.PodUID) (policy.PodName, bool) {
	pod := a.Pods[uid]
	if pod == nil || pod.Name == (policy.PodName{}) {
		return policy.PodName{}, false
	}
	return pod.Name, true
}

// Ready returns the pods with a ready sandbox.
func (a Answer) Ready() map[parsers.PodUID]bool {
	all := map[parsers.PodUID]bool{}
	for uid, pod := range a.Pods {
		if sandbox, _ := pod.Life(); sandbox {
			all[uid] = true
		}
	}
	return all
}

// complete reports whether the lists have all sandboxes and containers.
func (a Answer) complete() bool {
	return a.SandboxErr == nil && a.ContainerErr == nil && a.Lists.Truth == policy.Yes
}

func (a Answer) fact(found string, err error) policy.Fact {
	f := policy.Fact{Origin: a.Origin}
	switch {
	case found != "":
		f.Truth, f.Detail = policy.Yes, found
	case err != nil:
		f.Detail = err.Error()
	case a.Lists.Truth != policy.Yes:
		f.Detail = a.Lists.Detail
	default:
		f.Truth = policy.No
	}
	return f
}

func unanswered(err error) Answer {
	return Answer{
		Lists:      policy.Fact{Detail: err.Error()},
		SandboxErr: err, ContainerErr: err, Err: err,
	}
}

// merge merges the answers of all sockets. It leaves out a socket without CRI, unless the settings name the sockets.
func merge(answers []cri.Lists, found cri.Sockets, now time.Time) Answer {
	c := newCensus(now)
	var origins []string
	var sandboxErrs, containerErrs []error
	for _, a := range answers {
		if a.NoCRI && !found.Named {
			continue
		}
		origins = append(origins, "unix://"+a.Path)
		if err := a.SandboxErr; err != nil {
			sandboxErrs = append(sandboxErrs, found.Explain(a.Path, err))
		}
		if err := a.ContainerErr; err != nil {
			containerErrs = append(containerErrs, found.Explain(a.Path, err))
		}
		c.add(a)
	}
	if len(origins) == 0 {
		return unanswered(found.Nobody())
	}
	sandboxErrs, containerErrs = append(sandboxErrs, doubt("sandbox", c.lostSandboxes)), append(containerErrs, doubt("container", c.lostContainers))
	r := Answer{
		Running: c.running, Pods: c.pods, InRuntime: len(c.names),
		SandboxErr: policy.OneLine(sandboxErrs...), ContainerErr: policy.OneLine(containerErrs...),
		Origin: strings.Join(origins, ", "),
	}
	r.Err = policy.OneLine(r.SandboxErr, r.ContainerErr)
	r.Lists = policy.Fact{Origin: r.Origin}
	switch {
	case r.SandboxErr != nil:
		r.Lists.Detail = r.SandboxErr.Error()
	case c.sandboxes == 0:
		r.Lists.Truth = policy.No
		r.Lists.Detail = "the runtime lists no sandbox of any pod: it was reset, or it is not the kubelet's; " + cri.AdviceSet
	default:
		r.Lists.Truth, r.Lists.Detail = policy.Yes, c.String()
	}
	return r
}

// Reader requests the lists of the node's container runtimes.
type Reader struct {
	Silent bool     // ask nothing: according to the operator there is no runtime
	Usual  []string // the usual places of sockets
	// Find returns the sockets to ask: some of the usual ones, or those that the settings name.
	Find  func(usual []string) cri.Sockets
	Now   func() time.Time
	Guard *bounded.Guard
}

// ErrNotAsked is not a failure: the operator chose it.
var ErrNotAsked = errors.New("not asked: --runtime-endpoint none")

// Sockets returns the sockets to ask.
func (r *Reader) Sockets(ctx context.Context) (cri.Sockets, error) {
	if r.Silent {
		return cri.Sockets{}, ErrNotAsked
	}
	found, err := bounded.Do(ctx, r.Guard, "the runtime's sockets", func() cri.Sockets { return r.Find(r.Usual) })
	if err == nil {
		err = found.Err
	}
	if err != nil {
		return found, fmt.Errorf("cannot find the runtime: %w", err)
	}
	return found, nil
}

// Lists finds the sockets and asks all of them at once.
func (r *Reader) Lists(ctx context.Context) ([]cri.Lists, cri.Sockets, error) {
	found, err := r.Sockets(ctx)
	if err != nil {
		return nil, found, err
	}
	answers := make([]cri.Lists, len(found.Paths))
	var wg sync.WaitGroup
	for i, path := range found.Paths {
		wg.Go(func() { answers[i] = cri.List(ctx, path, r.Guard.Limit(), cri.MaxAnswer) })
	}
	wg.Wait()
	return answers, found, nil
}

// Ask requests all sandboxes and containers in every state, one call each. It returns within three
// times the guard's limit, whatever hangs.
//
// Call it after the pods directory was listed: a pod that is made in between is then in the answer
// and not in the listing.
func (r *Reader) Ask(ctx context.Context) Answer {
	answers, found, err := r.Lists(ctx)
	var a Answer
	switch {
	case err == nil:
		a = merge(answers, found, r.Now())
	case errors.Is(err, ErrNotAsked):
		a = unanswered(err)
		a.Err = nil
	default:
		a = unanswered(err)
	}
	a.Sockets = found.Paths
	return a
}
