package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

type mountView struct {
	policy.Mount
	Copies int           `json:"copies"` // in other mount namespaces
	Memory bool          `json:"in_memory"`
	Result policy.Result `json:"result,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Unmount is the JSON of unmount.
type Unmount struct {
	UID       string          `json:"uid"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	DryRun    bool            `json:"dry_run"`
	Verdict   policy.Decision `json:"verdict"` // disregards the mounts: reap is dead
	Why       []policy.Why    `json:"why"`
	Mounts    []mountView     `json:"mounts"`
	Stopped   string          `json:"stopped,omitempty"`
	Before    *time.Time      `json:"unmounted_before,omitempty"`
	Next      []string        `json:"next"` // what to do now: commands

	refused bool // the pod is not proved dead, and waits for no hold
	left    int
	doubt   bool
	kept    []string // reasons
	after   string   // what Next does
	remover Remover
}

// NewUnmount converts a pod's mounts and the results for display.
func NewUnmount(u *reaper.Unmounting, c Context, dryRun bool) Unmount {
	v := Unmount{
		UID: string(u.UID), Namespace: u.Evidence.Namespace, Name: u.Evidence.PodName, DryRun: dryRun, Verdict: u.Verdict.Decision,
		Why: list(u.Verdict.Why), Mounts: []mountView{}, Stopped: u.Stopped, Next: []string{}, left: len(u.Left), doubt: u.Doubt,
		refused: u.Verdict.Decision == policy.Keep || u.Verdict.Decision == policy.Wait && u.Verdict.Due <= 0,
		remover: RemoverOf(u.Node, false, c.Daemon, c.Observe, c.Hold+c.Confirm),
	}
	for _, m := range u.Mounts.Mounts {
		view := mountView{Mount: m, Copies: len(m.Copies), Memory: m.InMemory()}
		if i := slices.IndexFunc(u.Outcomes, func(o policy.MountOutcome) bool { return m.Is(o.Mount) && !o.Covered }); i >= 0 {
			view.Result, view.Error = u.Outcomes[i].Result, cmp.Or(u.Outcomes[i].Err, u.Outcomes[i].Why)
		} else if len(u.Outcomes) > 0 && !u.Doubt && !slices.ContainsFunc(u.Left, m.Is) {
			view.Result = policy.Gone
		}
		if !u.Doubt && view.Result == policy.Done && slices.ContainsFunc(u.Left, m.Is) {
			view.Result, view.Error = policy.Refused, "the kernel detached another mount, which was mounted over it at that moment"
		}
		if u.Doubt && (view.Result == policy.Gone || view.Result == policy.Done && slices.ContainsFunc(u.Left, m.Is)) {
			view.Result, view.Error = policy.Failed, "it is not known whether it is still mounted"
		}
		v.Mounts = append(v.Mounts, view)
	}
	if u.Before != nil {
		v.Before = &u.Before.At.Wall
	}
	if u.Next != nil {
		for _, w := range u.Next.Why {
			if u.Next.Decision == policy.Keep && w.Reason != policy.ReasonMounted && w.Reason != policy.ReasonWaived {
				v.kept = append(v.kept, string(w.Reason))
			}
		}
	}
	v.next()
	return v
}

// next sets what to do next, as text and as a command.
func (v *Unmount) next() {
	again, explain := "orphan-reaper unmount "+v.UID, "orphan-reaper explain "+v.UID
	done := "Nothing is mounted below its directory any more. "
	switch {
	case v.doubt:
		v.after, v.Next = "This finds out what is mounted now, and goes on:", []string{again}
	case v.left > 0 && v.DryRun && !v.refused:
		v.after, v.Next = "This unmounts it:", []string{again}
	case v.left > 0 && (v.DryRun || v.Verdict != policy.Reap):
		v.after, v.Next = "This shows what keeps the pod:", []string{explain}
	case v.left > 0:
		v.after, v.Next = "The same command goes on with what is left, once nothing stands in its way:", []string{again}
	case len(v.kept) > 0:
		v.after = fmt.Sprintf("%sIt is still kept (%s). The kubelet may end that by itself within seconds; this shows what is left to do:", done,
			strings.Join(v.kept, ", "))
		v.Next = []string{explain}
	case v.remover.Now("it", "") != "":
		v.after, v.Next = done+"This, or the kubelet itself, does the rest:", []string{"orphan-reaper sweep " + v.UID}
	default:
		v.after = done + "The daemon does the rest, or the kubelet itself."
	}
}

