package source

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// unitStream is a process's connection to journald as a unit's kubelet has it.
type unitStream struct {
	t    *testing.T
	conn *net.UnixConn
}

// connect opens a stream as systemd does: a header of seven lines, then the process's own lines.
func connect(t *testing.T) *unitStream {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "/run/systemd/journal/stdout", Net: "unix"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &unitStream{t, conn}
	// identifier, unit, priority, level prefix, and whether to forward to syslog, kmsg, console
	s.write("kubelet\nkubelet.service\n6\n1\n0\n0\n0\n")
	return s
}

func (s *unitStream) write(text string) {
	s.t.Helper()
	_, err := s.conn.Write([]byte(text))
	testkit.Must(s.t, err)
}

const probed = "I0331 15:47:44.000000    3416 prober.go:116] \"Probe failed\" output=<\n\tx\n"

// TestWholeLinesOfARealJournald checks that a pod's text in the kubelet's log never counts as a line of the kubelet,
// whatever makes journald end an entry. Each n-th forged line looks complete unless the end of the previous entry is
// checked.
func TestWholeLinesOfARealJournald(t *testing.T) {
	journaldPath(t)
	if !testkit.InNamespace(t) {
		return
	}
	startJournald(t, "RateLimitIntervalSec=0\n")
	// No systemd assigns this process a unit here, so it is followed by its PID.
	follow := func() *follower {
		j := NewJournal(JournalOptions{Logger: quiet(), Now: time.Now})
		j.opts.Args = []string{"_PID=" + fmt.Sprint(os.Getpid()), "+"}
		return start(t, j, Position{})
	}
	early := follow() // It reads new entries, the others existing ones.
	waitFollowing(t, early.src)
	honest := func(n int) string { return orphan(n) + "\n" }
	k := connect(t)
	// until writes the kubelet's line again, as a kubelet does, until it is read and satisfies ok.
	until := func(n int, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("line %d was not read as expected within %v", n, patience)
			}
			k.write(honest(n))
		}
	}
	// On a busy machine journalctl begins at the journal's end some time after its start.
	until(90, func() bool { return slices.Contains(early.texts(), orphan(90)) })
	k.write(honest(1))
	k.write(honest(2))
	k.write(probed + "\t\x00" + honest(51))
	k.write(honest(3))
	k.write("I0331 15:47:44.000000    3416 prober.go:116] \"Probe failed\" output=<\n\t" + strings.Repeat("y", 48<<10-1) + honest(52) + " >\n")
	k.write(honest(4))
	k.write("<3>" + honest(53))                               // accepted where the kubelet's other lines are dropped
	until(5, func() bool { return wholes(early)[orphan(5)] }) // journald stamps it a moment after what comes before
	k.write("E0331 15:47:44.000000    3416 mount_linux.go:1] Mount failed: exit status 32\nMounting arguments: -t nfs h:/x\n" + honest(54) + "Output: none\n")
	k.write(honest(6)) // within a moment, so it is a hint, too
	until(7, func() bool { return wholes(early)[orphan(7)] })
	testkit.Must(t, k.conn.Close())
	other := connect(t)
	other.write("x\x00")
	other.write(honest(55))
	testkit.Must(t, other.conn.Close())
	last := connect(t)
	last.write("I0331 15:47:44.000000    3416 server.go:1] \"Kubelet version\"\n" + honest(8))
	late := follow()
	for name, f := range map[string]*follower{"as it came": early, "read back": late} {
		f.sees(1, 2, 3, 4, 6, 8, 51, 52, 53, 54, 55)
		f.until("the repeated lines", func(texts []string) bool {
			return slices.Contains(texts, orphan(5)) && slices.Contains(texts, orphan(7))
		})
		whole := wholes(f)
		for _, n := range []int{51, 52, 53, 54, 55} {
			if whole[orphan(n)] {
				t.Errorf("%s: a pod's text was accepted as a line of the kubelet: %d", name, n)
			}
		}
		for _, n := range []int{2, 5, 7, 8} {
			// Of lines that are repeated within a second, only the first is checked when it is read back.
			if !whole[orphan(n)] && (f == early || n != 5 && n != 7) {
				t.Errorf("%s: the kubelet's own line %d does not count", name, n)
			}
		}
	}
	manyInTurn(t, follow)
}

