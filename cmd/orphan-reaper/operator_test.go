package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// TestUnmount shows how a busy pod is removed: the kubelet at its usual verbosity is silent about it, so that the unmount is
// refused; at -v=5 it logs that it waits for the pod's volume. The pod of which a mount is in use is kept.
func TestUnmount(t *testing.T) {
	t.Parallel()
	s := newShell(t, "web "+living+" living\nbusy "+busy+" dead csi mount\nused "+other+" dead csi mount\n")
	mounted := func(uid string) bool { return s.sh("grep -c "+uid+" /proc/self/mountinfo") != "0" }
	s.sh("(cd $NODE_PODS/" + other + "/volumes/*/*/mount && exec sleep 1000 >/dev/null 2>&1) & echo started")
	s.Control(t, "kubelet v 5")
	if st, code := s.status("scan"); code != codeOperator || !st.Operator {
		t.Errorf("scan of a pod that only an operator can end: exit %d, operator %v", code, st.Operator)
	}
	if _, stderr, code := s.run("unmount " + busy); code != codeUsage || !strings.Contains(stderr, "--yes") || !mounted(busy) {
		t.Errorf("nobody can be asked: exit %d\n%s", code, stderr)
	}
	if stdout, stderr, code := s.run("unmount --dry-run " + busy); code != 0 || !strings.Contains(stdout, busy) || !mounted(busy) {
		t.Errorf("dry run: exit %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := s.run("unmount --yes " + busy); code != 0 || mounted(busy) {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := s.run("unmount --yes " + other); code == 0 || !mounted(other) {
		t.Errorf("a mount in use: exit %d\n%s%s", code, stdout, stderr)
	}
}

// TestRestoredBesideDaemon: an operator restores a pod beside the daemon, which then keeps it until `sweep UID` names it. That
// sweep does not wait for the daemon's lock. A reload sets enforce, and SIGTERM ends the daemon.
func TestRestoredBesideDaemon(t *testing.T) {
	t.Parallel()
	s := newShell(t, "web "+living+" living\ndb "+dead+" dead csi-data\n")
	file := s.Dir + "/config.yaml"
	must(t, os.WriteFile(file, []byte("mode: observe\nhold: 1s\nconfirm: 1h\n"), 0o600))
	probes := net.JoinHostPort(ownLoopback().String(), "9478")
	ready := func() int {
		t.Helper()
		answer, err := http.Get("http://" + probes + "/readyz")
		must(t, err)
		must(t, answer.Body.Close())
		return answer.StatusCode
	}
	stop := s.daemon("--log-level=debug --web-listen-address=probes=" + probes + " --config=" + file)
	s.waitLog("metrics are written") // a pass has ended
	s.waitLog("TLS is disabled")
	if code := ready(); code != http.StatusOK {
		t.Errorf("a daemon that observes is not ready: %d", code)
	}
	if !exists(s.pods() + "/" + dead) {
		t.Error("mode observe has moved a pod")
	}
	must(t, os.WriteFile(file, []byte("mode: enforce\nhold: 1s\nconfirm: 1h\n"), 0o600))
	s.sh("kill -HUP $! && echo sent")
	s.waitGone(dead)
	if code := ready(); code != http.StatusServiceUnavailable {
		t.Errorf("after the reload, before hold and confirm, the daemon is ready: %d", code)
	}
	if _, stderr, code := s.run("quarantine restore " + dead); code != 0 || !exists(s.pods()+"/"+dead) {
		t.Fatalf("restore: exit %d\n%s", code, stderr)
	}
	if _, stderr, code := s.run("sweep"); code != codeFailed || !strings.Contains(stderr, "PID") {
		t.Errorf("sweep without a pod: exit %d\n%s", code, stderr)
	}
	if stdout, stderr, code := s.run("sweep " + dead); code != 0 || !strings.Contains(stdout, "daemon") {
		t.Errorf("sweep of the restored pod: exit %d\n%s%s", code, stdout, stderr)
	}
	if st, _ := s.status("scan"); st.Stopped != nil || slices.ContainsFunc(st.Pods, func(p reaper.PodStatus) bool {
		return slices.ContainsFunc(p.Reasons, func(r judge.Reason) bool { return r.Reason == judge.WasRestored })
	}) {
		t.Errorf("the pod is still kept as restored, or the daemon's mode is not that of its file: %+v, %+v", st.Stopped, st.Pods)
	}
	if st, _ := s.status("scan --mode=observe"); st.Stopped == nil || st.Stopped.Reason != judge.ModeObserve {
		t.Errorf("a flag of the command: stopped by %+v", st.Stopped)
	}
	stop()
	s.waitLog("event=stopped")
}

// TestBeside: commands beside a daemon judge by its settings, also if these are flags, and beside a sweep they name that.
func TestBeside(t *testing.T) {
	t.Parallel()
	s := newShell(t, "web "+living+" living\ndb "+dead+" dead emptydir\n")
	stop := s.daemon("--mode=enforce --hold=2h")
	s.waitLog("metrics are written")
	st, _ := s.status("doctor")
	if p, _ := st.Pod(dead); st.Daemon == 0 || st.Stopped != nil || p.Decision != judge.Wait || p.Next.Sub(st.At.Wall) < time.Hour {
		t.Errorf("daemon %d, stopped by %+v: %+v", st.Daemon, st.Stopped, p)
	}
	stop()

	exe, err := os.Executable()
	must(t, err)
	pid := s.sh(exe + " $OR_FLAGS sweep --hold=2h </dev/null >/dev/null 2>&1 & echo $!")
	nodetest.WaitFile(t, s.Dir+"/state/run.lock", func(b []byte) bool { return strings.HasPrefix(string(b), pid+"\n") })
	if st, _ := s.status("doctor"); st.Daemon != 0 || strconv.Itoa(st.Sweep) != pid {
		t.Errorf("daemon %d, sweep %d, and %s runs", st.Daemon, st.Sweep, pid)
	}
	if _, stderr, code := s.run("sweep"); code != codeFailed || !strings.Contains(stderr, "PID "+pid) || strings.Contains(stderr, "the daemon sweeps") {
		t.Errorf("a second sweep: exit %d\n%s", code, stderr)
	}
	s.sh("kill " + pid + "; wait " + pid + "; echo ended")
}

// TestNoLog: a daemon that finds no log of the kubelet logs that, and a command asks for an operator.
func TestNoLog(t *testing.T) {
	s := newShell(t, "living "+living+" living\n")
	s.sh("rm $NODE_LOG; echo")
	stop := s.daemon("--mode=enforce")
	s.waitLog("cannot find the kubelet's log")
	stop()
	if stdout, stderr, code := s.run("doctor"); code != 3 || !strings.Contains(stdout, "kubelet's log") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

// TestOutputFull: a full disk of the output is not an error of the log, and the hint promises nothing.
func TestOutputFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	const log = `E1129 10:00:00.000001    100 kubelet_volumes.go:245] "Orphan pod" err="orphaned pod \"` + dead + `\" found, but x"` + "\n"
	var stderr bytes.Buffer
	code := run([]string{"parse"}, strings.NewReader(log), full, &stderr)
	if text := stderr.String(); code != 1 || strings.Count(text, "error:") != 1 || strings.Contains(text, "cannot read") || strings.Contains(text, "dead pods") {
		t.Errorf("exit %d\n%s", code, text)
	}
}

// TestParse has one object for each report, null for a count that the line does not have, and on stderr the lines that have
// the words in a form that is not read.
func TestParse(t *testing.T) {
	const log = `E1129 10:00:00.000001    100 kubelet_volumes.go:245] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + dead + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=7
I1129 10:00:00.000002    100 server.go:1] "Something else"
I1129 10:00:00.000003    100 kubelet_volumes.go:161] "Orphaned pod found, but volumes are not cleaned up" podUID="` + busy + `"
E1129 10:00:00.000004    100 prober.go:1] "Probe failed" output="orphaned pod \"` + living + `\" found, but it is quoted"
`
	var out, stderr bytes.Buffer
	if code := run([]string{"parse"}, strings.NewReader(log), &out, &stderr); code != 0 || !strings.Contains(stderr.String(), ": 1\n") {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
	type line struct {
		Line              int
		UID, Kind, Reason string
		Count             *int
		Strict            bool
	}
	var got []line
	for d := json.NewDecoder(&out); ; {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if len(got) != 2 || got[0].Line != 1 || got[0].UID != dead || got[0].Kind != "removal" || got[0].Count == nil || *got[0].Count != 7 || !got[0].Strict ||
		got[1].Line != 3 || got[1].UID != busy || got[1].Kind != "volumes" || got[1].Count != nil || got[1].Strict || got[1].Reason == "" {
		t.Errorf("%+v", got)
	}
}
