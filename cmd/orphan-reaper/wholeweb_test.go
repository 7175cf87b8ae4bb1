package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// freeAddress returns an address on which nobody listens at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// fetch asks over HTTP, and again until the answer has the code that is wanted.
func fetch(t *testing.T, method, url string, code int) string {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
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

// TestWholeWeb: the daemon tells over HTTP which orphan it has and why, and looks when it is
// asked to.
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
		time.Sleep(500 * time.Millisecond) // the server bounds the requests of a client
		r = last()
		return r.Look >= a.Look
	})
	if len(r.Pods) != 2 {
		t.Errorf("after the look that was requested: %+v", r)
	}
	silent := freeAddress(t)
	for args, want := range map[string][]string{
		"list":                   {"2 nodes asked, 1 answered.", "worker-1", "observe", "NODES THAT ARE SILENT", "127.0.0.1", "refused"},
		"list --wide":            {wholeUID(1), wholeUID(2)},
		"sweep --max-breakers 0": {"1 of 2 nodes look now.", "refused"},
	} {
		code, out, _ := call(t, append(append([]string{"fleet"}, strings.Fields(args)...), url, "http://"+silent)...)
		if code != 3 {
			t.Errorf("fleet %s: code %d", args, code)
		}
		for _, word := range want {
			if !strings.Contains(out, word) {
				t.Errorf("fleet %s does not say %q:\n%s", args, word, out)
			}
		}
	}
	if code := daemon.end(); code != 0 {
		t.Errorf("exit code %d: %s", code, daemon.said())
	}
}

// TestFleetBreakersBelowNothing: nobody would be asked.
func TestFleetBreakersBelowNothing(t *testing.T) {
	if code, out, said := call(t, "fleet", "sweep", "--max-breakers", "-1", "http://127.0.0.1:1"); code != 2 || !strings.Contains(said, "negative") {
		t.Errorf("%d %s %s", code, out, said)
	}
}

// TestWholeWebTaken: somebody who takes the port keeps nobody from the node.
func TestWholeWebTaken(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.pod(1, false)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	daemon := n.start(n.command("run", "--log-source", "file", "--log-file", n.path("log"), "--web-listen-address", l.Addr().String()))
	until(t, "the pod is removed", func() bool {
		_, err := os.Stat(n.path("root/pods/" + wholeUID(1)))
		return errors.Is(err, fs.ErrNotExist)
	})
	if code := daemon.end(); code != 0 || !strings.Contains(daemon.said(), "cannot serve HTTP") {
		t.Errorf("exit code %d: %s", code, daemon.said())
	}
}