// manyInTurn checks that a kubelet that repeats itself is read without a check of each line, and that forged lines
// among them are still detected.
func manyInTurn(t *testing.T, follow func() *follower) {
	t.Helper()
	f := follow()
	waitFollowing(t, f.src)
	k := connect(t)
	for n := range 100 {
		k.write(orphan(100+n) + "\n")
		k.write("I0331 15:47:44.000000    3416 prober.go:116] \"Probe failed\" output=\"x\x00" + orphan(300+n) + "\n")
	}
	f.sees(199, 399)
	k.write("I0331 15:47:44.000000    3416 x.go:1] \"nothing\"\n" + orphan(500) + "\n")
	f.sees(500)
	whole := wholes(f)
	for n := range 100 {
		if whole[orphan(300+n)] {
			t.Fatalf("a pod's text was accepted as a line of the kubelet: %d", 300+n)
		}
	}
	if !whole[orphan(500)] {
		t.Error("the kubelet's own line does not count")
	}
}

func wholes(f *follower) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	whole := map[string]bool{}
	for _, l := range f.got {
		whole[string(l.Text)] = whole[string(l.Text)] || l.Whole
	}
	return whole
}

func klog(severity, file string) string {
	return severity + "0331 15:47:44.000000    3416 " + file + ":1] "
}

// TestWholeStream checks how each entry changes the state of its stream.
func TestWholeStream(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	entryOf := func(after time.Duration, text string, p piece) *entry {
		return &entry{messages: [][]byte{[]byte(text)}, piece: p, fields: parsers.JournalFields{PID: 3416, Time: at.Add(after)}}
	}
	stdout := piece{stream: "a", transport: "stdout", priority: "6"}
	with := func(change func(*piece)) piece { p := stdout; change(&p); return p }
	old := with(func(p *piece) { p.stream = "" })
	ended := func(by string) piece { return with(func(p *piece) { p.lineBreak = by }) }
	for name, c := range map[string]struct {
		before *entry
		this   *entry
		want   bool
	}{
		"after a line":                {entryOf(0, orphan(1), stdout), entryOf(0, orphan(2), stdout), true},
		"after a NUL":                 {entryOf(0, orphan(1), ended("nul")), entryOf(0, orphan(2), stdout), false},
		"after the longest line":      {entryOf(0, orphan(1), ended("line-max")), entryOf(0, orphan(2), stdout), false},
		"after another process":       {entryOf(0, orphan(1), ended("pid-change")), entryOf(0, orphan(2), stdout), false},
		"after what is yet unknown":   {entryOf(0, orphan(1), ended("new-in-systemd-300")), entryOf(0, orphan(2), stdout), false},
		"ends with a NUL":             {entryOf(0, orphan(1), stdout), entryOf(0, orphan(2), ended("nul")), false},
		"ends with the stream":        {entryOf(0, orphan(1), stdout), entryOf(0, orphan(2), ended("eof")), false},
		"nothing before it":           {nil, entryOf(0, orphan(2), stdout), false},
		"another priority":            {entryOf(0, orphan(1), stdout), entryOf(0, orphan(2), with(func(p *piece) { p.priority = "3" })), false},
		"a part of a message":         {entryOf(0, "Mounting arguments: -t nfs", stdout), entryOf(time.Millisecond, orphan(2), stdout), false},
		"a moment after it":           {entryOf(0, "Mounting arguments: -t nfs", stdout), entryOf(2*time.Second, orphan(2), stdout), true},
		"a probe's output":            {entryOf(0, klog("I", "prober.go")+"Liveness probe failed: x", stdout), entryOf(0, orphan(2), stdout), false},
		"a TLS handshake":             {entryOf(0, klog("I", "log.go")+"http: TLS handshake error: [x", stdout), entryOf(0, orphan(2), stdout), false},
		"a value, with its tab":       {entryOf(0, klog("I", "prober.go")+`"Probe failed" output=<`, stdout), entryOf(0, orphan(2), stdout), true},
		"a value, without":            {entryOf(0, klog("I", "prober.go")+`"Probe failed" output=<`, old), entryOf(0, orphan(2), old), false},
		"before the clock was set":    {entryOf(0, klog("E", "a.go")+"x", stdout), entryOf(-time.Hour, orphan(2), stdout), true},
		"an error":                    {entryOf(0, klog("E", "nestedpendingoperations.go")+"Operation failed: x", stdout), entryOf(0, orphan(2), stdout), false},
		"a moment after an error":     {entryOf(0, klog("E", "a.go")+"x", stdout), entryOf(2*time.Second, orphan(2), stdout), true},
		"a tear-down after an error":  {entryOf(0, klog("E", "a.go")+"x", stdout), entryOf(0, klog("E", "a.go")+"UnmountVolume", stdout), true},
		"a tear-down after a part":    {entryOf(0, "Mounting arguments: x", stdout), entryOf(0, klog("E", "a.go")+"UnmountVolume", stdout), false},
		"an error with keys":          {entryOf(0, klog("E", "a.go")+`"x" err="y"`, stdout), entryOf(0, orphan(2), stdout), true},
		"a report":                    {entryOf(0, klog("E", "kubelet_volumes.go")+"orphaned pod", stdout), entryOf(0, orphan(2), stdout), true},
		"a line that quotes nothing":  {entryOf(0, klog("I", "a.go")+"x", stdout), entryOf(0, orphan(2), stdout), true},
		"after a block":               {entryOf(0, " > numErrs=1", stdout), entryOf(0, orphan(2), stdout), true},
		"after k3s":                   {entryOf(0, `time="2026" level=info msg=x`, stdout), entryOf(0, orphan(2), stdout), true},
		"old journald":                {entryOf(0, orphan(1), old), entryOf(0, orphan(2), old), true},
		"old journald, cut at 2,048":  {entryOf(0, orphan(1)+strings.Repeat("y", 2048-len(orphan(1))), old), entryOf(0, orphan(2), old), false},
		"logger cuts at 1,024":        {entryOf(0, orphan(1)+strings.Repeat("y", 1024-len(orphan(1))), old), entryOf(0, orphan(2), old), false},
		"long, but journald says all": {entryOf(0, orphan(1)+strings.Repeat("y", 4096), stdout), entryOf(0, orphan(2), stdout), true},
	} {
		var s stream
		if c.before != nil {
			s.next(c.before)
		}
		if got := s.next(c.this); got != c.want {
			t.Errorf("%s: whole is %t, want %t", name, got, c.want)
		}
	}
}

