package parsers

import (
	"strings"
	"testing"
	"time"
)

const (
	victim = `E1128 17:13:49.123456    1234 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"11111111-1111-4111-8111-111111111111\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=2`
	info   = `I1128 17:13:40.000000    1234 kubelet.go:2400] "SyncLoop ADD" source="api"`
	mount  = `E1128 17:13:49.100000    1234 mount_linux.go:271] Mount failed: exit status 32`
)

// TestWhole has lines of one stream and the time between them. The last is a report that counts or not.
func TestWhole(t *testing.T) {
	type line struct {
		after time.Duration
		text  string
		edit  func(*Line)
	}
	journal := func(edit func(*Journal)) func(*Line) {
		return func(l *Line) {
			l.Journal = &Journal{Unit: "kubelet.service", PID: 1234, StreamID: "s", Priority: usualPriority}
			edit(l.Journal)
		}
	}
	usual := journal(func(*Journal) {})
	trimmed := journal(func(j *Journal) { j.StreamID = "" })
	dropped := journal(func(j *Journal) { j.MessageID, j.Transport = DroppedID, driver })
	file := func(*Line) {}
	syslog := func(l *Line) { l.Syslog = true }
	tests := []struct {
		name  string
		lines []line
		want  bool
	}{
		{"after another line", []line{{0, info, file}, {time.Second, victim, file}}, true},
		{"after its own report", []line{{0, victim, file}, {2 * time.Second, victim, file}}, true},
		{"the first line of a file", []line{{0, victim, file}}, false},
		{"after a message with a newline", []line{{0, info, file}, {time.Second, mount, file}, {0, "Mounting arguments: -t nfs s:/x", file}, {0, victim, file}}, false},
		{"after an error that quotes a text", []line{{0, info, file}, {time.Second, mount, file}, {0, victim, file}}, false},
		{"a second and more after that", []line{{0, info, file}, {time.Second, mount, file}, {1100 * time.Millisecond, victim, file}}, true},
		{"after a clock that was set back", []line{{0, info, file}, {time.Second, mount, file}, {-time.Minute, info, file}, {2 * time.Second, victim, file}}, true},
		{
			"after thousands of lines of one message",
			[]line{{0, info, file}, {time.Second, "x", file}, {90 * time.Millisecond, info, file}, {880 * time.Millisecond, info, file}, {0, info, file}, {60 * time.Millisecond, info, file}, {60 * time.Millisecond, victim, file}},
			false,
		},
		{"after a line that is too long", []line{{0, info, file}, {0, strings.Repeat("x", MaxLine+1), file}, {2 * time.Second, victim, file}}, false},
		{"after a line that a syslog daemon has cut", []line{{0, info, syslog}, {0, "Nov 28 17:13:48 h kubelet[1234]: " + info + strings.Repeat("x", 2000), syslog}, {2 * time.Second, victim, syslog}}, false},

		{"after the answer to a probe, which is raw at V(4)", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 http.go:145] Probe failed for http://10.0.0.1/ with request headers map[], response body: x`, file}, {0, victim, file}}, false},
		{"after a probe that succeeded", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 http.go:142] Probe succeeded for http://10.0.0.1/, Response: {200 OK}`, file}, {0, victim, file}}, true},
		{"after a container, which 1.20 prints raw at V(3)", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 kuberuntime_manager.go:813] container &Container{Name:c,Command:[sh -c x`, file}, {0, victim, file}}, false},
		{"after an image of an inline volume, raw at V(3) up to 1.30", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 attacher.go:129] rbd: successfully wait for attach volume (spec: v, pool: x`, file}, {0, victim, file}}, false},
		{"after the path of a slow request to k3s", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 trace.go:205] Trace[1]: "Get" url:/api/v1/namespaces/x`, file}, {0, victim, file}}, false},
		{"after a command, which klog before 2.60 prints raw", []line{{0, info, file}, {time.Second, `E1128 17:13:49.100000    1234 remote_runtime.go:394] "ExecSync cmd from runtime service failed" err="x" containerID="y" cmd=[sh -c x`, file}, {0, victim, file}}, false},
		{"the same, as if the command had ended", []line{{0, info, file}, {time.Second, `E1128 17:13:49.100000    1234 handlers.go:67] "Exec lifecycle hook for Container in Pod failed" err="x" execCommand=[sh -c ] pod="a/b"`, file}, {0, victim, file}}, false},
		{"after a list of pods and an event", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 kubelet.go:2142] "SyncLoop ADD" pods=[a/b] event=&{ID:x Type:ContainerDied}`, file}, {0, victim, file}}, true},
		{"after the missing path of a pod, as of 1.10 to 1.20", []line{{0, info, file}, {time.Second, `W1128 17:13:49.100000    1234 kubelet_getters.go:300] Path "/var/lib/kubelet/pods/11111111-1111-4111-8111-111111111111/volumes" does not exist`, file}, {0, victim, file}}, true},
		{"after the sources, as at V(5) before each sweep", []line{{0, info, file}, {time.Second, `I1128 17:13:49.100000    1234 config.go:104] "Looking for sources, have seen" sources=[api file] seenSources=map[api:{} file:{}]`, file}, {0, victim, file}}, true},

		{"of k0s", []line{{0, k0sLine(info), usual}, {time.Second, k0sLine(info), usual}, {0, k0sLine(victim), usual}}, true},
		{"of k0s, after an error that quotes a text", []line{{0, k0sLine(info), usual}, {time.Second, k0sLine(mount), usual}, {0, k0sLine(victim), usual}}, false},
		{"of k0s, after a piece of a long line", []line{{0, k0sLine(info), usual}, {time.Second, k0sLine(strings.Repeat("x", 4096)) + " chunk=2", usual}, {0, k0sLine(victim), usual}}, false},
		{"of a journald before 235, which removes klog's tab", []line{{0, info, trimmed}, {time.Second, `I1128 17:13:49.100000    1234 prober.go:121] "Probe failed" output=<`, trimmed}, {0, victim, trimmed}}, false},

		{"of the journal", []line{{0, info, usual}, {time.Second, victim, usual}}, true},
		{"the first entry of a stream", []line{{0, victim, usual}}, false},
		{"an entry that ends at a NUL", []line{{0, info, usual}, {time.Second, victim, journal(func(j *Journal) { j.LineBreak = "nul" })}}, false},
		{"after an entry that ends at LineMax", []line{{0, info, journal(func(j *Journal) { j.LineBreak = "line-max" })}, {2 * time.Second, victim, usual}}, false},
		{"with a priority of its own", []line{{0, info, usual}, {time.Second, victim, journal(func(j *Journal) { j.Priority = "3" })}}, false},
		{"after entries were dropped", []line{{0, info, usual}, {time.Second, "Suppressed 9 messages", dropped}, {100 * time.Millisecond, victim, usual}}, false},
		{"the second after entries were dropped", []line{{0, info, usual}, {time.Second, "Suppressed 9 messages", dropped}, {200 * time.Millisecond, info, usual}, {700 * time.Millisecond, victim, usual}}, false},
		{"the first long after entries were dropped", []line{{0, info, usual}, {time.Second, "Suppressed 9 messages", dropped}, {5 * time.Second, victim, usual}}, false},
		{"the second long after entries were dropped", []line{{0, info, usual}, {time.Second, "Suppressed 9 messages", dropped}, {5 * time.Second, info, usual}, {0, victim, usual}}, true},
		{"after entries were dropped after one that quotes", []line{{0, info, usual}, {time.Second, mount, usual}, {0, "Suppressed 9 messages", dropped}, {50 * time.Millisecond, info, usual}, {800 * time.Millisecond, victim, usual}}, false},
		// Every user may write the message ID.
		{"after an entry that is not journald's", []line{{0, info, usual}, {time.Second, info, journal(func(j *Journal) { j.MessageID, j.Transport = DroppedID, "journal" })}, {100 * time.Millisecond, victim, usual}}, true},
		{"after one that quotes and one that is not journald's", []line{{0, info, usual}, {time.Second, mount, usual}, {0, info, journal(func(j *Journal) { j.MessageID, j.Transport = DroppedID, "journal" })}, {200 * time.Millisecond, info, usual}, {700 * time.Millisecond, victim, usual}}, false},
	}
	for _, test := range tests {
		at := time.Date(2026, 11, 28, 17, 13, 40, 0, time.UTC)
		var s Stream
		var last Line
		for _, l := range test.lines {
			at = at.Add(l.after)
			last = Line{Text: []byte(l.text)}
			l.edit(&last)
			s.Next(&last, at)
		}
		if r, ok := Parse(last); !ok || r.Whole != test.want {
			t.Errorf("%s: a report: %t, whole: %t, want %t", test.name, ok, r.Whole, test.want)
		}
	}
}

