package reaper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Mount is a mount below a pod's directory in the mount namespace of this process.
type Mount struct {
	ID     int    `json:"-"` // in mountinfo
	Path   string `json:"path"`
	Type   string `json:"type"`
	Source string `json:"source"`
	// Keeps is why it is not unmounted, "" if nothing speaks against it.
	Keeps  string       `json:"keeps,omitempty"`
	Result judge.Result `json:"result,omitempty"` // "" if it was not tried
	Err    string       `json:"error,omitempty"`
}

// Unmounter finds and unmounts what is mounted in a pod's directory: quarantine.Quarantine.
type Unmounter interface {
	// Mounts returns the mounts below pods/UID, whose directory has to be id, each before those that it is mounted on.
	Mounts(uid parsers.PodUID, id judge.FileID) ([]Mount, error)
	// Unmount unmounts one of these, only if nothing uses it, and in bounded time.
	Unmount(ctx context.Context, permit judge.Permit, uid parsers.PodUID, id judge.FileID, m Mount) (judge.Result, error)
}

// Unmounting is what `unmount` found and did. The verdict of the pod is Remove if it is dead but for its mounts.
type Unmounting struct {
	Pod    PodStatus `json:"pod"`
	Mounts []Mount   `json:"mounts"`
	// Stopped is why the rest was not tried, "" if all was.
	Stopped string `json:"stopped,omitempty"`
}

// listenTime is how long a command waits for a report that the kubelet repeats every two seconds.
const listenTime = 5 * time.Second

// Unmount unmounts what keeps a dead pod busy. agree is called with what was found, and nil goes on: an operator may need
// minutes for the answer, so the pod is judged anew afterwards, and again before each mount.
func (d *Daemon) Unmount(ctx context.Context, uid parsers.PodUID, by *judge.User, u Unmounter, agree func(Unmounting) error) (Unmounting, error) {
	p := d.orderPass()
	found, err := p.mountsOf(ctx, d, uid, u)
	if err != nil {
		return found, err
	}
	if err := agree(found); err != nil {
		return found, err
	}
	leave, err := d.Ledger.Enter(ctx)
	if err != nil {
		return found, err
	}
	defer leave()
	defer p.record()
	for i := range found.Mounts {
		m := &found.Mounts[i]
		if m.Keeps != "" {
			continue
		}
		pod := p.unmountable(ctx, d, uid)
		permit := p.operatorsPermit()
		why, stopped := permit.Stopped()
		switch {
		case pod.Decision != judge.Remove:
			found.Stopped = string(pod.Reasons[0].Reason) + ": " + pod.Reasons[0].Detail
		case stopped:
			found.Stopped = string(why.Reason) + ": " + why.Detail
		case pod.ID != found.Pod.ID:
			found.Stopped = "it is no longer the directory that was judged"
		}
		if found.Stopped != "" || !p.unmount(ctx, u, permit, pod, m, by) {
			break
		}
	}
	for _, problem := range p.problems {
		err = errors.Join(err, errors.New(problem))
	}
	return found, err
}

// mountsOf judges the pod and lists its mounts.
func (p *pass) mountsOf(ctx context.Context, d *Daemon, uid parsers.PodUID, u Unmounter) (Unmounting, error) {
	found := Unmounting{Pod: p.unmountable(ctx, d, uid)}
	if found.Pod.Decision != judge.Remove {
		r := found.Pod.Reasons[0]
		return found, &RefusedError{uid, string(r.Reason) + ": " + r.Detail}
	}
	var err error
	if found.Mounts, err = u.Mounts(uid, found.Pod.ID); err == nil && len(found.Mounts) == 0 {
		err = &RefusedError{uid, "nothing of it is mounted here"}
		if f := found.Pod.Facts[judge.Mounted]; f.Truth != judge.No {
			err = &RefusedError{uid, "nothing of it is mounted in the mount namespace of this process: " + f.Detail}
		}
	}
	return found, err
}

// unmount unmounts one mount: intent, change, result. It returns false if the rest must not be tried.
func (p *pass) unmount(ctx context.Context, u Unmounter, permit judge.Permit, pod PodStatus, m *Mount, by *judge.User) bool {
	e := judge.Event{
		Kind: judge.EventUnmounting, At: p.Clock.Now(), By: by, UID: pod.UID, Namespace: pod.Namespace, PodName: pod.PodName,
		Kubelet: p.node.Kubelet.PID, Operator: true, Mounts: []string{m.Path},
	}
	if !p.write(e) {
		return false
	}
	var err error
	m.Result, err = u.Unmount(ctx, permit, pod.UID, pod.ID, *m)
	e.Kind, e.At = judge.EventUnmounted, p.Clock.Now()
	if err != nil {
		m.Err = err.Error()
		e.Err = m.Err
	}
	if m.Result != judge.Done {
		e.Kind = judge.EventFailed
	}
	return p.write(e) && (m.Result == judge.Done || m.Result == judge.Gone)
}

// unmountable judges a pod for Unmount. If only the kubelet's report is missing, it reads the log for a while: a kubelet
// repeats it every two seconds.
func (p *pass) unmountable(ctx context.Context, d *Daemon, uid parsers.PodUID) PodStatus {
	d.listen(ctx, 0, func() bool { return false })
	s := p.judgeMounts(ctx, uid)
	if s.Decision == judge.Remove || len(s.Reasons) != 1 || s.Reasons[0].Reason != judge.NotReported {
		return s
	}
	d.listen(ctx, listenTime, func() bool {
		log, now := d.logs.last[uid], d.Clock.Now()
		return judge.Credible(log.Removal, d.node, now) == "" || judge.Credible(log.Volumes, d.node, now) == ""
	})
	return p.judgeMounts(ctx, uid)
}

// judgeMounts scans one pod, and returns its status with the verdict of judge.Unmountable.
func (p *pass) judgeMounts(ctx context.Context, uid parsers.PodUID) PodStatus {
	p.snapshot = p.Scanner.Scan(ctx, []parsers.PodUID{uid}, nil)
	p.Loop.node = p.snapshot.Node
	j := judge.Judged{Pod: judge.Pod{UID: uid}, Verdict: judge.Verdict{Reasons: []judge.Reason{{
		Reason: judge.BadDirectory, Detail: "it has no directory in the pods directory",
	}}}}
	for _, of := range judge.Decide(p.input(p.snapshot)).Pods {
		if of.UID == uid {
			j = of
			j.Verdict = judge.Unmountable(p.caseOf(of.Pod))
		}
	}
	return p.logs.status(j, p.node, p.Clock.Now())
}

func (p *pass) caseOf(pod judge.Pod) judge.Case {
	in := p.input(p.snapshot)
	return in.Case(pod)
}

// listen reads lines of the log until done returns true, and at most for the time.
func (d *Daemon) listen(ctx context.Context, most time.Duration, done func() bool) {
	for { // what has come already
		select {
		case line, more := <-d.Lines:
			if !more {
				return
			}
			d.Read(line)
			continue
		default:
		}
		break
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	for most > 0 && !done() {
		select {
		case line, more := <-d.Lines:
			if !more {
				return
			}
			d.Read(line)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Done reports whether nothing is left mounted.
func (u *Unmounting) Done() bool {
	return !slices.ContainsFunc(u.Mounts, func(m Mount) bool { return m.Result != judge.Done && m.Result != judge.Gone })
}
