package reaper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Unmounter reads and detaches the mounts below a pod's directory. Only an operator's command has one: the daemon never
// unmounts.
type Unmounter interface {
	// Mounts returns the mounts of the pod, whose directory is id. What cannot be read makes Outside Unknown.
	Mounts(ctx context.Context, uid parsers.PodUID, id policy.DirID) policy.PodMounts
	// Unmount detaches m, one of all mounts of the pod, if it is unchanged and nothing uses it. It returns in bounded time.
	Unmount(ctx context.Context, permit policy.Permit, uid parsers.PodUID, id policy.DirID, m policy.Mount, all []policy.Mount) policy.MountOutcome
}

// UnmountOptions are the options of an unmount.
type UnmountOptions struct {
	Unmounter   Unmounter
	DryRun      bool // show, and change nothing
	DriversGone []string
	// Claims reads the kubelet's latest lines.
	Claims func() []reported.Claim
	// Agree shows the mounts to the operator and asks; an error ends the command.
	Agree func(shown *Unmounting) error
	// History returns the pod's records in the ledger.
	History func(uid parsers.PodUID) ([]policy.Record, error)
	// Progress is called before each wait for the hold. Sleep waits, or returns early with ctx's error.
	Progress func(shown *Unmounting, wait time.Duration)
	Sleep    func(ctx context.Context, d time.Duration) error
}

// Unmounting is what the last look found of a pod whose mounts an operator removes, and what was done.
type Unmounting struct {
	UID      parsers.PodUID
	Evidence policy.Evidence
	Verdict  policy.Verdict // disregards the mounts in the node's own namespace: Reap is dead
	Node     policy.Node
	Mounts   policy.PodMounts // as the operator was shown them
	Outcomes []policy.MountOutcome
	// Stopped is why a mount was left that was to be unmounted, "" if none was.
	Stopped string
	Left    []policy.Mount // what is mounted now
	// Doubt is true if the mounts could not be read after the last unmount: Left is older than that.
	Doubt bool
	// Before is the record of what an earlier command unmounted, if nothing is mounted now.
	Before *policy.Record
	// Next is the pod's verdict with its mounts, nil if the pod has no directory.
	Next *policy.Verdict
}

// ErrRefused reports that the pod is not proved dead; the verdict has the reasons.
var ErrRefused = errors.New("the pod is not proved dead, so nothing is unmounted")

// ErrNotMounted reports that nothing is mounted of the pod, and that no earlier command unmounted anything.
var ErrNotMounted = errors.New("nothing is mounted below the pod's directory in the node's mount namespace")

// Unmount unmounts the mounts below the directory of a dead pod, by an operator's command. It judges the pod by the rules and
// the gate of a sweep until its hold is over, and then asks the operator. It judges the pod again before the first mount and
// after each one, and the first doubt ends the command. The same command again continues.
func (r *Reaper) Unmount(ctx context.Context, uid parsers.PodUID, opt UnmountOptions) (*Unmounting, error) {
	shown, err := r.proveDead(ctx, uid, opt)
	switch {
	case err != nil:
		return shown, err
	case len(shown.Mounts.Mounts) == 0:
		return r.unmountedBefore(ctx, shown, opt)
	case opt.DryRun:
		return shown, nil
	case shown.Verdict.Decision != policy.Reap:
		return shown, ErrRefused
	}
	if len(shown.Mounts.Todo()) == 0 {
		shown.Stopped = "each of the mounts has to stay"
		return shown, nil
	}
	if opt.Agree != nil {
		if err := opt.Agree(shown); err != nil {
			return shown, err
		}
	}
	return r.unmountShown(ctx, shown, opt)
}

// proveDead looks at the pod until its verdict no longer waits for the hold.
func (r *Reaper) proveDead(ctx context.Context, uid parsers.PodUID, opt UnmountOptions) (*Unmounting, error) {
	for {
		shown, err := r.lookMounted(ctx, uid, opt, opt.Claims())
		v := shown.Verdict
		if err != nil || opt.DryRun || len(shown.Mounts.Mounts) == 0 || v.Decision != policy.Wait || v.Due <= 0 {
			return shown, err
		}
		if opt.Progress != nil {
			opt.Progress(shown, v.Due)
		}
		if err := opt.Sleep(ctx, v.Due); err != nil {
			return shown, err
		}
	}
}

