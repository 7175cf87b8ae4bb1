package ui

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// The values of "outcome" in sweep's output.
const (
	outcomeQuarantined     = "quarantined"
	outcomeRemoved         = "removed"
	outcomeKept            = "kept"
	outcomeFailed          = "failed"
	outcomeWouldQuarantine = "would-quarantine"
	outcomeWouldRemove     = "would-remove"
)

// Report is a reaper.Report in JSON. Lists are never null.
type Report struct {
	Pods []podView `json:"pods"`
	// RuntimeOnly are the pods that only the runtime has.
	RuntimeOnly []podView `json:"runtime_only"`
	CNI         []cniView `json:"cni"`
	// CNITotals counts all files of CNI; the first of them are in CNI.
	CNITotals  cniTotalsView `json:"cni_totals"`
	Errors     []string      `json:"errors"`
	Quarantine []Entry       `json:"quarantine"`
	Node       *nodeView     `json:"node,omitempty"`

	show    Show
	now     time.Time
	remover Remover
	halted  bool // by the breaker
	// unlisted counts the directories in quarantine that the ledger does not have.
	unlisted int
	// misplaced: the quarantine is not the right one, or cannot be read, so that a sweep would fail.
	misplaced bool
}

// Show selects the pods of a report and of its table. JSON always has all requested pods.
type Show struct {
	Swept   bool             // show the outcomes of a sweep
	DryRun  bool             // show the outcomes that a sweep would have
	Only    []parsers.PodUID // the requested pods, none for all
	All     bool             // also list living pods, and list each CNI file by itself
	Verdict string           // list only pods with this verdict, or "alive"
}

