package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestWholeReport: the daemon writes its node's report to the API server that a kubeconfig names, after
// that server was away, and its metrics say when.
func TestWholeReport(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.pod(1, false)
	written, tries := make(chan []byte, 10), 0
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if tries++; tries == 1 || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(body)
		written <- body
	}))
	defer api.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	testkit.WriteText(t, n.path("ca.crt"), string(ca))
	testkit.WriteText(t, n.path("kubeconfig"), fmt.Sprintf(`current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: u, user: {token: abc}}]
`, api.URL))
	daemon := n.start(n.command("run", "--mode", "observe", "--log-source", "file", "--log-file", n.path("log"), "--node-name", "worker-1",
		"--orphan-report", n.path("kubeconfig")))
	select {
	case body := <-written:
		var r report.Resource
		testkit.Must(t, json.Unmarshal(body, &r))
		if r.Metadata.Name != "worker-1" || r.Report.Mode != "observe" || len(r.Report.Pods) != 1 || r.Report.Pods[0].UID != wholeUID(1) {
			t.Errorf("%s", body)
		}
	case <-time.After(3 * time.Minute): // the first report is spread over a minute
		t.Errorf("no report was written")
	}
	until(t, "the metric of the last report", func() bool {
		text, err := os.ReadFile(n.path("metrics.prom"))
		return err == nil && strings.Contains(string(text), "\norphan_reaper_last_report_timestamp_seconds ")
	})
	code := daemon.end()
	if text := daemon.said(); code != 0 || strings.Count(text, "cannot write the node's OrphanReport") != 1 || strings.Count(text, "OrphanReport is written") != 1 {
		t.Errorf("%d, and it says\n%s", code, text)
	}
}