// lookMounted looks at the pod once, and judges it without its mounts in the node's own namespace.
func (r *Reaper) lookMounted(
	ctx context.Context, uid parsers.PodUID, opt UnmountOptions, claims []reported.Claim,
) (*Unmounting, error) {
	u := &Unmounting{UID: uid}
	progress.From(ctx).Begin("looking at the node", "", 0)
	look, err := r.Prober.Look(ctx, nil, []parsers.PodUID{uid})
	if err != nil {
		return u, err
	}
	was := r.memory.Memory
	d := decide.Decide(decide.Case{
		Look: look, Claims: claims, Memory: was, Entries: r.Ledger.Entries(), Breaker: r.stopped(), Rules: r.Rules, Only: true, DryRun: true,
	})
	i := slices.IndexFunc(d.Pods, func(p policy.Judged) bool { return p.UID == uid && p.Stage == policy.InPlace && !p.RuntimeOnly })
	if i < 0 {
		return u, nil
	}
	u.Evidence, u.Node = d.Pods[i].Evidence, d.Look.Node
	u.Mounts = opt.Unmounter.Mounts(ctx, uid, u.Evidence.ID)
	u.Mounts.KeepMounts(u.Evidence.VolData, opt.DriversGone)
	u.Left = u.Mounts.Mounts
	u.Next = &d.Pods[i].Verdict
	u.Verdict = policy.JudgeMounted(u.Evidence, u.Mounts.Outside, u.Node, was.Holds[uid], r.Rules, d.Look.At)
	u.Verdict.Gate(r.permit(&Report{Look: d.Look}))
	r.memory.Memory = d.Memory
	r.memory.Holds[uid] = u.Verdict.Hold // for this command only: it is not saved
	return u, nil
}

// unmountShown unmounts the mounts that the operator was shown, with the ledger locked.
func (r *Reaper) unmountShown(ctx context.Context, shown *Unmounting, opt UnmountOptions) (*Unmounting, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return shown, err
	}
	defer leave()
	now, err := r.lookMounted(ctx, shown.UID, opt, opt.Claims())
	if err != nil {
		return now, err
	}
	if len(now.Mounts.Mounts) == 0 && (now.Mounts.Whole || now.Next == nil) { // unmounted while this command waited
		if err := r.closeIntent(now); err != nil {
			return now, err
		}
		if now, err = addEarlier(now, opt); errors.Is(err, ErrNotMounted) && now.Next != nil {
			err = nil
		}
		return now, err
	}
	if now.Verdict.Decision != policy.Reap {
		return now, ErrRefused
	}
	if now.Evidence.ID != shown.Evidence.ID {
		return now, fmt.Errorf("%w: the pod's directory is another one", ErrMountsChanged)
	}
	if how := policy.ChangedMounts(shown.Mounts.Mounts, now.Mounts.Mounts); how != "" {
		return now, fmt.Errorf("%w: %s", ErrMountsChanged, how)
	}
	if err := r.closeIntent(now); err != nil {
		return now, err
	}
	todo := now.Mounts.Todo()
	if len(todo) == 0 {
		now.Stopped = "each of the mounts has to stay"
		return now, nil
	}
	more := max(0, len(todo)-mostUnmounts)
	todo = todo[:len(todo)-more]
	if err := r.write(policy.UnmountIntent(now.Evidence, todo, now.Node, r.Clock.Now())); err != nil {
		return now, fmt.Errorf("cannot write to the ledger, so nothing was unmounted: %w", err)
	}
	last := r.unmountAll(ctx, now, todo, opt)
	if last.Doubt {
		return last, nil // the next command finds out, and closes the intent
	}
	if more > 0 {
		text := fmt.Sprintf("one command unmounts at most %d mounts; for the other %d run it again", mostUnmounts, more)
		last.Stopped = strings.TrimPrefix(last.Stopped+"; "+text, "; ")
	}
	var why []policy.Why
	if last.Stopped != "" {
		why = []policy.Why{{Reason: policy.ReasonMounted, Detail: last.Stopped}}
	}
	err = r.write(policy.UnmountOutcome(now.Evidence, last.Gone(), why, "", now.Node, r.Clock.Now()))
	if err != nil {
		err = fmt.Errorf("cannot write to the ledger what was unmounted; to write it, run the command again: %w", err)
	}
	r.publish(&Report{}, nil)
	return last, err
}

