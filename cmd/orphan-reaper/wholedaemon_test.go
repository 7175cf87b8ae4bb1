package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeReload checks that a reload changes the level of the log and of the records, and logs the new behaviour.
func TestWholeReload(t *testing.T) {
	t.Parallel() // waits for seconds
	n := newWholeNode(t)
	n.write("config.yaml", "mode: enforce\nlog_level: error\n")
	daemon := n.start(n.command("run", "--config", n.path("config.yaml")))
	n.appears("metrics.prom") // after the first look, so signals are caught
	n.write("config.yaml", "mode: observe\nlog_level: info\n")
	testkit.Must(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
	const again = "the configuration was read again"
	daemon.waitFor(again)
	daemon.end()
	before, after, _ := strings.Cut(daemon.printed(), again)
	line, rest, _ := strings.Cut(after, "\n")
	if strings.Contains(before, "\n") || !strings.Contains(line, "mode") || !strings.Contains(line, "log_level") ||
		!strings.Contains(line, `now="changes nothing (mode observe); `) || !strings.Contains(rest, "orphan-reaper stopped") {
		t.Error(daemon.printed())
	}
}

// TestMetricsFileAtTheEnd checks that a normal stop removes the metrics file, which would be stale. After a kill it
// remains, and its age triggers the alert.
func TestMetricsFileAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		stays  bool
	}{{syscall.SIGTERM, false}, {syscall.SIGKILL, true}} {
		n := newWholeNode(t)
		n.write("log", "")
		daemon := n.start(n.command("run", "--log-source", "file", "--log-file", n.path("log")))
		n.appears("metrics.prom")
		daemon.endBy(c.signal)
		if _, err := os.Stat(n.path("metrics.prom")); (err == nil) != c.stays {
			t.Errorf("after %v: %v", c.signal, err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// fetch sends a request until the response has the wanted status.
func fetch(t *testing.T, method, url string, code int) string {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		testkit.Must(t, err)
		var text []byte
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			text, err = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
		}
		cancel()
		if err == nil && answer.StatusCode == code {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s: %v %s", method, url, err, text)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestWholeWeb checks that the daemon reports its orphan and the reason over HTTP, and looks on request.
func TestWholeWeb(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.pod(1, false)
	address := freeAddress(t)
	daemon := n.start(n.command("run", "--mode", "observe", "--log-source", "file", "--log-file", n.path("log"), "--web-listen-address", address,
		"--node-name", "worker-1"))
	url := "http://" + address
	if text := fetch(t, "GET", url+"/readyz", 200); text != "ok\n" {
		t.Errorf("readyz: %s", text)
	}
	fetch(t, "GET", url+"/healthz", 200)
	last := func() (r report.Report) {
		t.Helper()
		testkit.Must(t, json.Unmarshal([]byte(fetch(t, "GET", url+"/v1/orphans", 200)), &r))
		return r
	}
	r := last()
	if r.Node != "worker-1" || r.Mode != "observe" || r.Look != 1 || len(r.Pods) != 1 || r.Pods[0].UID != wholeUID(1) || len(r.Pods[0].Why) == 0 {
		t.Errorf("%+v", r)
	}
	if text := fetch(t, "GET", url+"/metrics", 200); !strings.Contains(text, "\norphan_reaper_pod_directories 1\n") {
		t.Errorf("the metrics do not have the pod:\n%s", text)
	}
	n.pod(2, false)
	var a report.Answer
	if err := json.Unmarshal([]byte(fetch(t, "POST", url+"/v1/sweep", 202)), &a); err != nil || a.Look != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	until(t, "the look that was requested", func() bool {
		time.Sleep(500 * time.Millisecond) // the server limits a client's requests
		r = last()
		return r.Look >= a.Look
	})
	if len(r.Pods) != 2 {
		t.Errorf("after the requested look: %+v", r)
	}
	silent := freeAddress(t)
	for args, want := range map[string][]string{
		"list":                   {"2 nodes asked, 1 answered.", "worker-1", "observe", "NODES THAT ARE SILENT", "127.0.0.1", "refused"},
		"list --all":             {wholeUID(1), wholeUID(2)},
		"sweep --max-breakers 0": {"1 of 2 nodes look now.", "refused"},
	} {
		code, out, _ := call(t, append(append([]string{"fleet"}, strings.Fields(args)...), url, "http://"+silent)...)
		if code != 3 {
			t.Errorf("fleet %s: code %d", args, code)
		}
		for _, word := range want {
			if !strings.Contains(out, word) {
				t.Errorf("fleet %s does not print %q:\n%s", args, word, out)
			}
		}
	}
	if code := daemon.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, daemon.printed())
	}
}