// NeedsPerson reports whether a mount is left that needs an operator.
func (v *Unmount) NeedsPerson() bool {
	if v.DryRun {
		return v.refused || slices.ContainsFunc(v.Mounts, func(m mountView) bool { return m.Stays != "" })
	}
	return v.left > 0 || v.doubt
}

// UnmountSum describes in a few words what an unmount would detach.
func UnmountSum(v *Unmount) string {
	n := 0
	for _, m := range v.Mounts {
		if m.Stays == "" {
			n++
		}
	}
	return human.Count(n, "mount") + " of pod " + v.UID
}

// Mounts writes what is mounted.
func (p *Printer) Mounts(v *Unmount) {
	name := clean.Text(policy.FullName(v.Namespace, v.Name))
	if name != "" {
		name = ", " + name
	}
	p.Para("", "Mounted below the directory of pod "+v.UID+name+", in the node's mount namespace:")
	for _, m := range v.Mounts {
		p.Para("  ", m.text())
	}
}

// text describes the mount in one line.
func (m mountView) text() string {
	text := m.Words()
	if m.Memory && m.Stays == "" {
		text += ", in memory: lost, unless it is mounted elsewhere, too"
	}
	if m.Copies > 0 && m.Stays == "" {
		text += ", and " + human.Count(m.Copies, "copy") + " that " + human.Plural(m.Copies, "goes", "go") + " with it"
	}
	return text + m.stays()
}

func (m mountView) stays() string {
	if m.Stays == "" {
		return ""
	}
	return "; stays: " + clean.Text(m.Stays)
}

// Unmount writes a pod's mounts and the results.
func (p *Printer) Unmount(v Unmount) {
	if v.Before != nil {
		p.Printf("unmounted already, at %s: %s\n", human.When(*v.Before), v.UID)
	} else if v.DryRun {
		p.Mounts(&v)
		p.verdict(&v)
	} else {
		p.unmounted(&v)
	}
	p.Gap()
	p.Para("", v.after)
	for _, command := range v.Next {
		p.Printf("  %s\n", command)
	}
}

func (p *Printer) unmounted(v *Unmount) {
	for _, m := range v.Mounts {
		switch {
		case m.Result == policy.Done:
			p.Para("", "unmounted: "+m.Words())
		case m.Result == policy.Gone:
			p.Para("", "gone already: "+m.Words())
		case m.Result == policy.Failed:
			p.Para("", "not known: "+m.Words()+": "+clean.Text(m.Error))
		case m.Result != "":
			p.Para("", "still mounted: "+m.Words()+": "+clean.Text(m.Error))
		case v.doubt:
			p.Para("", "not tried: "+m.Words()+m.stays())
		default:
			p.Para("", "still mounted: "+m.Words()+m.stays())
		}
	}
	if v.Stopped != "" && v.NeedsPerson() {
		p.Para("", "Stopped: "+clean.Text(v.Stopped)+".")
	}
}

// verdict writes, after a dry run, whether the pod is proved dead.
func (p *Printer) verdict(v *Unmount) {
	p.Gap()
	words := "The pod is not proved dead"
	if policy.Stopped(v.Why) {
		words = "Nothing can be unmounted now"
	}
	switch {
	case v.Verdict == policy.Reap:
		p.Para("", "The pod is proved dead. A dry run changes nothing.")
		return
	case !v.refused:
		words += " yet; the command waits for the hold"
	}
	p.Para("", words+": "+clean.Text(policy.WhyWords(v.Why))+".")
}