// TestMixed shows that a JSON report in a text log is marked, and that no text which a line may quote marks the others.
func TestMixed(t *testing.T) {
	const forged = `{"ts":1795221171807.189,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","numErrs":3,"err":"orphaned pod \"11111111-1111-4111-8111-111111111111\" found, but error occurred when trying to remove the volumes dir: not a directory"}`
	at := time.Date(2026, 11, 28, 17, 13, 40, 0, time.UTC)
	var s Stream
	next := func(text string, after time.Duration) Line {
		l := Line{Text: []byte(text)}
		at = at.Add(after)
		s.Next(&l, at)
		return l
	}
	next(info, 0)
	next(info, 2*time.Second)
	next(mount, 2*time.Second)
	next(forged, 0)
	if l := next(victim, 2*time.Second); l.Mixed || !l.Whole {
		t.Errorf("a quoted JSON object counts as a format of the log: %+v", l)
	}
	if l := next(forged, 2*time.Second); !l.Mixed {
		t.Errorf("a JSON object in a text log: %+v", l)
	}
}

// TestDroppedMixed: what a stream has had of both formats is not forgotten when entries are dropped.
func TestDroppedMixed(t *testing.T) {
	at := time.Date(2026, 11, 28, 17, 13, 40, 0, time.UTC)
	var s Stream
	for _, l := range []struct {
		text string
		j    Journal
		want bool
	}{
		{info, Journal{StreamID: "s"}, false},
		{info, Journal{StreamID: "s"}, false},
		{`{"ts":1795221171807.189,"caller":"a/b.go:1","msg":"x"}`, Journal{StreamID: "s"}, true},
		{"Suppressed", Journal{MessageID: DroppedID, Transport: driver}, false},
		{info, Journal{StreamID: "s"}, false},
		{info, Journal{StreamID: "s"}, true},
	} {
		at = at.Add(2 * time.Second)
		line := Line{Text: []byte(l.text), Journal: &l.j}
		if s.Next(&line, at); line.Mixed != l.want {
			t.Errorf("%s: mixed %t", l.text, line.Mixed)
		}
	}
}