// TestWholeLongMessage checks that the last lines of a message with very many do not count, however long journald takes.
func TestWholeLongMessage(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	next := func(s *stream, text string, after time.Duration) bool {
		at = at.Add(after)
		return s.next(&entry{messages: [][]byte{[]byte(text)}, piece: piece{stream: "a", priority: "6"}, fields: parsers.JournalFields{Time: at}})
	}
	for _, begin := range []string{klog("E", "a.go") + "x", "Mounting arguments: x"} {
		var s stream
		next(&s, begin, time.Hour)
		for range 50 {
			if next(&s, orphan(1), atOnce) {
				t.Fatalf("a line of %q is whole", begin)
			}
		}
		next(&s, klog("I", "a.go")+"x", 2*atOnce)
		if !next(&s, orphan(1), 2*atOnce) {
			t.Errorf("no line is whole after %q", begin)
		}
	}
}

// TestFileMarks checks which lines of a file came within a moment of another, by when they were read.
func TestFileMarks(t *testing.T) {
	path := logPath(t)
	now := time.Now().Add(time.Hour) // long after each write
	f := &File{path: path, now: func() time.Time { return now }}
	w := open(t, path)
	w.raw(junk)
	testkit.Must(t, f.open())
	reads := func(after time.Duration, text string) (whole []bool) {
		now = now.Add(after)
		w.raw(text)
		lines := make(chan parsers.Line, 9)
		_, err := f.drain(t.Context(), f.cur, lines)
		testkit.Must(t, err)
		close(lines)
		for l := range lines {
			whole = append(whole, l.Whole)
		}
		return whole
	}
	failed, report := klog("E", "a.go")+"x\n", orphan(1)+"\n"
	f.cur.markEnd() // what was there at the beginning is old
	if got := append(reads(100*time.Millisecond, failed), reads(100*time.Millisecond, report)...); !slices.Equal(got, []bool{false}) {
		t.Errorf("just after the beginning: %v", got)
	}
	for i, step := range []struct {
		after time.Duration
		text  string
		want  []bool
	}{
		{2 * time.Second, report, []bool{true}},
		{300 * time.Millisecond, failed, nil},
		{1700 * time.Millisecond, report, []bool{true}},
		{300 * time.Millisecond, failed + report, []bool{false}},
		{900 * time.Millisecond, report, []bool{false}},
		{200 * time.Millisecond, report + report, []bool{true, true}},
		{time.Minute, failed + report, []bool{false}},
		{2 * time.Second, report, []bool{true}},
	} {
		if got := reads(step.after, step.text); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i+1, got, step.want)
		}
	}
}

