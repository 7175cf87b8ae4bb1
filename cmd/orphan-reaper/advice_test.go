package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// TestPrintedCommands: no command that a screen prints refuses on that node. Commands for a kubelet's verbosity go to the
// stand-in kubelet.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	const ephemeral = "22222222-0000-4000-8000-000000000003"
	s := newShell(t, "web "+living+" living\ndb "+dead+" dead csi-data\ncache "+ephemeral+" dead emptydir\nbusy "+busy+" dead emptydir mount\n")
	kubelet := func(verbosity string) {
		t.Helper()
		s.Control(t, "kubelet v "+verbosity)
		if verbosity == "5" {
			nodetest.WaitFile(t, filepath.Join(s.Dir, "log/kubelet.log"), func(b []byte) bool { return strings.Contains(string(b), busy) })
		}
	}
	s.sweepAll(dead, ephemeral)
	done := map[string]bool{}
	for _, screen := range []string{"doctor", "quarantine list", "scan", "explain " + dead, "explain " + ephemeral} {
		for range 2 { // the second time after what was done
			text, stderr, code := s.run(screen)
			if code != 0 && code != codeOperator {
				t.Fatalf("%s: exit %d\n%s", screen, code, stderr)
			}
			for line := range strings.Lines(text) {
				command := strings.TrimSpace(line)
				verbosity, isPrintf := strings.CutPrefix(command, "printf ")
				own, isOwn := strings.CutPrefix(command, "orphan-reaper ")
				if strings.HasPrefix(own, "quarantine purge") || strings.HasPrefix(own, "unmount") {
					own += " --yes"
				}
				switch {
				case !strings.HasPrefix(line, "    "):
				case isPrintf:
					kubelet(verbosity[:1])
				case isOwn && own == "quarantine restore "+dead: // or purge, which the next line has
				case isOwn && own == "sweep": // it takes as long as a hold and a confirm
				case isOwn && !done[own]:
					done[own] = true
					if stdout, stderr, code := s.run(own); code != 0 && code != codeOperator {
						t.Errorf("%s prints %q, which ends with %d\n%s%s\n%s", screen, own, code, stdout, stderr, text)
					}
				}
			}
		}
	}
	for _, want := range []string{
		"unmount " + busy + " --yes", "quarantine restore " + ephemeral, "quarantine purge " + dead + " --yes", "sweep " + ephemeral + " --no-wait",
	} {
		if !done[want] {
			t.Errorf("no screen has %q: %v", want, done)
		}
	}
}

// sweepAll sweeps while the kubelet reports every orphan, until these pods are in quarantine and cleaned.
func (s *shell) sweepAll(uids ...string) {
	s.t.Helper()
	s.Control(s.t, "kubelet v 5")
	st, _ := s.status("sweep --hold=1s --confirm=1s")
	s.Control(s.t, "kubelet v 2")
	for _, uid := range uids {
		if exists(filepath.Join(s.pods(), uid)) {
			s.t.Fatalf("%s is not in quarantine: %+v", uid, st.Pods)
		}
	}
}
