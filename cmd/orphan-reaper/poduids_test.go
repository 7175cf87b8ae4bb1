package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// TestPodUIDs lists what an argument means to each kind of command: "" is an error with exit code 2.
func TestPodUIDs(t *testing.T) {
	const (
		web  = "0badf00d-0001-4aaa-8bbb-cccc00000001"
		job  = "0badf00d-0002-4aaa-8bbb-cccc00000002"
		held = "1badf00d-0006-4aaa-8bbb-cccc00000006"
		old  = "2badf00d-0009-4aaa-8bbb-cccc00000009"
	)
	pods := []app.Pod{
		{UID: web, Name: "default/web-0", Certain: true, Where: "on disk"},
		{UID: job, Name: "batch/job", Where: "on disk"},
		{UID: held, Name: "batch/etl", Where: "in quarantine", Entry: held},
		{UID: held, Name: "batch/etl", Where: "in quarantine", Entry: held + ".7"},
		{UID: job, Name: "batch/job", Where: "in quarantine", Entry: job},
		{UID: old, Name: "default/web-0", Where: "in the ledger", Past: true},
		{UID: old, Name: "shop/cart", Where: "in the ledger", Past: true},
	}
	cfg := config.Config{RootDir: "/k", QuarantineDir: "/k/q"}
	for _, c := range []struct{ arg, any, certain, none string }{
		{web, web, web, web},
		{"0badf00d-0001", web, web, web},
		{"0bad", "", "", ""},
		{"0badf00d-0003", "", "", ""},
		{"2bad", old, old, old},
		{"0ba", "", "", ""},
		{strings.ToUpper(web), "", "", ""},
		{"default/web-0", web, web, ""}, // the one of the past does not count beside it
		{"batch/job", job, "", ""},
		{"shop/cart", old, "", ""},
		{"no/such", "", "", ""},
		{"/k/pods/" + web, web, web, ""},
		{"/k/pods/" + web + "/volumes/x", web, web, ""},
		{"/other/pods/" + web + "/volumes", web, "", ""},
		{web + "/volumes", web, "", ""},
		{"/k/q/" + job, job, job, job},
		{"/k/q/" + job + "/volumes", job, job, ""},
		{"/k/q/" + held, "", "", ""}, // one of two entries
		{"/k/q/nothing", "", "", ""},
		{"../../etc", "", "", ""},
		{"", "", "", ""},
		{"x\x1b[2J", "", "", ""},
	} {
		for how, want := range []string{c.any, c.certain, c.none} {
			uids, err := podUIDs(cfg, []string{c.arg}, naming(how), func() ([]app.Pod, error) { return pods, nil })
			got := ""
			if err == nil {
				got = string(uids[0])
			}
			if got != want || err != nil && (exit.Code(err) != exit.UsageCode || strings.Contains(err.Error(), "\x1b")) {
				t.Errorf("%q to a command of kind %d: %q, want %q; %v", c.arg, how, got, want, err)
			}
		}
	}
	asked := 0
	known := func() ([]app.Pod, error) { asked++; return nil, errors.New("away") }
	if _, err := podUIDs(cfg, []string{web, job}, noName, known); err != nil || asked > 0 {
		t.Errorf("whole UIDs: the node was read %d times, %v", asked, err)
	}
	if _, err := podUIDs(cfg, []string{"0badf00d-0001"}, noName, known); err == nil || err.Error() != "away" {
		t.Errorf("a node that cannot be read: %v", err)
	}
}