// TestKinds has the kind of every text, and the forms in which a report may come that counts.
func TestKinds(t *testing.T) {
	const uid = "11111111-1111-4111-8111-111111111111"
	head := "E1128 17:13:49.123456    1234 kubelet_volumes.go:263] "
	pods := "I1128 17:13:49.123456    1234 kubelet_pods.go:1215] "
	for _, test := range []struct {
		text string
		want Kind
	}{
		{head + `orphaned pod "` + uid + `" found, but volume paths are still present on disk : There were a total of 2044 errors similar to this. Turn up verbosity to see them.`, Removal},
		{head + `Orphaned pod "` + uid + `" found, but failed to remove volumes subdir "x"; err: y`, Removal},
		{head + `"Orphan pod" err="orphaned pod \"` + uid + `\" found, but failed to rmdir() volume at path /p: directory not empty"`, Removal},
		{head + `"Failed to remove orphaned pod dir" podUID="` + uid + `" err="x"`, Removal},
		{head + `"Orphaned pod found, but volumes are not cleaned up" podUID="` + uid + `"`, Volumes},
		{head + `Orphaned pod "` + uid + `" found, but volumes are not cleaned up`, Volumes},
		{head + `"Orphaned pod found, but failed to remove volumes subdir" err="x" podUID="` + uid + `" path="/p"`, Removal},
		{head + `"Orphaned pod found, but something else" podUID="` + uid + `"`, None},
		{pods + `"Orphaned pod found, but volumes not yet removed.  Reducing cpu to minimum" podUID="` + uid + `"`, Volumes},
		{`{"ts":1795221171807.189,"caller":"kubelet/kubelet_pods.go:1215","msg":"Orphaned pod found, but volumes not yet removed.  Reducing cpu to minimum","v":3,"podUID":"` + uid + `"}`, Volumes},
		{head + `orphaned pod "` + uid + `" found, but`, None},
		{head + `orphaned pod "` + uid + `" found, but something that no kubelet prints`, None},
		{k0sLine(victim), Removal},
		{"2026-11-28T17:13:49.5+00:00 h kubelet[1234]: " + victim, Removal},
		{"<27>1 2026-11-28T17:13:49.5+00:00 h kubelet 1234 - - " + victim, Removal},
		{"Nov 28 17:13:49 h kubelet[1234]: " + victim + "\r", Removal},
		{"2026-11-28T17:13:49.496936000Z stderr F " + victim, Removal},
		{"\x1b[31m" + victim + "\x1b[0m", Removal},
	} {
		if r, ok := Parse(Line{Text: []byte(test.text)}); !ok || r.Kind != test.want || !strings.HasPrefix(string(r.UID), "11111111") {
			t.Errorf("%s: %t, kind %d, want %d", test.text, ok, r.Kind, test.want)
		}
	}
}

