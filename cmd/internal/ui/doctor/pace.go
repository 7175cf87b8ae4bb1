package doctor

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
)

// pace is when the daemon gets to each pod. After its start it parks one pod alone: the others follow when
// that one has been in quarantine for a time without a sign of life.
type pace struct {
	dues  map[int]time.Duration // by place among the pods of the diagnosis
	waits time.Duration         // the shortest of those that wait for the first pod
	parks bool                  // the first pod has yet to be parked
	slow  bool                  // some pod waits for the first one
}

// paceOf returns when each pod goes that waits for nothing but time.
func paceOf(d *diagnosis.Diagnosis, c *diagnosis.Case, now time.Time) pace {
	p := pace{dues: map[int]time.Duration{}, parks: c.Daemon.Parked.IsZero()}
	first := -1
	for i := range d.Pods {
		pod := &d.Pods[i]
		if pod.Fate != diagnosis.Goes || ui.InUse(pod.Verdict.Why) != "" || pod.Verdict.For(policy.ReasonKubeletFile) {
			continue
		}
		p.dues[i] = max(0, pod.Verdict.Due)
		if pod.Cleaned() {
			continue
		}
		if first < 0 || p.dues[i] < p.dues[first] {
			first = i
		}
	}
	if c.Daemon.Runs != policy.Yes || c.Daemon.Proven || first < 0 {
		return p
	}
	from := p.dues[first] // from now until the first pod is parked
	if !p.parks {
		from, first = -now.Sub(c.Daemon.Parked), -1
	}
	for i, due := range p.dues {
		wait := diagnosis.FirstWait(d.Pods[i].Evidence, c.Rules)
		if i == first || due >= from+wait || d.Pods[i].Cleaned() {
			continue
		}
		p.dues[i] = from + wait
		if !p.slow || wait < p.waits {
			p.slow, p.waits = true, wait
		}
	}
	return p
}

func (p pace) due(i int) time.Duration { return p.dues[i] }

// why says what the pods wait for, "" where none waits for another.
func (p pace) why() string {
	if !p.slow {
		return ""
	}
	who, first := "the others", "the first"
	if !p.parks {
		who, first = "they", "the first pod since the daemon's start"
	}
	return who + " follow when " + first + " has been in quarantine for " + human.Span(p.waits) + " without a sign of life"
}
