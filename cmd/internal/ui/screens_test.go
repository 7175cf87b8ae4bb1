package ui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The busy node of these tests has a pod of every kind that is shown differently.
const (
	pods       = "/var/lib/kubelet/pods"
	uidReap    = "0badf00d-0001-4aaa-8bbb-cccc00000001"
	uidHold    = "0badf00d-0002-4aaa-8bbb-cccc00000002"
	uidMounted = "0badf00d-0003-4aaa-8bbb-cccc00000003"
	uidAlive   = "0badf00d-0004-4aaa-8bbb-cccc00000004"
	uidUsed    = "0badf00d-0005-4aaa-8bbb-cccc00000005"
	uidHeld    = "0badf00d-0006-4aaa-8bbb-cccc00000006"
	uidElder   = "0badf00d-0007-4aaa-8bbb-cccc00000007"
)

var screenNow = time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)

func ago(d time.Duration) policy.Instant {
	return policy.Instant{Wall: screenNow.Add(-d), BootID: "b", Boot: 1000*time.Hour - d}
}

func busyContext() Context {
	return Context{
		Now: ago(0), Hold: 5 * time.Minute, Confirm: 5 * time.Minute, Retention: 24 * time.Hour,
		Place:  Place{PodsDir: pods, QuarantineDir: "/var/lib/kubelet/orphan-reaper", Node: "n1"},
		Daemon: summary.Daemon{Runs: policy.Yes, Mode: "enforce"},
	}
}

func deadEvidence(uid, namespace, name string, residue ...policy.Residue) policy.Evidence {
	e := policy.Evidence{
		Name: uid, UID: parsers.PodUID(uid), Namespace: namespace, PodName: name, Changed: screenNow.Add(-26 * time.Hour), Residue: residue,
	}
	for n := range policy.NumFacts {
		e.Facts.Set(n, policy.No, "/proc", "")
	}
	e.Facts.Set(policy.FactDirectory, policy.Yes, pods, "")
	return e
}

func busyReport() reaper.Report {
	var r reaper.Report
	add := func(e policy.Evidence, d policy.Decision, due time.Duration, why ...policy.Why) {
		r.Pods = append(r.Pods, policy.Judged{Evidence: e, Verdict: policy.Verdict{Decision: d, Why: why, Due: due}})
	}
	yes := policy.Fact{Truth: policy.Yes, Origin: "/proc/812", Detail: "running since 2026-11-18 03:00:00 UTC"}
	r.Look.Node = policy.Node{
		Kubelet: yes, RuntimeLists: yes, Agrees: yes, MayEnforce: yes, KubeletID: policy.KubeletID{PID: 812},
		Gauges: policy.KubeletGauges{Uncleaned: new(int64(7))},
	}
	r.Means.Landlock = policy.Fact{Truth: policy.No, Detail: "ABI 1 cannot allow a rename between directories"}
	r.Look.At.Wall = screenNow
	r.Look.Errors = []string{"cannot read /proc/4242/mountinfo: permission denied"}
	skeleton := policy.Residue{Path: "etc-hosts", Class: contents.ClassSkeleton, Bytes: 4096, Entries: 1}
	scratch := policy.Residue{Path: "volumes/kubernetes.io~empty-dir/cache", Class: contents.ClassEphemeral, Bytes: 70 << 20, Entries: 1200}
	data := policy.Residue{Path: "volumes/kubernetes.io~local-volume/pgdata\x1b[2J", Class: contents.ClassData, Bytes: 5 << 30, Entries: 90000, Partial: true}

	add(deadEvidence(uidReap, "default", "web-0", skeleton), policy.Reap, 0)
	add(deadEvidence(uidHold, "batch", "job-with-a-name-that-is-rather-long-29k4x", scratch), policy.Wait, 190*time.Second,
		policy.Why{Reason: policy.ReasonHold, Detail: "the evidence has been good for 1m50s of 5m0s"})
	mounted := deadEvidence(uidMounted, "db", "postgres-1", skeleton, data)
	mounted.Facts.Set(policy.FactMounted, policy.Yes, "/proc/3150/mountinfo", pods+"/"+uidMounted+"/volumes/x")
	mounted.Facts.Set(policy.FactInUse, policy.Unknown, "/proc", "cannot read /proc/4242/fd: permission denied")
	mounted.Unmount = "orphan-reaper unmount " + uidMounted
	add(mounted, policy.Keep, 0,
		policy.Why{Reason: policy.ReasonMounted, Detail: pods + "/" + uidMounted + "/volumes/x" + policy.Unmounting(mounted.Unmount)},
		policy.Why{Reason: policy.ReasonInUse, Detail: "cannot read /proc/4242/fd: permission denied"})
	add(deadEvidence(uidAlive, "kube-system", "cilium-x2b9q"), policy.Keep, 0, policy.Why{Reason: policy.ReasonSandbox, Detail: "sandbox 9f2c, ready"})
	add(deadEvidence(uidUsed, "", "", skeleton), policy.Wait, 0,
		policy.Why{Reason: policy.ReasonInUse, Detail: "PID 4242 (tail) has volumes/log as an open file"})
	add(policy.Evidence{Name: "lost+found\x1b[2J"}, policy.Keep, 0, policy.Why{Reason: policy.ReasonInvalidUID, Detail: "the name is no pod UID"})
	r.Entries = []policy.EntryState{
		{
			Entry: uidHeld, UID: uidHeld, Phase: policy.PhaseConfirmed, Namespace: "batch", PodName: "etl-1", Parked: policy.Parked{At: ago(22 * time.Hour)},
			ConfirmedAt: ago(21 * time.Hour), Left: []policy.Residue{scratch, data}, Taken: map[string]policy.Tally{"skeleton": {Entries: 4, Bytes: 12288}},
			VolData: map[string]string{"volumes/kubernetes.io~csi/pvc-1/vol_data.json": `{"driverName":"ebs.csi.aws.com"}` + "\n"},
			Why:     []policy.Why{{Reason: policy.ReasonMounted, Detail: "process 812 mounts it"}},
		},
		{
			Entry: uidElder + ".conflict", UID: uidElder, Phase: policy.PhaseConflict, Parked: policy.Parked{At: ago(72 * time.Hour)},
			Left: []policy.Residue{scratch},
		},
	}
	files := &cni.Report{Census: cni.NewCensus()}
	for i, d := range []policy.Decision{policy.Reap, policy.Keep} {
		f := cni.File{Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: []string{"cbr0-a-eth0", "podman-b-eth0"}[i], Network: []string{"cbr0", "podman"}[i]}
		f.ID.Size = 1536
		v := policy.Verdict{Decision: d}
		if d == policy.Keep {
			v.Why = []policy.Why{{Reason: policy.ReasonForeign, Detail: "no network configuration names podman"}}
		}
		files.Files, files.Verdicts = append(files.Files, f), append(files.Verdicts, v)
		files.Census.Judged(&f, v)
	}
	r.CNI = files
	return r
}

