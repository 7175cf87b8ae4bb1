package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/account"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/quiet"
)

// testReported is what the state directory of a busy node tells.
func testReported(from, now time.Time) app.Reported {
	table := account.Table{Seq: 900, Since: testNow.AddDate(0, 0, -12), Days: []account.Day{
		{Day: testNow.AddDate(0, 0, -11).Format(time.DateOnly), Sum: account.Sum{
			Parked: 2044, Removed: 2040, PutBack: 1, Cleared: 3, Sandbox: 2, CNIFiles: 30, Addresses: 10, CNIBack: 2,
			Entries: 60000, Bytes: 12 << 30, Failed: 1,
		}},
		{Day: testNow.AddDate(0, 0, -1).Format(time.DateOnly), Sum: account.Sum{Parked: 1, Removed: 1, Entries: 5, Bytes: 4096}},
	}}
	heard := quiet.Memory{
		Days: []quiet.Day{{Day: testNow.AddDate(0, 0, -11).Format(time.DateOnly), First: testNow.AddDate(0, 0, -11), Pods: 2, Lines: 43200}},
		Pods: map[parsers.PodUID]quiet.Said{uidMounted: {Lines: 120}},
	}
	return app.Reported{
		Account: account.Of(table, heard, from, now), Entries: testEntries(),
		ToldAt: testNow.Add(-9 * time.Minute),
		Told: map[parsers.PodUID]string{
			uidMounted: "keep in-use kubelet-holds mounted", uidReap: "keep invalid-uid",
			uidStatic: "keep invalid-uid", uidAlive: "living", uidHold: "wait hold",
		},
	}
}

// TestReport shows the report at 80 columns and as JSON, of a busy node and of one where nothing was done.
func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		fake string
		args []string
	}{
		"report-80.txt":    {"all", []string{"report"}},
		"report-day.txt":   {"all", []string{"report", "--since", "2d"}},
		"report-hour.txt":  {"all", []string{"report", "--since", "1h"}},
		"report-empty.txt": {"", []string{"report"}},
		"report.json":      {"all", []string{"report", "-o", "json"}},
	} {
		env := func(key string) string { return map[string]string{"FAKE": c.fake, "COLUMNS": "80"}[key] }
		var out, errs bytes.Buffer
		if code := runWith(fakeDeps(env), c.args, strings.NewReader(""), &out, &errs, env); code != 0 {
			t.Errorf("%s: code %d: %s", name, code, &errs)
		}
		golden(t, name, out.String())
		for line := range strings.Lines(out.String()) {
			if strings.HasSuffix(name, ".txt") && len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s: more than 80 columns: %s", name, line)
			}
		}
	}
}

// TestSinceWhen: durations with days, and dates; anything else is wrong usage.
func TestSinceWhen(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"30d": now.AddDate(0, 0, -30), "12h": now.Add(-12 * time.Hour), "1d12h": now.Add(-36 * time.Hour), "90m": now.Add(-90 * time.Minute),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceWhen(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "-5h", "30", "1d-48h", "99999d", "2027-01-01", "yesterday", "1d2", "\x1b[2J"} {
		var errs bytes.Buffer
		env := func(string) string { return "" }
		code := runWith(fakeDeps(env), []string{"report", "--since=" + text}, strings.NewReader(""), io.Discard, &errs, env)
		if code != 2 || !strings.Contains(errs.String(), "--since") || strings.Contains(errs.String(), "\x1b") {
			t.Errorf("%q: code %d: %s", text, code, &errs)
		}
	}
}
