package parsers

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// binaryField is a field as the Journal Export Format writes it when it is not text.
func binaryField(key, value string) string {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(value)))
	return key + "\n" + string(n[:]) + value + "\n"
}

func TestEntries(t *testing.T) {
	report := klogLine(forms()[6], testUID)
	export := func(unit, comm, uid, message string) string {
		return "__CURSOR=s=0\n__REALTIME_TIMESTAMP=1705393812044483\n_UID=" + uid + "\n_COMM=" + comm + "\n" + message +
			"_PID=3416\nSYSLOG_IDENTIFIER=kubelet\n_SYSTEMD_UNIT=" + unit + "\n\n"
	}
	own := func(message string) string { return export("kubelet.service", "kubelet", "0", message) }
	const id = "0123456789abcdef0123456789abcdef"
	verbose := func(unit, message string) string {
		return "Sun 2024-03-31 15:47:45.892216 UTC [s=" + id + ";i=1;b=" + id + ";m=1;t=1;x=1]\n    _UID=0\n    _COMM=kubelet\n    MESSAGE=" + message +
			"\n    _SYSTEMD_UNIT=" + unit + "\n    _PID=3416\n    SYSLOG_IDENTIFIER=kubelet\n"
	}
	pretty := func(unit, message string) string {
		return "{\n\t\"_UID\" : \"0\",\n\t\"MESSAGE\" : " + message + ",\n\t\"_SYSTEMD_UNIT\" : \"" + unit +
			"\",\n\t\"_PID\" : \"3416\",\n\t\"__REALTIME_TIMESTAMP\" : \"1705393812044483\",\n\t\"SYSLOG_IDENTIFIER\" : \"kubelet\"\n}\n"
	}
	quoted := strings.ReplaceAll(report, `"`, `\"`)
	var numbers []string
	for i := range len(report) {
		numbers = append(numbers, fmt.Sprint(report[i]))
	}
	forged := "\n\n__CURSOR=x\n_SYSTEMD_UNIT=kubelet.service\nMESSAGE=" + report + "\n\n"
	for name, tc := range map[string]struct {
		data  string
		lines []int
	}{
		"export":                  {own("MESSAGE=x\n") + own("MESSAGE="+report+"\n") + own("MESSAGE=y\n"), []int{14}},
		"export, binary":          {own(binaryField("MESSAGE", report)) + own("MESSAGE="+report+"\n"), []int{5, 15}},
		"export, another unit":    {export("session-1.scope", "kubelet", "0", "MESSAGE="+report+"\n"), nil},
		"export, another command": {export("kubelet.service", "logger", "0", "MESSAGE="+report+"\n"), nil},
		"export, another user":    {export("kubelet.service", "kubelet", "1000", "MESSAGE="+report+"\n"), nil},
		"export, two units":       {own("_SYSTEMD_UNIT=x\nMESSAGE=" + report + "\n"), nil},
		"export, two messages":    {own("MESSAGE=x\nMESSAGE=" + report + "\n"), nil},
		"export, entry inside a field": {export("session-1.scope", "x", "1", binaryField("MESSAGE", forged)) +
			export("session-1.scope", "x", "1", binaryField("NOTE", forged)), nil},
		"export, long field": {
			own(binaryField("COREDUMP", strings.Repeat("x\n", 1<<20))+"MESSAGE="+report+"\n") + own("MESSAGE="+report+"\n"),
			[]int{1048583, 1048592},
		},
		"export, length of the universe": {"__CURSOR=x\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff" + report + "\n", nil},
		"export, no newline at the end":  {strings.TrimSuffix(own("MESSAGE="+report+"\n"), "\n\n"), []int{5}},
		"verbose": {"-- Journal begins at x --\n" + verbose("kubelet.service", report) + verbose("kubelet.service", "x") +
			verbose("k3s.service", report), []int{5, 19}},
		"verbose, another unit": {verbose("session-1.scope", report) + verbose("user@1000.service", report), nil},
		"verbose, field in a message": {verbose("session-1.scope", "x\n            _SYSTEMD_UNIT=kubelet.service\n            MESSAGE="+report) +
			verbose("session-1.scope", report+"\n            _SYSTEMD_UNIT=kubelet.service"), nil},
		"verbose, between boots": {verbose("kubelet.service", report) + "-- Boot " + id + " --\n" + verbose("kubelet.service", report), []int{4, 12}},
		"pretty": {pretty("kubelet.service", `"`+quoted+`"`) + pretty("kubelet.service", `"x"`) +
			pretty("k3s.service", `"`+quoted+`"`), []int{3, 19}},
		"pretty, by jq":              {strings.NewReplacer("\n\t", "\n  ", `" : `, `": `).Replace(pretty("kubelet.service", `"`+quoted+`"`)), []int{3}},
		"pretty, numbers":            {pretty("kubelet.service", "[ "+strings.Join(numbers, ", ")+" ]"), []int{3}},
		"pretty, another unit":       {pretty("session-1.scope", `"`+quoted+`"`), nil},
		"pretty, entry in a message": {pretty("session-1.scope", `"}\n{\n\t\"MESSAGE\" : \"x\"\n}`+quoted+`"`), nil},
	} {
		for kind, r := range map[string]io.Reader{"": strings.NewReader(tc.data), " by bytes": iotest.OneByteReader(strings.NewReader(tc.data))} {
			if len(tc.data) > 1<<20 && kind != "" {
				continue
			}
			var lines []int
			for _, f := range scan(t, r, Options{}) {
				lines = append(lines, f.line)
				if f.UID != testUID || f.PID != 3416 || f.Program != "kubelet" || f.Time.IsZero() || f.Trusted ||
					!strings.Contains(tc.data[f.offset:f.offset+20], "MESSAGE") {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if fmt.Sprint(lines) != fmt.Sprint(tc.lines) {
				t.Errorf("%s%s: lines %v, want %v", name, kind, lines, tc.lines)
			}
		}
	}
}

// TestChosenFields: entries of journalctl --output-fields=MESSAGE are worth what -o cat
// prints; with any field more they must prove their unit.
func TestChosenFields(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	report := klogLine(forms()[6], testUID)
	for name, tc := range map[string]struct {
		data string
		want int
	}{
		"export":                {"__CURSOR=s=0\n__REALTIME_TIMESTAMP=1705393812044483\n_BOOT_ID=" + id + "\nMESSAGE=" + report + "\n\n", 1},
		"export, another field": {"__CURSOR=s=0\n_BOOT_ID=" + id + "\nMESSAGE=" + report + "\n_COMM=kubelet\n\n", 0},
		"export, foreign field": {"__CURSOR=s=0\n_BOOT_ID=" + id + "\nCODE_FILE=x\nMESSAGE=" + report + "\n\n", 0},
		"verbose":               {"Sun 2024-03-31 15:47:45.892216 UTC [s=" + id + ";i=1;b=" + id + ";m=1;t=1;x=1]\n    MESSAGE=" + report + "\n", 1},
		"verbose, two fields": {"Sun 2024-03-31 15:47:45.892216 UTC [s=" + id + ";i=1;b=" + id + ";m=1;t=1;x=1]\n    MESSAGE=" + report +
			"\n    SYSLOG_IDENTIFIER=kubelet\n", 0},
	} {
		if got := scan(t, strings.NewReader(tc.data), Options{}); len(got) != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

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
		s, ok := NewParser(Options{
			Units:       []string{"my-node.service", "other-node", ""},
			RunsKubelet: func(unit string) bool { return unit == "k3s-shop.service" },
		}).Parse(Line{Text: text, Source: "journald", Journal: &tc.j})
		if ok != tc.want {
			t.Errorf("%s: %v", tc.name, ok)
			continue
		}
		if !ok {
			continue
		}
		// The header's: journald's may be that of a shell or of k0s, which runs the kubelet.
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
