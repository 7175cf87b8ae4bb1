package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// whole returns all metrics of the program, CNI's included.
func whole() (*Metrics, *cni.Metrics) {
	m := NewMetrics("1.2.3")
	return m, cni.NewMetrics(m)
}

func fresh() *Metrics {
	m, _ := whole()
	return m
}

// busy returns the metrics of a daemon after every kind of event.
func busy() *Metrics {
	m, c := whole()
	m.Enforcing(true)
	m.Source("journald", true, noon.Add(-time.Second))
	m.Source("/var/log/a\"b\\c\nd", false, time.Time{})
	for range 3 {
		m.Sighting(parsers.ReportPathsPresent)
	}
	m.Quiet(2044)
	pod := func(uid parsers.PodUID, named, cgroup, sandbox policy.Truth, age time.Duration) policy.Evidence {
		e := policy.Evidence{UID: uid, Changed: noon.Add(-age)}
		e.Facts.Set(policy.FactNamed, named, "", "")
		e.Facts.Set(policy.FactCgroup, cgroup, "", "")
		e.Facts.Set(policy.FactSandbox, sandbox, "", "")
		return e
	}
	look := policy.Look{At: policy.Instant{Wall: noon}, Node: policy.Node{Gauges: policy.KubeletGauges{
		Uncleaned: new(int64(4)), Desired: new(int64(30)), Mirror: new(int64(4)), Working: []policy.WorkingPods{{Count: 30}, {Lifecycle: "terminating", Count: 1}},
	}}}
	pods := []policy.Evidence{
		{Name: "lost+found"},
		pod("a", policy.Yes, policy.Unknown, policy.Unknown, time.Hour),
		pod("b", policy.Yes, policy.No, policy.No, 2*time.Hour),
		pod("lives", policy.No, policy.Yes, policy.Yes, 1000*time.Hour),
		pod("stopped", policy.No, policy.No, policy.Yes, 1000*time.Hour),
		pod("unsure", policy.No, policy.Unknown, policy.No, 1000*time.Hour),
	}
	verdicts := []policy.Verdict{
		{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonInvalidUID}}},
		{Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonHold}, {Reason: policy.ReasonYoung}}},
		{Decision: policy.Reap},
		{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonSandbox}}},
		{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonSandbox}}},
		{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonCgroupUnknown}}},
	}
	forgotten := pod("forgotten", policy.No, policy.No, policy.Yes, 0)
	forgotten.RuntimeOnly, forgotten.Unwanted = true, "the list has it not"
	forgotten.Sandboxes = []policy.Sandbox{{Created: noon.Add(-time.Hour)}, {Created: noon.Add(-3 * time.Hour)}}
	look.InRuntime, look.KubeletLists = new(3), new(2)
	pods, verdicts = append(pods, forgotten), append(verdicts, policy.Verdict{
		Stage: policy.InRuntime, Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonSandbox}},
	})
	var judged []policy.Judged
	for i := range pods {
		judged = append(judged, policy.Judged{Evidence: pods[i], Verdict: verdicts[i]})
	}
	m.Look(look, judged, 150*time.Millisecond)
	outcome := func(k policy.ActionKind, r policy.Result, left ...policy.Residue) policy.Outcome {
		return policy.Outcome{Action: policy.Action{Kind: k}, Result: r, Left: left}
	}
	strip := outcome(policy.Strip, policy.Partly, policy.Residue{Class: contents.ClassData})
	strip.Taken = map[contents.Class]policy.Tally{contents.ClassSkeleton: {Entries: 7, Bytes: 4096}}
	for _, o := range []policy.Outcome{
		outcome(policy.Park, policy.Done), outcome(policy.Park, policy.Done), outcome(policy.Park, policy.Gone),
		outcome(policy.Park, policy.Refused), outcome(policy.Park, policy.Failed),
		outcome(policy.PutBack, policy.Conflict), outcome(policy.PutBack, policy.Failed),
		strip, outcome(policy.Purge, policy.Done), outcome(policy.Strip, policy.Failed),
	} {
		m.Outcome(o)
	}
	m.Failure(OpLedger)
	m.Quarantine(map[string]*policy.EntryState{
		"a": {Phase: policy.PhaseConfirmed, Left: []policy.Residue{{Class: contents.ClassData, Bytes: 100}, {Class: contents.ClassEphemeral, Bytes: 5}}},
		"b": {Phase: policy.PhaseParked}, "c": {Phase: policy.PhaseConfirmed, Left: []policy.Residue{{Class: contents.ClassData, Bytes: 1}}},
		"d": {Phase: policy.PhaseGone, Left: []policy.Residue{{Class: contents.ClassData, Bytes: 7777}}},
	})
	c.CNI(cniCensus())
	m.Breaker(true)
	m.Success(policy.Instant{Wall: noon.Add(time.Second)})
	return m
}