// TestFileWholeLines checks that the rest of a line that a syslog daemon has split does not count as a line of its
// own.
func TestFileWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "messages")
	long := func(n int) string { return "Mar 31 15:47:45 host app: " + strings.Repeat("y", n) + "\n" }
	text := orphan(1) + "\n" + long(8<<10) + orphan(2) + "\n" + junk + orphan(3) + "\n" +
		long(1060) + orphan(4) + "\n" + long(100<<10) + orphan(5) + "\n" + orphan(6) + "\n"
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	f := start(t, NewFile(path, time.Now, quiet()), Position{})
	f.sees(1, 2, 3, 4, 5, 6)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, want := range []bool{true, false, true, false, false, true} {
		if f.got[i].Whole != want {
			t.Errorf("line %d: whole is %t, want %t", i+1, f.got[i].Whole, want)
		}
	}
}

// TestFileMessageWithNewlines checks that what a pod chose in a kubelet's message with newlines, such as the path of an NFS
// volume in mount's error, does not count as a line of the kubelet.
func TestFileMessageWithNewlines(t *testing.T) {
	t.Parallel() // waits for seconds
	const syslog = "Mar 31 15:47:45 host kubelet[3416]: "
	failed := klog("E", "mount_linux.go") + "Mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs h:/x\n"
	line := klog("I", "a.go") + "x\n"
	for name, c := range map[string]struct {
		before string
		want   bool
	}{
		"klog":                 {failed, false},
		"with lines between":   {failed + strings.Repeat(line, 3000), false},
		"as another program":   {failed + "Mar 31 15:47:45 host sshd[1]: x\n", false},
		"syslog":               {syslog + strings.ReplaceAll(strings.TrimSpace(failed), "\n", "\n"+syslog) + "\n", false},
		"a probe's output":     {klog("I", "prober.go") + "Liveness probe for \"p\" failed (failure): \n", false},
		"an error":             {klog("E", "nestedpendingoperations.go") + "Operation failed: hostPath type check failed: /x\n", false},
		"a value in syslog":    {syslog + klog("I", "prober.go") + "\"Probe failed\" output=<\n", false},
		"escaped in syslog":    {syslog + klog("I", "a.go") + "x\n" + syslog + "#011x\n" + syslog + " >\n", true},
		"a sub-path":           {klog("I", "subpath_linux.go") + "Bound SubPath /x\n", false},
		"too much before":      {strings.Repeat(line, most/len(line)+1), false},
		"structured":           {klog("I", "prober.go") + "\"Probe failed\" output=<\n\tx\n >\n", true},
		"k3s":                  {`time="2026" level=info msg=x` + "\n", true},
		"of another program":   {"Mar 31 15:47:45 host app[1]: Output: x\n", true},
		"with a structured id": {"<27>1 2024-11-18T01:57:48+00:00 host app 1 - - Output: x\n", true},
	} {
		path := logPath(t)
		f := start(t, newFile(path), Position{})
		testkit.Must(t, os.WriteFile(path, []byte(junk+c.before+orphan(1)+"\n"), 0o600))
		f.sees(1)
		f.mu.Lock()
		if got := f.got[0].Whole; got != c.want {
			t.Errorf("%s: whole is %t, want %t", name, got, c.want)
		}
		f.mu.Unlock()
	}
	path := logPath(t)
	w, f := open(t, path), start(t, newFile(path), Position{})
	w.raw(junk + failed)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		w.raw(orphan(1) + "\n")
		f.until("a line", func(got []string) bool { return len(got) > 0 })
		f.mu.Lock()
		whole := f.got[len(f.got)-1].Whole
		f.mu.Unlock()
		if whole {
			return
		}
	}
	t.Error("no line is whole a moment later")
}
