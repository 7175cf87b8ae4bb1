package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// TestPrintedCommands: no command that a screen prints refuses on that node, also those that such a command prints. What is
// for the kubelet or for systemd goes to the stand-in kubelet.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	const (
		ephemeral = "22222222-0000-4000-8000-000000000003"
		staged    = "44444444-0000-4000-8000-000000000001"
	)
	s := &paster{shell: newShell(t, "web "+living+" living cni=net1\ndb "+dead+" dead csi-data\ncache "+ephemeral+" dead emptydir\n"+
		"busy "+busy+" dead emptydir mount\nvolume "+staged+" dead csi-data staged\n"), done: map[string]bool{"quarantine restore " + dead: true}}
	s.sweepAll(dead, ephemeral)
	s.Control(t, "pod late "+other+" dead secret cni=net1")
	for _, screen := range []string{"doctor", "quarantine list", "scan", "explain " + dead, "explain " + ephemeral, "explain " + staged} {
		for range 2 { // the second time after what was done
			s.paste(screen, 0)
		}
	}
	for _, want := range []string{
		"unmount " + busy + " --yes", "quarantine restore " + ephemeral, "quarantine purge " + dead + " --yes", "sweep " + ephemeral + " --no-wait",
		"sweep --no-wait", "quarantine list", "printf 5", "printf 2", "tar", "systemctl",
	} {
		if !s.done[want] {
			t.Errorf("no screen has %q: %v", want, s.done)
		}
	}
}

// paster runs commands, and what they print as commands: lines of their own, and texts between backticks.
type paster struct {
	*shell
	done map[string]bool // also what is left out: of restore and purge only the second one is run
}

var printed = regexp.MustCompile("(?m)^    (?:(?:orphan-reaper|printf|tar|systemctl) .*)$|`orphan-reaper [^`]*`")

func (s *paster) paste(command string, depth int) {
	s.t.Helper()
	text, stderr, code := s.run(command)
	if code != 0 && code != codeOperator {
		s.t.Errorf("%q ends with %d\n%s%s", command, code, text, stderr)
	}
	for _, line := range printed.FindAllString(text, -1) {
		line = strings.Trim(line, " `")
		name, args, _ := strings.Cut(line, " ")
		switch name {
		case "printf":
			v := args[:1]
			s.done["printf "+v] = true
			s.Control(s.t, "kubelet v "+v)
			if v == "5" {
				nodetest.WaitFile(s.t, filepath.Join(s.Dir, "log/kubelet.log"), func(b []byte) bool { return strings.Contains(string(b), busy) })
			}
		case "systemctl":
			if strings.HasPrefix(args, "restart kubelet") {
				s.done[name] = true
				s.Control(s.t, "kubelet restart")
			}
		case "tar":
			s.done[name] = true
			if answer := s.sh(line + " >/dev/null 2>&1; echo exit $?"); answer != "exit 0" {
				s.t.Errorf("%s prints %q, which ends with %s", command, line, answer)
			}
		default:
			if strings.HasPrefix(args, "quarantine purge") || strings.HasPrefix(args, "unmount") {
				args += " --yes"
			}
			if s.done[args] || args == "sweep" || depth > 3 { // a sweep takes as long as a hold and a confirm
				continue
			}
			s.done[args] = true
			s.paste(args, depth+1)
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
