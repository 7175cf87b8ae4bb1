package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// The pods of the tests.
const (
	living = "11111111-0000-4000-8000-000000000001"
	dead   = "22222222-0000-4000-8000-000000000001"
	other  = "22222222-0000-4000-8000-000000000002"
	busy   = "33333333-0000-4000-8000-000000000001"
)

// TestRefusals has what each command refuses, with its exit code and words of its error. Nothing is changed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newShell(t, "web "+living+" living\ndb "+dead+" dead csi-data\ncache "+other+" dead emptydir\nbusy "+busy+" dead csi mount\n")
	for _, test := range []struct {
		args  string
		code  int
		words string // in stderr
	}{
		{"nothing", codeUsage, "unknown command"},
		{"scan --no-such-flag", codeUsage, "unknown flag"},
		{"scan -o xml", codeUsage, "no output format"},
		{"scan --hold=-1s", codeUsage, "--hold"},
		{"scan --config=/no/such/file", codeUsage, "/no/such/file"},
		{"scan --root-dir=/no/such/dir", codeFailed, "--root-dir"},
		{"scan 2222222", codeUsage, dead + ", " + other},
		{"scan 222", codeUsage, "too short"},
		{"scan 44444444", codeUsage, "no pod"},
		{"explain", codeUsage, "name a pod"},
		{"explain " + dead + " " + living, codeUsage, "2 pods"},
		{"explain 2222", codeUsage, other},
		{"doctor " + dead, codeUsage, "unknown command"},
		{"sweep 4444", codeUsage, "no pod"},
		{"unmount", codeUsage, "name a pod"},
		{"unmount --yes " + living, codeFailed, "explain"},
		{"unmount --yes " + busy, codeFailed, "not-reported"}, // the kubelet reports the first orphan only
		{"unmount --dry-run " + dead, codeFailed, "nothing of it is mounted"},
		{"quarantine", codeUsage, "no command"},
		{"quarantine lists", codeUsage, "unknown command"},
		{"quarantine restore", codeUsage, "name a pod"},
		{"quarantine restore " + dead, codeUsage, "no pod"},
		{"quarantine purge", codeUsage, "name a pod"},
		{"quarantine purge --yes " + dead, codeUsage, "no pod"},
		{"parse /no/such/file", codeFailed, "/no/such/file"},
		{"fleet list", codeUsage, "--service"},
		{"fleet list https://127.0.0.1:1", codeUsage, "password"},
		{"fleet list --user=u --password-file=/no/such/file https://127.0.0.1:1", codeFailed, "/no/such/file"},
		{"fleet list --user=u --password-file=/dev/null http://127.0.0.1:1", codeUsage, "https://127.0.0.1:1"},
		{"fleet sweep --user=u --password-file=/dev/null --ca=/dev/null https://127.0.0.1:1", codeFailed, "no certificate"},
		{"fleet sweep --user=u --password-file=/dev/null --service=x", codeUsage, "NAMESPACE/NAME"},
		{"fleet sweep --user=u --password-file=/dev/null --service=x/y --kubeconfig=/no/such/file", codeFailed, "--kubeconfig"},
		{"config", codeUsage, "no command"},
		{"config check --mode=maybe", codeUsage, "--mode"},
		{"run --max-per-scan=x", codeUsage, "--max-per-scan"},
	} {
		stdout, stderr, code := s.run(test.args)
		if code != test.code || !strings.Contains(stderr, test.words) || !strings.Contains(stderr, "orphan-reaper: error: ") {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", test.args, code, test.code, test.words, stdout, stderr)
		}
	}
	if st, _ := s.status("scan"); len(st.Pods) != 4 || len(st.Quarantine) != 0 {
		t.Errorf("there are %d pods and %d in quarantine", len(st.Pods), len(st.Quarantine))
	}
	s.Control(t, "kubelet stop")
	for _, args := range []string{"sweep", "sweep --no-wait", "sweep " + dead} {
		if _, stderr, code := s.run(args); code != codeFailed || !strings.Contains(stderr, "kubelet") {
			t.Errorf("%s without a kubelet: exit %d\n%s", args, code, stderr)
		}
	}
}