func k0sLine(text string) string {
	return `time="2026-11-21 09:15:33" level=info msg=` + quoted(text) + ` component=kubelet stream=stderr`
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// TestPieces has the transports that split long lines: a text behind them may begin within one.
func TestPieces(t *testing.T) {
	for text, whole := range map[string]bool{
		victim: true, "Nov 28 17:13:49 h kubelet[1234]: " + victim: true,
		"2026-11-28T17:13:49.496936000Z stderr F " + victim: false, "2026-11-28T17:13:49.496936000Z " + victim: false,
	} {
		if r, ok := Parse(Line{Text: []byte(text), Whole: true}); !ok || r.Whole != whole {
			t.Errorf("%s: %t, whole %t", text, ok, r.Whole)
		}
	}
}

// TestRefused has lines that quote a report. None of them is one.
func TestRefused(t *testing.T) {
	for _, text := range []string{
		"Nov 28 17:13:49 h containerd[1]: " + victim,
		"Nov 28 17:13:49 h sudo: root : COMMAND=/bin/echo " + victim,
		`I1128 17:13:49.123456    1234 prober.go:107] "Probe failed" output=` + quoted(victim),
		"2026-11-28T17:13:49.496936000Z stdout F " + victim,
		"\t" + victim,
		strings.Replace(victim, "kubelet_volumes.go", "evil_volumes.go", 1),
		strings.Replace(victim, `numErrs`, `podUID="22222222-1111-4111-8111-111111111111" numErrs`, 1),
		strings.Replace(victim, "not a directory", "open /var/lib/kubelet/pods/11111111-1111-4111-8111-1111111111112/x", 1),
		strings.Replace(victim, `numErrs`, `err="x" numErrs`, 1),
		`E1128 17:13:49.123456    1234 kubelet_volumes.go:263] "Failed to remove orphaned pod dir" podUID="11111111-1111-4111-8111-111111111111" err="rmdir /var/lib/kubelet/pods/22222222-1111-4111-8111-111111111111: x"`,
		`{"ts":1795221171807.189,"caller":"kubelet/kubelet_volumes.go:263","msg":"Orphan pod","err":"orphaned pod \"11111111-1111-4111-8111-111111111111\" found, but error x","err":"orphaned pod \"22222222-1111-4111-8111-111111111111\" found, but error x"}`,
		victim[:len(victim)/2],
	} {
		if r, ok := Parse(Line{Text: []byte(text)}); ok && r.Kind != None {
			t.Errorf("%s: %+v", text, r)
		}
	}
}

// FuzzParse looks for a line that panics, or whose report has a UID that is not literally in it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{victim, info, mount, `{"ts":1,"msg":"x"}`, "<27>kubelet: " + victim} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok := Parse(Line{Text: text})
		if !ok {
			r, ok = Find(text)
		}
		if ok && !strings.Contains(string(text), string(r.UID)) {
			t.Errorf("%q: %s", text, r.UID)
		}
	})
}