// mostUnmounts bounds one command, which looks at the node after each mount while the daemon waits.
const mostUnmounts = 256

// Touched reports whether anything may have been unmounted.
func (u *Unmounting) Touched() bool {
	return u.Doubt || slices.ContainsFunc(u.Outcomes, func(o policy.MountOutcome) bool { return o.Result == policy.Done })
}

// Gone returns the mounts that were unmounted and are not left.
func (u *Unmounting) Gone() (gone []policy.Mount) {
	for _, o := range u.Outcomes {
		if o.Result == policy.Done && !u.Doubt && !slices.ContainsFunc(u.Left, o.Mount.Is) {
			gone = append(gone, o.Mount)
		}
	}
	return gone
}

// ErrMountsChanged reports that the pod has other mounts than the operator was shown.
var ErrMountsChanged = errors.New("the mounts have changed since they were shown, so nothing was unmounted; run the command again")

// unmountAll unmounts the mounts in their order, the innermost first, and looks at the pod after each one. As long as it
// makes progress it tries again those that are in use or covered: another mount may have kept them busy. The first doubt ends
// it.
func (r *Reaper) unmountAll(ctx context.Context, first *Unmounting, todo []policy.Mount, opt UnmountOptions) *Unmounting {
	now, shown := first, first.Mounts
	var outs []policy.MountOutcome
	result := func(u *Unmounting, stopped string, doubt bool) *Unmounting {
		u.Outcomes, u.Mounts, u.Stopped, u.Doubt = outs, shown, stopped, doubt
		return u
	}
	hangs := map[uint64]bool{}
	for again := true; again; {
		again = false
		for _, m := range todo {
			covered := slices.ContainsFunc(now.Left, func(o policy.Mount) bool { return o.Parent == m.ID })
			if covered || hangs[m.ID] || !slices.ContainsFunc(now.Left, m.Is) {
				continue
			}
			out := opt.Unmounter.Unmount(ctx, r.permit(&Report{Look: policy.Look{Node: now.Node}}), now.UID, now.Evidence.ID, m, now.Left)
			outs = append(slices.DeleteFunc(outs, func(o policy.MountOutcome) bool { return o.Mount.Is(m) }), out)
			hangs[m.ID] = out.Hangs
			switch {
			case out.Result == policy.Failed:
				return result(now, whyLeft(outs), true)
			case out.Busy, out.Covered, out.Hangs:
				continue
			case out.Result == policy.Refused:
				return result(now, whyLeft(outs), false)
			}
			after, err := r.lookMounted(context.WithoutCancel(ctx), now.UID, opt, nil)
			if doubt := doubtAfter(after, err, now.Evidence.ID); doubt != "" {
				return result(now, doubt, true)
			}
			if stop := stopAfter(ctx, after, shown.Mounts, outs); stop != "" || len(after.Left) == 0 {
				return result(after, stop, false)
			}
			now, again = after, again || out.Result == policy.Done
		}
	}
	return result(now, whyLeft(outs), false)
}

// doubtAfter returns why it is unknown what is mounted after an unmount, "" if it is known.
func doubtAfter(after *Unmounting, err error, id policy.DirID) string {
	switch {
	case err != nil:
		return "the node could not be read after the last unmount: " + err.Error()
	case after.Next == nil || after.Evidence.ID != id:
		return "the pod's directory is no longer where it was"
	case !after.Mounts.Whole:
		return "it is unknown what is mounted now: " + after.Mounts.Outside.Detail
	}
	return ""
}

