package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholePodArgs checks that a name that a pod's containers can write selects no pod for a command that changes
// something, and that one of two entries of a pod is not purged by the path of the other. TestPodUIDs has the other
// arguments.
func TestWholePodArgs(t *testing.T) {
	n := newWholeNode(t)
	n.pod(0xabcdef01, true)
	n.write("root/pods/"+wholeUID(0xabcdef01)+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"+
		"10.0.0.7\tweb-0.web.default.svc.cluster.local\tweb-0\n")
	run := func(want int, args ...string) {
		t.Helper()
		if out, code := n.run(args...); code != want {
			t.Errorf("%q: %d, want %d\n%s", args, code, want, out)
		}
	}
	run(2, "sweep", "default/web-0")
	run(2, "sweep", "--dry-run", "default/web-0")
	run(0, "explain", "default/web-0")
	run(0, "sweep", wholeUID(0xabcdef01))
	entry := n.path("root/orphan-reaper/" + n.entryOf(0xabcdef01))
	for _, word := range []string{"shop/db-0", n.path("root/pods/" + wholeUID(0xabcdef01)), entry + "/volumes"} {
		run(2, "quarantine", "restore", word)
		run(2, "quarantine", "purge", "--yes", word)
	}
	run(0, "quarantine", "restore", entry)
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".7")
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".8")
	one := n.path("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".7")
	if text, code := n.printed("quarantine", "purge", "--yes", one); code != 2 || !strings.Contains(text, "may mean several") {
		t.Errorf("purge of one entry of two: %d\n%s", code, text)
	}
}

// entryOf returns a pod's only entry in quarantine.
func (n *wholeNode) entryOf(i int) string {
	n.t.Helper()
	found, err := filepath.Glob(n.path("root/orphan-reaper/" + wholeUID(i) + "*"))
	if err != nil || len(found) == 0 {
		n.t.Fatalf("%v, %v", found, err)
	}
	return filepath.Base(found[0])
}

// TestWholePurgeWhileAsked checks that nothing is removed if an entry appears while the question is open: the
// operator sees the new list first.
func TestWholePurgeWhileAsked(t *testing.T) {
	n := newWholeNode(t)
	entry := "root/orphan-reaper/" + wholeUID(1)
	n.pod(1, true)
	if _, code := n.run("sweep"); code != 0 {
		t.Fatal("sweep")
	}
	first := n.entryOf(1)
	purge := func(meanwhile func()) (printed string, code int) {
		master, tty := testkit.Terminal(t, 80)
		cmd := n.command("quarantine", "purge", wholeUID(1))
		cmd.Stdin = tty
		stderr, err := cmd.StderrPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		var b strings.Builder
		for one := make([]byte, 1); !strings.HasSuffix(b.String(), "Type yes: "); b.Write(one) {
			if _, err := stderr.Read(one); err != nil {
				t.Fatalf("%v after %s", err, b.String())
			}
		}
		meanwhile()
		if _, err := master.WriteString("yes\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(stderr)
		testkit.Must(t, err)
		_ = cmd.Wait() // the exit code is checked
		return strings.Join(strings.Fields(b.String()+string(rest)), " "), cmd.ProcessState.ExitCode()
	}
	printed, code := purge(func() { n.write(entry+".8/volumes/kubernetes.io~nfs/share/file", "canary") })
	if code != 1 || !strings.Contains(printed, "held "+wholeUID(1)+" ") || !strings.Contains(printed, wholeUID(1)+".8 has come since") {
		t.Errorf("%d: %s", code, printed)
	}
	for _, e := range []string{"root/orphan-reaper/" + first, entry + ".8"} {
		if _, err := os.Stat(n.path(e + "/volumes/kubernetes.io~nfs/share/file")); err != nil {
			t.Error(err)
		}
	}
	if printed, code := purge(func() {}); code != 0 || !strings.Contains(printed, "1 pod in 2 entries") {
		t.Errorf("shown again: %d: %s", code, printed)
	}
	if left, err := filepath.Glob(n.path(entry + "*")); err != nil || len(left) != 0 {
		t.Errorf("shown again: %v, %v", left, err)
	}
}

// TestPodUIDs lists the UIDs that an argument selects for each kind of command. "" is an error with exit code 2.
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
		{"default/web-0", web, web, ""}, // a past pod of that name does not count beside it
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
		t.Errorf("complete UIDs: the node was read %d times, %v", asked, err)
	}
	if _, err := podUIDs(cfg, []string{"0badf00d-0001"}, noName, known); err == nil || err.Error() != "away" {
		t.Errorf("unreadable node: %v", err)
	}
}
