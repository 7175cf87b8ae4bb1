package audit

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Metric is one row of the table that the metrics and the docs use.
type Metric struct {
	Name    string // without the prefix orphan_reaper_
	Type    prometheus.ValueType
	Labels  string // their names, with spaces between them
	Help    string
	Meaning string // for the docs: the values of the labels, and what to do
	collect func(v view, emit emit)
}

// emit adds one series.
type emit func(value float64, labels ...string)

// view is what one scrape is made of. Nothing changes it.
type view struct {
	reaper.Status
	scanned    bool // there was a scan: Status is not empty
	took       time.Duration
	hangs      bool // a call that changes the disk has not returned
	lastReport time.Time
	version    string
	lines      float64
	events     map[judge.EventKind]float64
	bytes      map[string]float64 // removed, by class
	cniRemoved float64
}

// MetricTable is the table of metrics, in the order of the docs. A series that is not known is absent.
var MetricTable = [...]Metric{
	{"build_info", gauge, "version goversion", "1, with the version of orphan-reaper and of the Go that built it.", "", buildInfo},
	{
		"last_scan_timestamp_seconds", gauge, "", "Time of the last scan, seconds since the epoch.",
		"It is at most an hour old. If it is older, the daemon hangs, has crashed, or cannot read the node.", lastScan,
	},
	{"scan_duration_seconds", gauge, "", "Duration of the last scan with all that was done after it.", "", duration},
	{
		"problems", gauge, "", "Things that the last scan could not read or write.",
		"`orphan-reaper scan` lists them.", problems,
	},
	{
		"breaker_open", gauge, "", "1 while nothing is moved or removed because a quarantined pod turned out to be alive.",
		"Find the cause, then run `orphan-reaper quarantine resume`.", breakerOpen,
	},
	{
		"stopped", gauge, "reason", "1 for the reason why nothing may be moved or removed now.",
		"The reasons are observe, breaker, cannot-move, stuck, no-kubelet and not-visible. All are 0 while the daemon may act.", stoppedBy,
	},
	{
		"pods", gauge, "state", "Pods at the last scan, by state; a pod may be in several states.",
		"directory: it has a pod directory. listed: the kubelet's PodsAPI has it, which kubelets before 1.37 lack. running: a runtime has a ready sandbox or a running " +
			"container. static: it returns under its UID. reported: the kubelet reports it as an orphan. hidden: only the kubelet's " +
			"report is missing, while it reports a pod that is kept. removable: it is removed, or would be if that were not stopped. " +
			"operator: only an operator can end what keeps it. " +
			"A state is absent if nothing on the node shows it.", pods,
	},
	{
		"verdicts", gauge, "verdict", "Entries of the pods directory at the last scan, by verdict.",
		"The verdicts are keep, wait, remove and alive.", verdicts,
	},
	{
		"quarantine_entries", gauge, "phase", "Directories in quarantine, by phase.",
		"conflict and retained wait for an operator where they hold data; quarantined waits for the end of confirm.", quarantineEntries,
	},
	{
		"quarantine_bytes", gauge, "class", "Bytes of retained directories in quarantine, by class of content.",
		"data waits for an operator: `orphan-reaper quarantine list`.", quarantineBytes,
	},
	{
		"events_total", counter, "event", "Events since the start, by kind.",
		"The kinds are those of the journal's records, such as quarantined, restored, removed and failed.", events,
	},
	{"removed_bytes_total", counter, "class", "Bytes of dead pods that were removed, by class of content.", "", removedBytes},
	{
		"cni_files", gauge, "state", "Files of CNI plugins about sandboxes, by state.",
		"stale: the next sweep removes it. waiting: its sandbox is gone, and it is not old enough. unknown: it cannot be judged, " +
			"and is kept. others: of no sandbox of the kubelet, such as Podman's. live: of a sandbox that the runtime lists.", cniFiles,
	},
	{"cni_bytes", gauge, "", "Bytes of these files.", "", cniBytes},
	{"cni_removed_files_total", counter, "", "Stale CNI files that were removed.", "", cniRemovedFiles},
	{
		"cni_addresses", gauge, "network state", "Addresses of a host-local network.",
		"used: reserved. stale and waiting: those of them whose sandbox is gone. size: how many its ranges have, absent if not known. " +
			"At most 64 networks have series: full ones first, then those with the most used addresses.", cniAddresses,
	},
	{
		"cni_network_full", gauge, "network", "1 if the network has no address left for a new pod.",
		"No new pod of the network starts on this node.", cniFull,
	},
	{
		"log_lines_total", counter, "", "Lines of the kubelet's log that were read.",
		"If it does not rise, the daemon follows no log: `orphan-reaper doctor`.", lines,
	},
	{
		"last_report_timestamp_seconds", gauge, "", "When the kubelet last reported an orphan, seconds since the epoch.",
		"Absent until the first report after the start.", lastReport,
	},
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

func buildInfo(v view, emit emit) { emit(1, v.version, runtime.Version()) }

func lastScan(v view, emit emit) { emit(seconds(v.At.Wall)) } // 0 before the first one, so that an alert sees it

func duration(v view, emit emit) {
	if v.scanned {
		emit(v.took.Seconds())
	}
}

func problems(v view, emit emit) { emit(float64(len(v.Problems))) }

func breakerOpen(v view, emit emit) { emit(flag(v.Breaker != nil)) }

func stoppedBy(v view, emit emit) {
	for _, r := range []judge.ReasonName{judge.ModeObserve, judge.BreakerOpen, judge.CannotMove, judge.Stuck, judge.NoKubelet, judge.NotVisible} {
		emit(flag(v.Stopped != nil && v.Stopped.Reason == r || v.hangs && r == judge.Stuck), string(r))
	}
}

func pods(v view, emit emit) {
	if !v.scanned {
		return
	}
	count := func(state string, is func(p *reaper.PodStatus) bool) {
		n := 0
		for i := range v.Pods {
			if v.Pods[i].UID != "" && is(&v.Pods[i]) {
				n++
			}
		}
		emit(float64(n), state)
	}
	fact := func(state string, f judge.FactName) {
		unknown := func(p reaper.PodStatus) bool { return p.Facts[f].Truth == judge.Unknown }
		if known := len(v.Pods) == 0 || slices.ContainsFunc(v.Pods, func(p reaper.PodStatus) bool { return !unknown(p) }); known {
			count(state, func(p *reaper.PodStatus) bool { return p.Facts[f].Truth == judge.Yes })
		}
	}
	count("directory", func(*reaper.PodStatus) bool { return true })
	fact("listed", judge.Listed)
	fact("running", judge.Running)
	count("static", func(p *reaper.PodStatus) bool { return p.Static })
	fact("reported", judge.Reported)
	emit(float64(v.Hidden), "hidden")
	count("removable", func(p *reaper.PodStatus) bool {
		return p.Decision == judge.Remove || v.Stopped != nil && len(p.Reasons) == 1 && p.Reasons[0].Reason == v.Stopped.Reason
	})
	count("operator", func(p *reaper.PodStatus) bool { return p.Operator })
}

func verdicts(v view, emit emit) {
	n := map[judge.Decision]int{}
	for i := range v.Pods {
		n[v.Pods[i].Decision]++
	}
	for _, d := range []judge.Decision{judge.Keep, judge.Wait, judge.Remove, judge.IsAlive} {
		emit(float64(n[d]), d.String())
	}
}

func quarantineEntries(v view, emit emit) {
	n := map[judge.Phase]int{}
	for i := range v.Quarantine {
		n[v.Quarantine[i].Phase]++
	}
	for _, p := range []judge.Phase{
		judge.Moving, judge.Quarantined, judge.Restoring, judge.Cleaning, judge.Retained, judge.Purging, judge.InConflict,
	} {
		emit(float64(n[p]), string(p))
	}
}

func quarantineBytes(v view, emit emit) {
	n := map[content.Class]int64{}
	for i := range v.Quarantine {
		for _, r := range v.Quarantine[i].Left {
			n[r.Class] += r.Bytes
		}
	}
	for _, c := range classes {
		emit(float64(n[c]), c.String())
	}
}

var classes = []content.Class{content.Data, content.Ephemeral, content.Projected, content.Skeleton}

func events(v view, emit emit) {
	for _, r := range Records {
		emit(v.events[r.Kind], string(r.Kind))
	}
}

func removedBytes(v view, emit emit) {
	for _, c := range classes {
		emit(v.bytes[c.String()], c.String())
	}
}

func cniFiles(v view, emit emit) {
	if c := v.CNI; c != nil {
		emit(float64(max(0, c.Files-c.Stale-c.Waiting-c.Unknown-c.Others)), "live")
		emit(float64(c.Stale), "stale")
		emit(float64(c.Waiting), "waiting")
		emit(float64(c.Unknown), "unknown")
		emit(float64(c.Others), "others")
	}
}

func cniBytes(v view, emit emit) {
	if v.CNI != nil {
		emit(float64(v.CNI.Bytes))
	}
}

func cniRemovedFiles(v view, emit emit) { emit(v.cniRemoved) }

// mostNetworks bounds the series: users of a cluster may make networks.
const mostNetworks = 64

func networks(v view) []reaper.CNINetwork {
	if v.CNI == nil {
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(v.CNI.Networks), func(n reaper.CNINetwork) bool { return n.Keeper != "" })
	slices.SortStableFunc(all, func(a, b reaper.CNINetwork) int {
		return cmp.Or(cmp.Compare(flag(b.Full), flag(a.Full)), cmp.Compare(b.Used, a.Used))
	})
	return all[:min(len(all), mostNetworks)]
}

func cniAddresses(v view, emit emit) {
	for _, n := range networks(v) {
		emit(float64(n.Used), n.Name, "used")
		emit(float64(n.Stale), n.Name, "stale")
		emit(float64(n.Waiting), n.Name, "waiting")
		if n.Size > 0 {
			emit(float64(n.Size), n.Name, "size")
		}
	}
}

func cniFull(v view, emit emit) {
	for _, n := range networks(v) {
		emit(flag(n.Full), n.Name)
	}
}

func lines(v view, emit emit) { emit(v.lines) }

func lastReport(v view, emit emit) {
	if !v.lastReport.IsZero() {
		emit(seconds(v.lastReport))
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns a time in seconds since the epoch, or 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