// podView is one pod directory, or one parked pod.
type podView struct {
	UID       string           `json:"uid"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Verdict   policy.Decision  `json:"verdict"`
	Outcome   string           `json:"outcome,omitempty"`
	Reasons   []policy.Reason  `json:"reasons"`
	Why       []policy.Why     `json:"why"`
	Facts     factsView        `json:"facts"`
	Residue   []policy.Residue `json:"residue"`
	// Clear lists the directories whose content is moved to quarantine, so that the kubelet can finish with the pod.
	Clear []string `json:"clear,omitempty"`
	// Directory is the entry's name, quoted, where it is no UID.
	Directory string `json:"directory,omitempty"`
	Parked    bool   `json:"parked,omitempty"`
	Entry     string `json:"entry,omitempty"`
	// DueSeconds is the time after which the verdict can change by itself.
	DueSeconds int `json:"due_seconds,omitempty"`
	// Sandboxes are the pod's sandboxes, if the runtime's list is complete.
	Sandboxes []policy.Sandbox `json:"sandboxes,omitempty"`
	Error     string           `json:"error,omitempty"`

	evidence *policy.Evidence // the report's, not copied: it is large
}

// nodeView is what the look found about the node itself.
type nodeView struct {
	Kubelet      policy.Fact `json:"kubelet"`
	KubeletPID   int         `json:"kubelet_pid,omitempty"`
	RuntimeLists policy.Fact `json:"runtime_lists"`
	MayEnforce   policy.Fact `json:"may_enforce"`
	Agrees       policy.Fact `json:"agrees"`
	policy.Means
	// Gauges are the kubelet's own; OrphansNamed and OrphansOnDisk count the entries in this report that the
	// kubelet has reported in its log since its start, and that are on disk.
	Gauges        policy.KubeletGauges `json:"kubelet_gauges"`
	OrphansNamed  int                  `json:"orphans_named"`
	OrphansOnDisk int                  `json:"orphans_on_disk"`
	// Pods counts the node's pods by state; a state that is not known is left out, and all are
	// where only some pods were asked for.
	Pods summary.Counts `json:"pods"`
}

// factsView is the facts by name; remade and used are read of parked pods only.
type factsView struct {
	facts  *policy.Facts
	parked bool
}

// MarshalJSON writes an object of all facts by name.
func (v factsView) MarshalJSON() ([]byte, error) {
	facts := map[string]policy.Fact{}
	for n := range policy.NumFacts {
		if (n != policy.FactRemade && n != policy.FactUsed) || v.parked {
			facts[n.String()] = v.facts[n]
		}
	}
	return json.Marshal(facts)
}

// list returns s, or an empty list if s is nil: the JSON has no null lists.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func reasonsOf(why []policy.Why) []policy.Reason {
	reasons := []policy.Reason{}
	for _, w := range why {
		reasons = append(reasons, w.Reason)
	}
	return reasons
}

func viewPod(p *policy.Judged) podView {
	e := &p.Evidence
	pod := podView{
		UID: string(e.UID), Namespace: e.Namespace, Name: e.PodName, Verdict: p.Decision, Reasons: reasonsOf(p.Why), Why: list(p.Why),
		Residue: list(e.Residue), Facts: factsView{&e.Facts, e.Entry != ""}, Parked: e.Entry != "", Entry: e.Entry, Sandboxes: e.Sandboxes, evidence: e,
	}
	if e.UID == "" {
		pod.Directory = strconv.Quote(e.Name)
	}
	switch {
	case !pod.Parked:
		pod.Clear, pod.DueSeconds = p.Verdict.Leaves, int(p.Due.Seconds())
	case p.Decision == policy.Return: // a pod that is put back is kept
		pod.Verdict = policy.Keep
	}
	return pod
}

func viewPods(pods []policy.Judged, stages ...policy.Stage) []podView {
	views := make([]podView, 0, len(pods))
	for p := range policy.At(pods, stages...) {
		views = append(views, viewPod(p))
	}
	return views
}

// NewReport converts a report for display.
func NewReport(r reaper.Report, c Context, show Show) Report {
	v := Report{
		Pods: viewPods(r.Pods, policy.InPlace, policy.InQuarantine), RuntimeOnly: viewPods(r.Pods, policy.InRuntime),
		CNI: viewCNI(cni.ReportOf(r.CNI), show), Errors: list(r.Look.Errors), Quarantine: []Entry{},
		Node: viewNode(&r), show: show, now: c.Now.Wall, halted: r.Stopped,
		remover: RemoverOf(r.Look.Node, r.Stopped, c.Daemon, c.Observe, c.Hold+c.Confirm),
	}
	v.CNITotals = totalCNI(cni.ReportOf(r.CNI), len(v.CNI))
	for _, e := range r.Entries {
		if e.Phase.InQuarantine() {
			v.Quarantine = append(v.Quarantine, viewEntry(e, c))
		}
	}
	v.unlisted, v.misplaced = len(c.Unlisted), r.Quarantine != nil
	if show.Swept {
		v.outcomes(r.Outcomes)
	}
	v.narrow()
	return v
}

func viewNode(r *reaper.Report) *nodeView {
	n := r.Look.Node
	v := &nodeView{
		Kubelet: n.Kubelet, KubeletPID: n.KubeletID.PID, RuntimeLists: n.RuntimeLists, MayEnforce: n.MayEnforce, Agrees: n.Agrees, Means: r.Means,
		Gauges: n.Gauges, Pods: summary.CountPods(&r.Look, r.Pods),
	}
	for p := range policy.At(r.Pods, policy.InPlace) {
		if audit.Orphan(&p.Evidence) {
			v.OrphansOnDisk++
		}
		if p.Facts[policy.FactNamed].Truth == policy.Yes {
			v.OrphansNamed++
		}
	}
	return v
}

func (v *podView) outlook() policy.Outlook { return policy.OutlookOf(v.Verdict, v.Why) }

func (v *podView) title() string {
	if v.UID == "" {
		return strconv.QuoteToASCII(v.evidence.Name)
	}
	return v.UID
}

// podName returns NAMESPACE/NAME or the name alone, "" if neither is known.
func podName(namespace, name string) string { return clean.Text(policy.FullName(namespace, name)) }

// NeedsPerson reports whether anything in the report is kept, or is in quarantine, that needs an operator.
func (v *Report) NeedsPerson() bool {
	for _, pods := range [][]podView{v.Pods, v.RuntimeOnly} {
		for i := range pods {
			if pods[i].outlook() == policy.OutlookPerson || pods[i].Outcome == outcomeFailed {
				return true
			}
		}
	}
	return v.CNITotals.ForPerson > 0 || v.CNITotals.Failed > 0 || len(v.conflicts()) > 0
}

// Failed counts the pods for which something failed.
func (v *Report) Failed() (n int) {
	for _, pod := range v.shown() {
		if pod.Outcome == outcomeFailed {
			n++
		}
	}
	return n
}

// shown returns the pods that text shows: all except those that only the runtime has and that live.
func (v *Report) shown() []podView {
	live := func(pod podView) bool { return pod.outlook() == policy.OutlookAlive }
	return slices.Concat(v.Pods, slices.DeleteFunc(slices.Clone(v.RuntimeOnly), live))
}

// lists reports whether the table lists a pod.
func (v *Report) lists(pod *podView) bool { return v.listsWord(v.word(pod)) }

// listsWord reports whether the table lists pods and files of this word.
func (v *Report) listsWord(word string) bool {
	if v.show.Verdict != "" {
		return v.show.Verdict == word
	}
	return v.show.All || word != wordAlive
}

// narrow drops pods that were not requested and that no sweep acted on. It adds an error for each requested pod that does not
// exist.
func (v *Report) narrow() {
	uids := v.show.Only
	other := func(pod podView) bool {
		return len(uids) > 0 && (pod.Outcome == "" || v.show.DryRun) && !slices.Contains(uids, parsers.PodUID(pod.UID))
	}
	v.Pods, v.RuntimeOnly = slices.DeleteFunc(v.Pods, other), slices.DeleteFunc(v.RuntimeOnly, other)
	for _, uid := range uids {
		of := func(pod podView) bool { return pod.UID == string(uid) }
		if slices.ContainsFunc(v.Pods, of) || slices.ContainsFunc(v.RuntimeOnly, of) {
			continue
		}
		where := "none in quarantine"
		if slices.ContainsFunc(v.Quarantine, func(e Entry) bool { return e.UID == string(uid) }) {
			where = "it lies in quarantine: orphan-reaper explain " + string(uid)
		}
		v.Errors = append(v.Errors, string(uid)+": no such pod directory, and "+where)
	}
}

// size returns a size for people; partial is true where more was not counted.
func size(bytes int64, partial bool) string {
	if partial {
		return "at least " + human.Size(bytes)
	}
	return human.Size(bytes)
}

// partial reports whether there is more than was counted.
func partial(rs []policy.Residue) bool {
	return slices.ContainsFunc(rs, func(r policy.Residue) bool { return r.Partial })
}

// partialNote is a row's note where its size is not the whole.
const partialNote = "not counted to its end"

// total returns the sum of the residue.
func total(rs []policy.Residue) policy.Tally {
	var t policy.Tally
	for _, r := range rs {
		t.Add(policy.Tally{Entries: r.Entries, Bytes: r.Bytes})
	}
	return t
}