// cniCensus has every count that a sweep over the CNI directories may have, and a network with the worst possible
// name.
func cniCensus() *cni.Census {
	c := cni.NewCensus()
	c.Add(cni.Look{
		Live:  map[cni.Kind]policy.Tally{cni.Cache: {Entries: 3, Bytes: 4500}, cni.Address: {Entries: 2, Bytes: 140}},
		InUse: map[string]int64{"cbr0": 1, "a\"b\\c\nd\xff": 1},
	})
	for i, kind := range cni.Kinds() {
		for _, v := range []policy.Verdict{
			{Decision: policy.Reap},
			{Decision: policy.Reap},
			{Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonYoung}}},
			{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonForeign}}},
			{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonUntied}}},
			{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonNetns}}},
		} {
			c.Judged(&cni.File{Kind: kind, Network: "cbr0", ID: cni.FileID{Size: int64(100 + i)}}, v)
		}
		c.Ended(&cni.File{Kind: kind, Network: "cbr0", ID: cni.FileID{Size: int64(100 + i)}, Result: policy.Done})
	}
	c.Ended(&cni.File{Result: policy.Refused})
	c.Ended(&cni.File{Result: policy.Failed})
	return &c
}

func TestMetricsGolden(t *testing.T) {
	for name, m := range map[string]*Metrics{"fresh.prom": fresh(), "busy.prom": busy()} {
		b, err := m.text()
		testkit.Must(t, err)
		testkit.Golden(t, "testdata/"+name, strings.ReplaceAll(string(b), runtime.Version(), "GOVERSION"))
		problems, err := testutil.GatherAndLint(m.Registry())
		testkit.Must(t, err)
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

// TestUnknownHasNoSeries checks that a value that a look cannot determine is absent afterwards; 0 would be wrong.
func TestUnknownHasNoSeries(t *testing.T) {
	m := busy()
	m.Look(policy.Look{At: policy.Instant{Wall: noon}, Partial: true}, nil, time.Second)
	b, err := m.text()
	testkit.Must(t, err)
	for _, name := range []string{
		"\norphan_reaper_pods{", "\norphan_reaper_kubelet_orphan_errors ", "\norphan_reaper_kubelet_pods{",
	} {
		if bytes.Contains(b, []byte(name)) {
			t.Errorf("%s has a series", strings.TrimSpace(name))
		}
	}
}

// TestSeriesExistFromTheStart checks that a series exists before its first event: otherwise rate() and increase()
// miss that event.
func TestSeriesExistFromTheStart(t *testing.T) {
	series := func(m *Metrics) map[string]bool {
		b, err := m.text()
		testkit.Must(t, err)
		names := map[string]bool{}
		for line := range strings.Lines(string(b)) {
			// Absent until first read: values of a source, a kubelet or an API server, and the CNI networks.
			if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_source_") && !strings.Contains(line, "_kubelet_orphan_errors ") &&
				!strings.Contains(line, "_kubelet_pods{") &&
				!strings.HasPrefix(line, "orphan_reaper_pods{") && !strings.Contains(line, "_sandbox_age_") &&
				!strings.Contains(line, "_cni_addresses{") {
				names[line[:strings.LastIndexByte(line, ' ')]] = true
			}
		}
		return names
	}
	first := series(fresh())
	for name := range series(busy()) {
		if !first[name] {
			t.Errorf("%s does not exist from the start", name)
		}
	}
	if len(first) < 100 {
		t.Errorf("only %d series", len(first))
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "orphan-reaper.prom")
	m := busy()
	old := unix.Umask(0o077)
	err := m.WriteFile(path)
	unix.Umask(old)
	testkit.Must(t, err)
	info, err := os.Lstat(path)
	testkit.Must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v, want -rw-r--r--: the node exporter is another user", info.Mode())
	}
	want, err := m.text()
	testkit.Must(t, err)
	got, err := os.ReadFile(path)
	testkit.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("the file differs from text")
	}
	// The file's time is the heartbeat, so it changes with every write.
	testkit.Must(t, os.Chtimes(path, noon, noon))
	testkit.Must(t, m.WriteFile(path))
	if info, err = os.Lstat(path); err != nil || info.ModTime().Equal(noon) {
		t.Errorf("not written again: %v, %v", info.ModTime(), err)
	}
	if err := m.WriteFile(filepath.Join(dir, "metrics.txt")); err == nil {
		t.Error("a file with a name that node exporter ignores was written")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("other files: %v, %v", files, err)
	}
	testkit.Must(t, RemoveFile(path))
	testkit.Must(t, RemoveFile(path))
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files after RemoveFile: %v, %v", files, err)
	}
	if err := RemoveFile(filepath.Join(dir, "missing", "x.prom")); err == nil {
		t.Error("a missing directory gave no error")
	}
}