// stopAfter returns why no other mount may be unmounted, "" if one may. It marks as covered a mount that the unmount did not
// find and that is still there.
func stopAfter(ctx context.Context, after *Unmounting, shown []policy.Mount, outs []policy.MountOutcome) string {
	for i := range outs {
		o := &outs[i]
		switch left := slices.ContainsFunc(after.Left, o.Mount.Is); {
		case left && o.Result == policy.Gone:
			o.Result, o.Covered, o.Why = policy.Refused, true, "another mount covers it"
		case left && o.Result == policy.Done:
			return o.Mount.Path + " is still mounted: the kernel detached another mount, which was mounted over it at that moment"
		}
	}
	switch {
	case len(after.Left) == 0:
		return ""
	case ctx.Err() != nil:
		return "interrupted"
	case after.Verdict.Decision != policy.Reap:
		return "the pod is no longer proved dead: " + policy.WhyWords(after.Verdict.Why)
	}
	return policy.ChangedMounts(shown, after.Left)
}

// whyLeft returns why mounts were left, "" if none was.
func whyLeft(outs []policy.MountOutcome) string {
	var reasons []string
	for _, o := range outs {
		if text := strings.TrimSpace(o.Why + " " + o.Err); text != "" && o.Result != policy.Gone && o.Result != policy.Done {
			if reason := o.Mount.Path + ": " + text; !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// unmountedBefore ends the command for a pod without mounts. That is an error unless an earlier command unmounted them.
func (r *Reaper) unmountedBefore(ctx context.Context, u *Unmounting, opt UnmountOptions) (*Unmounting, error) {
	outside := u.Mounts.Outside
	switch {
	case u.Next != nil && !u.Mounts.Whole:
		return u, fmt.Errorf("cannot read what is mounted: %s", outside.Detail)
	case outside.Truth == policy.Yes:
		return u, fmt.Errorf("%w; it is %s", ErrNotMounted, outside.Detail)
	}
	if !opt.DryRun {
		if err := r.Locked(ctx, func() error { return r.closeIntent(u) }); err != nil {
			return u, err
		}
	}
	return addEarlier(u, opt)
}

// addEarlier adds to u the record of what an earlier command unmounted.
func addEarlier(u *Unmounting, opt UnmountOptions) (*Unmounting, error) {
	records, err := opt.History(u.UID)
	if err != nil {
		return u, err
	}
	for _, rec := range slices.Backward(records) {
		if rec.Kind == policy.KindUnmounted {
			u.Before = &rec
			return u, nil
		}
	}
	return u, ErrNotMounted
}

// closeIntent writes the outcome of an earlier command that was killed or stopped in doubt.
func (r *Reaper) closeIntent(u *Unmounting) error {
	was, open := r.Ledger.Unmounting()[u.UID]
	if !open {
		return nil
	}
	return r.write(policy.UnmountFound(was, u.Evidence.ID, u.Left, u.Mounts.Whole, r.Clock.Now()))
}

// closeUnmounts writes, after a look at all pods, the outcomes of commands that were killed. If a pod still has mounts, only
// the next command on it can find out which.
func (r *Reaper) closeUnmounts(rep *Report) {
	open := r.Ledger.Unmounting()
	for _, uid := range slices.Sorted(maps.Keys(open)) {
		var e policy.Evidence
		for p := range policy.At(rep.Pods, policy.InPlace) {
			if p.UID == uid {
				e = p.Evidence
			}
		}
		sameBoot := open[uid].At.BootID == rep.Look.At.BootID
		if sameBoot && e.UID != "" && e.Facts[policy.FactMounted].Truth != policy.No {
			continue
		}
		if err := r.write(policy.UnmountFound(open[uid], e.ID, nil, e.UID != "", rep.Look.At)); err != nil {
			r.fail(rep, "cannot write to the ledger what an operator unmounted: "+err.Error())
		}
	}
}
