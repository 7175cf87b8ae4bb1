package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// heap is some pods and what they hold.
type heap struct {
	pods  int
	bytes int64
}

func (h *heap) add(pod *podView) {
	h.pods++
	h.bytes += total(pod.Residue).Bytes
}

// podSums counts pods by what becomes of them: the first that a person wants to know.
type podSums struct {
	now, later, next heap // next: once those before them have proved dead
	first, last      time.Duration
	clears, waits    int
	person, asked    int // asked: kept by a person's own word
	alive, ended     int
	nobody           bool // no daemon holds them: that a time passes changes nothing
}

func sumPods(pods []podView) (s podSums) {
	for i := range pods {
		pod := &pods[i]
		due := time.Duration(pod.DueSeconds) * time.Second
		switch {
		case pod.ended():
			s.ended++
		case pod.outlook() == policy.OutlookAlive:
			s.alive++
		case pod.Verdict == policy.Reap:
			s.now.add(pod)
		case len(pod.Clear) > 0:
			s.clears++
		case pod.Verdict == policy.Wait && due > 0 && pod.waitsOnlyFor(policy.ReasonHold, policy.ReasonYoung):
			if s.later.pods == 0 || due < s.first {
				s.first = due
			}
			s.last = max(s.last, due)
			s.later.add(pod)
		case pod.Verdict == policy.Wait && pod.waitsOnlyFor(policy.ReasonLimit):
			s.next.add(pod)
		case pod.Verdict == policy.Wait:
			s.waits++
		case pod.outlook() == policy.OutlookPerson:
			s.person++
		default:
			s.asked++
		}
	}
	return s
}

// waitsOnlyFor reports whether nothing else keeps the pod than these. ReasonWaived keeps none: it says
// how it was judged.
func (v *podView) waitsOnlyFor(reasons ...policy.Reason) bool {
	one := false
	for _, r := range v.Reasons {
		switch {
		case slices.Contains(reasons, r):
			one = true
		case r != policy.ReasonWaived:
			return false
		}
	}
	return one
}

// sentence says what would become of the pods, what goes first. The first number has its noun.
func (s *podSums) sentence(now time.Time) string {
	var parts []string
	heaps := func(h heap, text string) {
		if h.pods > 0 {
			parts = append(parts, human.Count(h.pods, "pod")+", "+human.Size(h.bytes)+text)
		}
	}
	say := func(n int, one, many string) {
		switch {
		case n > 0 && len(parts) == 0:
			parts = append(parts, human.Count(n, "pod")+" "+human.Plural(n, one, many))
		case n > 0:
			parts = append(parts, human.Verb(n, one, many))
		}
	}
	when := " would be removed at " + human.Clock(now.Add(s.first), now)
	if last := human.Clock(now.Add(s.last), now); !strings.HasSuffix(when, " "+last) {
		when = " would be removed between " + human.Clock(now.Add(s.first), now) + " and " + last
	}
	if s.nobody {
		when = " can be removed after a hold"
	}
	heaps(s.now, " would be removed now")
	heaps(s.next, " after that")
	heaps(s.later, when)
	const clears = " cleared, so that the kubelet can finish"
	say(s.clears, "would be"+clears, "would be"+clears)
	say(s.waits, "waits", "wait")
	say(s.asked, "is kept, as you asked", "are kept, as you asked")
	say(s.person, "needs you", "need you")
	if len(parts) == 0 {
		return "Nothing would be removed."
	}
	return strings.Join(parts, "; ") + "."
}

// living says how many pods live or have ended, and whether they are listed, or how they would be.
func (s *podSums) living(v *Report, how string) string {
	var all []string
	say := func(n int, one, many string, listed bool) {
		text := human.Count(n, "pod") + " " + human.Plural(n, one, many)
		if !listed {
			text += " and " + human.Plural(n, "is", "are") + " not listed" + how
		}
		if n > 0 {
			all = append(all, text+".")
		}
	}
	say(s.alive, "lives", "live", v.lists("alive"))
	say(s.ended, "that has ended stays in the runtime", "that have ended stay in the runtime", v.listsEnded())
	return strings.Join(all, " ")
}

// quarantined says how much lies in quarantine, and what of it nothing but a person ends.
func quarantined(entries []Entry) string {
	if len(entries) == 0 {
		return ""
	}
	conflicts, unlisted := 0, 0
	for i := range entries {
		if entries[i].Phase == policy.PhaseConflict {
			conflicts++
		}
		if entries[i].Phase == policy.PhaseUnlisted {
			unlisted++
		}
	}
	text := "In quarantine: " + human.Count(len(entries), "entry") + ", " + sizeOf(entries)
	if conflicts > 0 {
		text += "; " + human.Thousands(conflicts) + " in conflict"
	}
	if unlisted > 0 {
		text += "; " + human.Thousands(unlisted) + " not in the ledger"
	}
	return text + "."
}

// mostConflicts bounds the commands for what is in conflict.
const mostConflicts = 3

// conflicts are the pods that were asked for of which something lies in quarantine that only a person ends.
func (v *Report) conflicts() (uids []parsers.PodUID) {
	for i := range v.Quarantine {
		e := &v.Quarantine[i]
		if uid := parsers.PodUID(e.UID); e.Phase.OnlyByPerson() && (len(v.asked) == 0 || slices.Contains(v.asked, uid)) && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

// conflicts says of which pods something lies in quarantine that only a person ends, and what says how.
func (p *Printer) conflicts(v *Report) {
	uids := v.conflicts()
	if len(uids) == 0 {
		return
	}
	p.Printf("\n")
	p.Para("", "In conflict: "+human.Count(len(uids), "pod")+" had another directory made while one lay in quarantine. That one stays until you decide:")
	for i, uid := range uids {
		if i == mostConflicts {
			p.Printf("  # … and %s: orphan-reaper quarantine list\n", human.Count(len(uids)-i, "more pod"))
			return
		}
		p.Printf("  orphan-reaper explain %s\n", clean.Text(string(uid)))
	}
}

// sums is the head of scan and of sweep --dry-run.
func (p *Printer) sums(v *Report, shown []podView) {
	s := sumPods(shown)
	s.nobody = v.taker.Nobody() && !v.dryRun
	if len(shown) == 0 {
		p.Printf("No pod directories.\n")
	} else {
		p.Para("", s.sentence(v.now))
	}
	how, lying := " (--all)", quarantined(v.lying)
	if v.dryRun {
		how, lying = "", "" // sweep has no --all, and looks at what the ledger knows
	}
	for _, text := range []string{v.cniSums(), s.living(v, how), lying} {
		if text != "" {
			p.Para("", text)
		}
	}
}