// TestWriteFileFollowsNoSymlink: the directory may belong to the node exporter's user, who could otherwise have root
// write to any file.
func TestWriteFileFollowsNoSymlink(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "shadow")
	testkit.Must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	path := filepath.Join(dir, "orphan-reaper.prom")
	testkit.Must(t, os.Symlink(secret, path))
	testkit.Must(t, os.Symlink(secret, filepath.Join(dir, ".orphan-reaper.prom.tmp")))
	testkit.Must(t, busy().WriteFile(path))
	b, err := os.ReadFile(secret)
	testkit.Must(t, err)
	info, err := os.Lstat(secret)
	testkit.Must(t, err)
	if string(b) != "secret" || info.Mode() != 0o600 {
		t.Errorf("the symlink's target is now %q with mode %v", b, info.Mode())
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the metrics file is %v, %v", info.Mode(), err)
	}
}

func TestWriteFileLeftBehindByAKill(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, ".orphan-reaper.prom.tmp"), []byte("half"), 0o600))
	testkit.Must(t, busy().WriteFile(filepath.Join(dir, "orphan-reaper.prom")))
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("other files: %v, %v", files, err)
	}
}

func TestWriteFileWhereItCannot(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "orphan-reaper.prom")
	m := busy()
	failures := func() float64 { return testutil.ToFloat64(m.failures.WithLabelValues(OpMetrics)) }
	try := func(name string, want error) {
		t.Helper()
		before, n := readAll(t, path), failures()
		if err := m.WriteFile(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %v with the path", name, err, want)
		}
		if !bytes.Equal(readAll(t, path), before) {
			t.Errorf("%s: the old file was not kept", name)
		}
		if failures() != n+1 {
			t.Errorf("%s: not counted", name)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 2 {
			t.Errorf("%s: files remain: %v, %v", name, files, err)
		}
	}
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0755"))
	defer func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	testkit.Must(t, m.WriteFile(path))
	fill, err := os.Create(filepath.Join(dir, "fill"))
	testkit.Must(t, err)
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	testkit.Must(t, fill.Close())
	try("full disk", unix.ENOSPC)
	testkit.Must(t, os.Remove(filepath.Join(dir, "fill")))
	testkit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	try("read-only disk", unix.EROFS)
	testkit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	testkit.Must(t, m.WriteFile(path))
	path = filepath.Join(dir, "none", "orphan-reaper.prom")
	if err := m.WriteFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	testkit.Must(t, err)
	return b
}

// TestCNINetworksBounded checks that 3,000 networks, once 6,000 series, have a bounded number. The sums do not
// change, and the networks that leak most keep their names.
func TestCNINetworksBounded(t *testing.T) {
	census := cni.NewCensus()
	for i := range 3000 {
		census.Reserved[fmt.Sprintf("tenant-%d", i)] = 1
	}
	for _, name := range []string{"leaking", cni.OtherNetworks, "a b", strings.Repeat("n", 64)} {
		census.Reserved[name], census.InUse[name] = 20, 3
	}
	m, c := whole()
	c.CNI(&census)
	b, err := m.text()
	testkit.Must(t, err)
	text := string(b)
	series, sum, other := 0, 0, 0
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "orphan_reaper_cni_addresses{")
		if !ok {
			continue
		}
		series++
		n, err := strconv.Atoi(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rest, `state="reserved"`) {
			sum += n
			if strings.Contains(rest, `network="(other)"`) {
				other = n
			}
		}
	}
	if series != 2*(cni.MostNetworks+1) || sum != 3000+4*20 || other != 3000-63+3*20 {
		t.Errorf("%d series, %d addresses, %d of them without a network's name", series, sum, other)
	}
	if !strings.Contains(text, `orphan_reaper_cni_addresses{network="leaking",state="reserved"} 20`) {
		t.Error("the network that leaks most has no series")
	}
}
