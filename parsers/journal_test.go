package parsers

import (
	"strings"
	"testing"
)

// TestJournal checks that an entry of the journal is judged by journald's own fields.
func TestJournal(t *testing.T) {
	text := []byte(klogLine(forms()[6], testUID))
	for _, tc := range []struct {
		name string
		j    JournalFields
		want bool
	}{
		{"kubelet", JournalFields{Unit: "kubelet.service", Comm: "kubelet", PID: 77, BootID: "b"}, true},
		{"k3s", JournalFields{Unit: "k3s.service", Comm: "k3s-server", PID: 77}, true},
		{"k3s agent", JournalFields{Unit: "k3s-agent.service", Comm: "k3s-agent"}, true},
		{"rke2", JournalFields{Unit: "rke2-server.service", Comm: "rke2"}, true},
		{"rke2 agent", JournalFields{Unit: "rke2-agent.service", Comm: "kubelet"}, true},
		{"microk8s", JournalFields{Unit: "snap.microk8s.daemon-kubelite.service", Comm: "kubelite"}, true},
		{"snap", JournalFields{Unit: "snap.kubelet.daemon.service", Comm: "kubelet"}, true},
		{"wrapper", JournalFields{Unit: "kubelet-wrapper.service", Comm: "rkt"}, true},
		{"script", JournalFields{Unit: "kubelet.service", Comm: "start-kubelet.s"}, true},
		{"operator's", JournalFields{Unit: "my-node.service", Comm: "anything"}, true},
		{"operator's, without a suffix", JournalFields{Unit: "other-node.service", Comm: "anything"}, true},
		{"no unit", JournalFields{Comm: "kubelet", Identifier: "kubelet"}, false},
		{"only a suffix", JournalFields{Unit: ".service"}, false},
		{"user", JournalFields{Unit: "user@1000.service", Comm: "kubelet", Identifier: "kubelet"}, false},
		{"session", JournalFields{Unit: "session-2.scope", Comm: "logger", Identifier: "kubelet"}, false},
		{"found", JournalFields{Unit: "k3s-shop.service", Comm: "k3s-server", UID: "0"}, true},
		{"found, another command", JournalFields{Unit: "k3s-shop.service", Comm: "containerd-shim"}, false},
		{"found, another user", JournalFields{Unit: "k3s-shop.service", Comm: "k3s-server", UID: "1000"}, false},
		{"another user", JournalFields{Unit: "kubelet.service", Comm: "kubelet", UID: "1000"}, false},
		{"logger in the unit", JournalFields{Unit: "kubelet.service", Comm: "logger", Identifier: "kubelet"}, false},
		{"similar", JournalFields{Unit: "kubelet.service.d", Comm: "kubelet"}, false},
		{"containerd", JournalFields{Unit: "containerd.service", Comm: "containerd", Identifier: "kubelet"}, false},
	} {
		p := Parser{
			Units:       []string{"my-node.service", "other-node", ""},
			RunsKubelet: func(unit string) bool { return unit == "k3s-shop.service" },
		}
		s, ok := p.Parse(Line{Text: text, Source: "journald", Journal: &tc.j})
		if ok != tc.want {
			t.Errorf("%s: %v", tc.name, ok)
			continue
		}
		if !ok {
			continue
		}
		// The header's PID counts: journald's may be that of a shell or of k0s, which runs the kubelet.
		if !s.Trusted || s.UID != testUID || s.PID != 3416 || s.BootID != tc.j.BootID || s.Transport != "journal" {
			t.Errorf("%s: %+v", tc.name, s)
		}
	}
	own := JournalFields{Unit: "kubelet.service", PID: 77}
	if s, ok := ParseLine(Line{Text: []byte(klogObject(t, forms()[20], testUID)), Journal: &own}); !ok || s.PID != 77 {
		t.Errorf("without a PID of its own: %+v", s)
	}
	k0s := JournalFields{Unit: "k0sworker.service", Comm: "k0s", Identifier: "k0s", PID: 1766}
	if s, ok := ParseLine(Line{Text: []byte(supervised("")(string(text))), Journal: &k0s}); !ok || s.PID != 3416 || !s.Trusted {
		t.Errorf("k0s: %+v", s)
	}
	for name, line := range hostile() {
		if s, ok := ParseLine(Line{Text: []byte(line), Journal: &own}); ok && !strings.HasPrefix(name, "program ") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for name, wrap := range transports() {
		line := wrap(string(text))
		_, ok := ParseLine(Line{Text: []byte(line), Journal: &own})
		want := name == "raw" || name == "k0s" || strings.TrimRight(line, " \r") == string(text)
		if ok != want {
			t.Errorf("%s inside an entry of the journal: %v", name, ok)
		}
	}
}

// TestRuntimesCutLines checks that a record of a container runtime never counts as a whole line: the runtime cuts lines
// at 16 KiB, and the rest of one begins with what a pod may have chosen.
func TestRuntimesCutLines(t *testing.T) {
	for name, wrap := range transports() {
		s, ok := ParseLine(Line{Text: []byte(wrap(klogLine(forms()[6], testUID))), Whole: true})
		runtime := strings.HasPrefix(name, "cri") || strings.HasPrefix(name, "docker json")
		if !ok || s.Whole == runtime {
			t.Errorf("%s: %t, whole %t", name, ok, s.Whole)
		}
	}
}