// sweptReport is the busy node after a pass with several kinds of outcomes.
func sweptReport() reaper.Report {
	r := busyReport()
	act := func(kind policy.ActionKind, uid string, result policy.Result, err string) {
		e := deadEvidence(uid, "", "")
		o := policy.Outcome{Action: policy.Action{Kind: kind, UID: e.UID, Entry: uid, Evidence: &e}, Result: result, Err: err}
		if err != "" {
			o.Why = []policy.Why{{Reason: policy.ReasonRemoval, Detail: err}}
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	act(policy.Park, uidReap, policy.Done, "")
	act(policy.Strip, uidReap, policy.Done, "")
	act(policy.Park, "0badf00d-0011-4aaa-8bbb-cccc00000011", policy.Failed, "cannot move it: input/output error")
	act(policy.Park, "0badf00d-0012-4aaa-8bbb-cccc00000012", policy.Done, "")
	return r
}

func busyHistory() []policy.Record {
	r := policy.Record{Kind: policy.KindParked, Seq: 11, UID: uidHeld, Entry: uidHeld, Namespace: "batch", PodName: "etl-1", At: ago(22 * time.Hour)}
	return []policy.Record{r}
}

// screens returns all screens of the busy node, each with the struct for JSON.
func screens() map[string]struct {
	model any
	write func(*Printer)
} {
	c := busyContext()
	scan, swept, dry := NewReport(busyReport(), c, Show{}), NewReport(sweptReport(), c, Show{Swept: true}), NewReport(busyReport(), c, Show{Swept: true, DryRun: true})
	one := busyReport()
	mounted := NewExplanation(one, c, uidMounted, "", nil)
	held := NewExplanation(busyReport(), c, uidHeld, "", busyHistory())
	archives := []cni.ArchiveState{{Name: "cni-20261120-001415-000", At: ago(3 * time.Hour), Files: 2048, Bytes: 3 << 20}}
	list := NewQuarantine(busyReport().Entries, archives, &policy.Record{Kind: policy.KindBreaker, UID: uidElder, At: ago(5 * time.Hour)}, c)
	outcome := policy.Outcome{Action: policy.Action{Kind: policy.PutBack, UID: uidHeld, Entry: uidHeld}, Result: policy.Done}
	many := healthyNode()
	doctored["many"](&many)
	doctor := NewDoctor(many, c)
	type screen = struct {
		model any
		write func(*Printer)
	}
	return map[string]screen{
		"scan":            {scan, func(p *Printer) { p.Report(&scan) }},
		"sweep":           {swept, func(p *Printer) { p.Report(&swept) }},
		"sweep-dry-run":   {dry, func(p *Printer) { p.Report(&dry) }},
		"doctor":          {doctor, func(p *Printer) { p.Doctor(&doctor) }},
		"explain":         {mounted, func(p *Printer) { p.Explain(mounted) }},
		"explain-entry":   {held, func(p *Printer) { p.Explain(held) }},
		"quarantine-list": {list, func(p *Printer) { p.Quarantine(list) }},
		"restore": {NewRestored(NewOutcomes([]policy.Outcome{outcome}), cni.Restored{}), func(p *Printer) {
			p.Restored(c, busyReport().Entries[0], outcome, cni.Restored{})
		}},
	}
}

// TestScreens checks that each screen is rendered as text, as lines of a pipe, and as JSON without null lists, and
// that no text of the node controls a terminal.
func TestScreens(t *testing.T) {
	for name, screen := range screens() {
		out, object := printed(t, screen.write), printed(t, func(p *Printer) { testkit.Must(t, p.JSON(screen.model)) })
		testkit.Golden(t, "testdata/"+name+".txt", out)
		if name == "explain" {
			testkit.Golden(t, "testdata/explain.json", object)
		}
		for _, text := range []string{out, object} {
			if strings.ContainsRune(text, '\x1b') {
				t.Errorf("%s: an escape sequence of the node", name)
			}
		}
		var v any
		testkit.Must(t, json.Unmarshal([]byte(object), &v))
		checkLists(t, name, v)
	}
}

// TestArchivePurgeAt checks that a leap of the wall clock does not change when an archive is shown to be dropped, and
// that one whose age is unknown has no such time.
func TestArchivePurgeAt(t *testing.T) {
	c := busyContext()
	leapt := ago(3 * time.Hour)
	leapt.Wall = leapt.Wall.AddDate(-50, 0, 0)
	views := viewArchives([]cni.ArchiveState{{Name: "cni-1", At: leapt}, {Name: "cni-2", Err: "damaged"}}, c)
	if want := screenNow.Add(c.Retention - 3*time.Hour); !views[0].PurgeAt.Equal(want) || !views[1].PurgeAt.IsZero() {
		t.Errorf("purged at %s and %s, want %s and never", views[0].PurgeAt, views[1].PurgeAt, want)
	}
}

// checkLists fails if JSON has null for a list. Only times and "stopped" may be null.
func checkLists(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case nil:
		if key := path[strings.LastIndex(path, "/")+1:]; !slices.Contains([]string{"purge_at", "by", "stopped", "first", "last"}, key) {
			t.Errorf("%s is null", path)
		}
	case map[string]any:
		for key, value := range v {
			checkLists(t, path+"/"+key, value)
		}
	case []any:
		for _, value := range v {
			checkLists(t, path, value)
		}
	}
}

// printed returns what write prints in a pipe.
func printed(t *testing.T, write func(p *Printer)) string {
	t.Helper()
	var out bytes.Buffer
	p := NewPrinter(&out, noEnv)
	write(p)
	testkit.Must(t, p.Flush())
	return out.String()
}

// words returns the text without line breaks.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestExplainAnswers checks the result of explain for each kind of pod.
func TestExplainAnswers(t *testing.T) {
	for uid, want := range map[string]string{
		uidReap:  "Dead, and nothing is mounted or in use. The next sweep moves it to quarantine.",
		uidAlive: "This pod lives. It is left alone.",
		uidHold:  "Not yet. The reasons end by themselves.",
		uidUsed:  "Not yet. It is removed when PID 4242 (tail) ends.",
	} {
		x := NewExplanation(busyReport(), busyContext(), parsers.PodUID(uid), "", nil)
		if text := printed(t, func(p *Printer) { p.Explain(x) }); !strings.Contains(words(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestSizesNotYetKnown checks that an entry that was not measured has no size.
func TestSizesNotYetKnown(t *testing.T) {
	for want, views := range map[string][]Entry{
		"1 entry; 1 of a size not yet known":            {{}},
		"2 entries, 4.0 KiB; 1 of a size not yet known": {{}, {Bytes: 4096, Residue: []policy.Residue{{}}}},
	} {
		if got := entrySum(views); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestUnmountDryRun checks that a dry run for a pod for which the command would be refused reports that and exits for
// the operator.
func TestUnmountDryRun(t *testing.T) {
	for due, refused := range map[time.Duration]bool{0: true, time.Minute: false} {
		u := &reaper.Unmounting{UID: shortUID, Left: []policy.Mount{{Path: "volumes/v"}}}
		u.Verdict = policy.Verdict{Decision: policy.Wait, Due: due, Why: []policy.Why{{Reason: policy.ReasonInUse}}}
		v := NewUnmount(u, Context{}, true)
		text := printed(t, func(p *Printer) { p.Unmount(v) })
		if v.NeedsPerson() != refused || strings.Contains(text, "waits for the hold") == refused ||
			strings.HasPrefix(v.Next[0], "orphan-reaper explain") != refused {
			t.Errorf("%s: %v %s", due, v.Next, text)
		}
	}
}