// TestLogs: a scan finds the kubelet's report wherever it logs, and the pod only waits for the hold.
func TestLogs(t *testing.T) {
	t.Parallel()
	for log, kubelet := range map[string]string{"text": "1.19", "json": "1.28", "syslog": "1.33", "journal": "1.37"} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "web "+living+" living emptydir\ndb "+dead+" dead emptydir secret\n", "--log="+log, "--kubelet="+kubelet)
			st, code := s.status("scan")
			p, ok := st.Pod(dead)
			if !ok || code != 0 || p.Decision != judge.Wait || len(p.Reasons) != 1 || p.Reasons[0].Reason != judge.OnHold {
				t.Errorf("scan: exit %d, %+v, problems %q", code, p.Verdict, st.Problems)
			}
			if p, _ := st.Pod(living); p.Decision != judge.IsAlive {
				t.Errorf("scan: the living pod is %+v", p.Verdict)
			}
			if st.Stopped != nil { // no daemon runs that could observe
				t.Errorf("scan: stopped by %+v", st.Stopped)
			}
		})
	}
}

// TestLife shows one dead pod beside a living one: moved by the daemon, restored, swept, purged.
func TestLife(t *testing.T) {
	t.Parallel()
	s := newShell(t, "web "+living+" living emptydir\ndb "+dead+" dead csi-data\n")
	stop := s.daemon("--mode=enforce --hold=1s --confirm=1h")
	s.waitGone(dead)
	if _, stderr, code := s.run("sweep"); code != codeFailed || !strings.Contains(stderr, "PID") {
		t.Errorf("sweep beside the daemon: exit %d\n%s", code, stderr)
	}
	stop()
	st, code := s.status("quarantine list")
	if len(st.Quarantine) != 1 || st.Quarantine[0].UID != dead || st.Quarantine[0].Phase != judge.Quarantined || code != 0 {
		t.Fatalf("quarantine list: exit %d, %+v", code, st.Quarantine)
	}
	if _, stderr, code := s.run("quarantine purge --yes " + dead); code != codeFailed || !strings.Contains(stderr, "not confirmed") {
		t.Errorf("purge of a pod that may be alive: exit %d\n%s", code, stderr)
	}

	// As a kubelet makes it again. It would remove empty directories.
	again, data := s.Dir+"/again", s.pods()+"/"+dead+"/volumes/kubernetes.io~"
	must(t, os.MkdirAll(again+"/volumes/kubernetes.io~empty-dir/new", 0o755))
	must(t, os.WriteFile(again+"/volumes/kubernetes.io~empty-dir/new/file", nil, 0o600))
	must(t, os.Rename(again, s.pods()+"/"+dead))
	if _, stderr, code := s.run("quarantine restore 2222"); code != codeFailed || !strings.Contains(stderr, "--replace") {
		t.Errorf("restore of a pod that has another directory: exit %d\n%s", code, stderr)
	}
	if stdout, stderr, code := s.run("quarantine restore --replace 2222"); code != 0 || !exists(data+"csi") {
		t.Fatalf("restore: exit %d\n%s%s", code, stdout, stderr)
	}
	st, _ = s.status("sweep --no-wait --hold=1s")
	if p, _ := st.Pod(dead); p.Decision != judge.Keep || !slices.ContainsFunc(p.Reasons, func(r judge.Reason) bool { return r.Reason == judge.WasRestored }) {
		t.Errorf("after the restore: %+v", p.Verdict)
	}
	if _, stderr, code := s.run("quarantine purge --yes " + dead); code != 0 || !exists(data+"csi") {
		t.Errorf("purge of the directory that was replaced: exit %d\n%s", code, stderr)
	}
	st, code = s.status("sweep 22222222 --hold=1s --confirm=1s")
	if code != 0 || exists(s.pods()+"/"+dead) || len(st.Quarantine) != 1 || st.Quarantine[0].Phase != judge.Retained {
		t.Errorf("sweep: exit %d, %+v", code, st.Quarantine)
	}
	if !exists(s.pods() + "/" + living) {
		t.Error("the living pod has no directory any more")
	}
	if _, stderr, code := s.run("quarantine purge --yes " + dead); code != 0 {
		t.Errorf("purge: exit %d\n%s", code, stderr)
	}
	if st, code = s.status("quarantine list"); code != 0 || len(st.Quarantine) != 0 {
		t.Errorf("after the purge: exit %d, %+v", code, st.Quarantine)
	}
	must(t, os.Mkdir(st.QuarantineDir+"/"+dead+".99", 0o755)) // as after a loss of the ledger
	if st, code = s.status("quarantine list"); code != codeOperator || !strings.Contains(strings.Join(st.Problems, " "), dead+".99") {
		t.Errorf("an entry that the ledger does not have: exit %d, %q", code, st.Problems)
	}
}
