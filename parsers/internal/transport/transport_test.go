package transport

import (
	"strings"
	"testing"
	"time"
)

const (
	words  = `E0117 09:15:33.123456    2154 kubelet_volumes.go:263] "Orphan pod" err="x" numErrs=2`
	inJSON = `{"ts":1795221215791.6343,"caller":"kubelet/kubelet_volumes.go:263","msg":"Orphan pod","numErrs":2,"err":"x"}`
)

// noFragment lets no line without a header count.
func noFragment(string) (string, bool) { return "", false }

// TestUnwrap: of each transport, what it says around the words, and that the words come out.
func TestUnwrap(t *testing.T) {
	quoted := strings.ReplaceAll(words, `"`, `\"`)
	noon := time.Date(2026, 1, 17, 9, 15, 33, 0, time.UTC)
	for line, want := range map[string]Envelope{
		words:  {Transport: Klog},
		inJSON: {Transport: "klog-json", Time: time.UnixMicro(1795221215791634).UTC()},
		"Jan 17 09:15:33 node1 kubelet[2154]: " + words:                                  {Transport: "syslog", Program: "kubelet", PID: 2154},
		"<27>1 2026-01-17T09:15:33Z node1 kubelet 2154 - - " + words:                     {Transport: "syslog-5424", Program: "kubelet", PID: 2154, Time: noon},
		"[ 1234.567890] node1 kubelet[2154]: " + words:                                   {Transport: "journal-short", Program: "kubelet", PID: 2154},
		`{"MESSAGE":"` + quoted + `","_SYSTEMD_UNIT":"kubelet.service","_PID":"2154"}`:   {Transport: "journal-json", PID: 2154},
		`{"jsonPayload":{"MESSAGE":"` + quoted + `","_SYSTEMD_UNIT":"kubelet.service"}}`: {Transport: "gcp-json"},
		"    MESSAGE=" + words:                   {Transport: "journal-verbose"},
		"2026-01-17T09:15:33Z stderr F " + words: {Transport: CRI, Time: noon},
		`{"log":"` + quoted + `\n","stream":"stderr","time":"2026-01-17T09:15:33Z"}`:                 {Transport: "docker-json", Time: noon},
		"2026-01-17T09:15:33Z " + words:                                                              {Transport: "container-timestamps", Time: noon},
		`{"entry":"` + quoted + `","stream":"stderr","unit":"kubelet.service"}`:                      {Transport: "shipped-json", Program: "kubelet.service"},
		`time="2026-01-17 09:15:33" level=info msg="` + quoted + `" component=kubelet stream=stderr`: {Transport: "k0s"},
	} {
		e, ok := (&Units{}).Unwrap(line)
		if !ok {
			t.Errorf("no transport: %s", line)
			continue
		}
		c, ok := e.Call(noFragment)
		if !ok || c.File != "kubelet_volumes.go" || c.Msg != "Orphan pod" || !c.Structured || c.JSON != (line == inJSON) || c.PID != 2154 && !c.JSON {
			t.Errorf("%s: %t %+v", line, ok, c)
		}
		err, _ := c.Get("err")
		if n, _ := c.Get("numErrs"); err.Value != "x" || n.Value != "2" || c.Has("podUID") {
			t.Errorf("%s: %+v", line, c.Fields)
		}
		if e.Transport != want.Transport || e.Program != want.Program || e.PID != want.PID || !e.Time.Equal(want.Time) {
			t.Errorf("%s: %+v, want %+v", line, e, want)
		}
	}
}

// TestNoKubelet: lines of other programs carry no call, whatever they say.
func TestNoKubelet(t *testing.T) {
	quoted := strings.ReplaceAll(words, `"`, `\"`)
	for _, line := range []string{
		"", "\t" + words, "kubelet said " + words, words[1:],
		"@4000000065a79f3512345678 " + words, "2026-01-17_09:15:33.12345 " + words, "data: " + inJSON,
		"Jan 17 09:15:33 node1 logger[2154]: " + words,
		"2026-01-17T09:15:33Z stdout F " + words,
		`{"MESSAGE":"` + quoted + `","_SYSTEMD_UNIT":"session-1.scope"}`,
		`{"MESSAGE":"` + quoted + `","_SYSTEMD_UNIT":"kubelet.service","_UID":"1000"}`,
		`{"log":"` + quoted + `","stream":"stdout"}`,
		`{"entry":"` + quoted + `","unit":"sshd.service"}`,
		`time="2026-01-17 09:15:33" level=info msg="` + quoted + `" component=etcd stream=stderr`,
		strings.Replace(inJSON, "kubelet_volumes", "prober", 1),
	} {
		e, ok := (&Units{}).Unwrap(line)
		if !ok {
			continue
		}
		if c, ok := e.Call(noFragment); ok {
			t.Errorf("%s: %+v", line, c)
		}
	}
}

// TestUnits: who is trusted beside the usual units.
func TestUnits(t *testing.T) {
	u := Units{Named: []string{"my", ""}, Runs: func(unit string) bool { return unit == "other.service" }}
	for _, c := range []struct {
		unit, comm, uid string
		want            bool
	}{
		{"kubelet.service", "kubelet", "0", true},
		{"kubelet.service", "", "", true},
		{"kubelet.service", "logger", "0", false},
		{"kubelet.service", "kubelet", "1000", false},
		{"my.service", "anything", "0", true},
		{"my", "anything", "0", true},
		{"my.service", "anything", "1", false},
		{"other.service", "kubelet", "0", true},
		{"other.service", "logger", "0", false},
		{"", "kubelet", "0", false},
		{"session-1.scope", "kubelet", "0", false},
	} {
		if _, ok := u.Entry(c.unit, c.comm, c.uid, Envelope{Text: words}); ok != c.want {
			t.Errorf("%+v: %t", c, ok)
		}
	}
}

// TestBlock: the line that opens a block, those that go on with it, and a record of a container
// runtime that does not end its line.
func TestBlock(t *testing.T) {
	head := strings.Replace(words, `err="x" numErrs=2`, "err=<", 1)
	e := Envelope{Text: " " + head}
	if c, ok := e.Opens(); !ok || c.File != "kubelet_volumes.go" || c.PID != 2154 || c.Msg != `"Orphan pod"` {
		t.Errorf("%t %+v", ok, c)
	}
	if e.Text = words; func() bool { _, ok := e.Opens(); return ok }() {
		t.Error("a whole line opens a block")
	}
	for text, want := range map[string]string{"\tfirst": "first", "#011first#012": "first", "first": "", " > numErrs=2": ""} {
		e := Envelope{Text: text}
		if got, ok := e.GoesOn(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %t", text, got, ok)
		}
	}
	other := Envelope{Text: "\tfirst", Program: "logger", named: true}
	if _, ok := other.GoesOn(); ok {
		t.Error("another program's line goes on with a kubelet's block")
	}
	for line, want := range map[string][3]any{
		"2026-01-17T09:15:33Z stderr P x": {Stderr, true, true},
		"2026-01-17T09:15:33Z stdout F x": {Stdout, false, true},
		"2026-01-17T09:15:33Z elsewhere":  {Stderr, false, false},
	} {
		stream, partial, ok := Piece([]byte(line))
		if got := [3]any{stream, partial, ok}; ok != want[2] || ok && got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
