package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nxadm/tail"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	victim = `E1128 17:13:49.123456    1234 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"11111111-1111-4111-8111-%012d\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=2`
	mount  = `E1128 17:13:49.100000    1234 mount_linux.go:271] Mount failed: exit status 32`
	info   = `I1128 17:13:40.000000    1234 kubelet.go:2400] "SyncLoop ADD" source="api"`
)

func write(t *testing.T, path, text string, flag int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// until returns the lines up to the first with this text. It waits for events alone.
func until(t *testing.T, f *Follower, text string) (lines []parsers.Line) {
	t.Helper()
	for {
		select {
		case l, ok := <-f.Lines():
			if !ok {
				t.Fatalf("the lines have ended before %q", text)
			}
			if lines = append(lines, l); strings.Contains(string(l.Text), text) {
				return lines
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("no line has %q: %+v", text, f.Sources())
		}
	}
}

// follow follows one file from its end, and waits until tail is there: a line that is written again and again has come.
func follow(t *testing.T, path string) *Follower {
	t.Helper()
	return followAt(t, path, time.Now)
}

// followAt is follow with a clock.
func followAt(t *testing.T, path string, now func() time.Time) *Follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := Follow(ctx, Config{Now: now, Files: []File{{Path: path}}})
	t.Cleanup(func() {
		cancel()
		for range f.Lines() { // they end when the source has
		}
	})
	for {
		write(t, path, fmt.Sprintf(victim, 0)+"\n", os.O_APPEND)
		select {
		case <-f.Lines():
			return f
		case <-time.After(100 * time.Millisecond): // tail may have begun after this line: write another
		}
	}
}

// TestBeginsInMessage: the first lines that are read of a file may be the rest of a message whose beginning was not read.
func TestBeginsInMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	write(t, path, info+"\n", 0)
	now := time.Now()
	f := followAt(t, path, func() time.Time { return now })
	write(t, path, fmt.Sprintf(victim, 1)+"\n"+fmt.Sprintf(victim, 2)+"\n", os.O_APPEND)
	for _, l := range until(t, f, "000000000002") {
		if l.Whole {
			t.Errorf("it counts: %s", l.Text)
		}
	}
}

// TestQuotedWhileBusy: the lines of a message stay parts of it while they wait for the reader of Lines. A line that is waited
// for is none of it.
func TestQuotedWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan *tail.Line, 10)
		lines <- &tail.Line{Text: info} // the first line may be the rest of another
		lines <- &tail.Line{Text: "E1128 17:13:49.000000    1234 nestedpendingoperations.go:348] Operation failed: mounting arguments: -t nfs s:/x"}
		for range 4 {
			lines <- &tail.Line{Text: fmt.Sprintf(victim, 1)}
		}
		time.AfterFunc(time.Hour, func() {
			lines <- &tail.Line{Text: fmt.Sprintf(victim, 2)}
			close(lines)
		})
		var stream parsers.Stream
		stream.Begin(time.Now().Add(-time.Hour))
		var whole []bool
		arrival := waits{at: time.Now(), now: time.Now}
		for line := range arrival.each(lines) {
			l := parsers.Line{Text: []byte(line.Text)}
			stream.Next(&l, arrival.at)
			whole = append(whole, l.Whole)
			time.Sleep(time.Minute) // as long as Lines is full
		}
		if want := []bool{false, true, false, false, false, false, true}; !slices.Equal(whole, want) {
			t.Errorf("these count: %v, want %v", whole, want)
		}
	})
}

// TestFile follows a file over what happens to logs.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	write(t, path, fmt.Sprintf(victim, 99)+"\n", 0)
	f := follow(t, path)

	line := fmt.Sprintf(victim, 1)
	write(t, path, info+"\n"+line[:70], os.O_APPEND)
	write(t, path, line[70:]+"\n", os.O_APPEND)
	lines := until(t, f, "000000000001")
	for _, l := range lines {
		if strings.Contains(string(l.Text), "000000000099") {
			t.Error("a line was delivered that was there before")
		}
	}
	last := lines[len(lines)-1]
	id, err := identify(path)
	if err != nil || string(last.Text) != line || last.File == nil || *last.File != id || last.Source != path {
		t.Errorf("a line in two writes: %q, %+v, want %+v, %v", last.Text, last.File, id, err)
	}

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path, fmt.Sprintf(victim, 2)+"\n", 0)
	if lines := until(t, f, "000000000002"); *lines[len(lines)-1].File == id {
		t.Error("a line of the new file is attributed to the old one")
	}

	// tail notices a truncation by the size, so the lines that are written right after it may be lost. A kubelet repeats
	// itself.
	write(t, path, "\n", os.O_TRUNC)
	repeat(t, path, fmt.Sprintf(victim, 4)+"\n")
	until(t, f, "000000000004")
}

// TestReopened: the first line of a file that was rotated may be the rest of one of the old file.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	write(t, path, info+"\n", 0)
	var later atomic.Int64
	f := followAt(t, path, func() time.Time { return time.Unix(later.Load(), 0) })
	for whole := false; !whole; { // the clock counts from the time at which the next line is waited for
		later.Add(60)
		write(t, path, fmt.Sprintf(victim, 1)+"\n", os.O_APPEND)
		lines := until(t, f, "000000000001")
		whole = lines[len(lines)-1].Whole
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path, fmt.Sprintf(victim, 2)+"\n", 0)
	if lines := until(t, f, "000000000002"); lines[len(lines)-1].Whole {
		t.Error("it counts")
	}
}

// repeat appends a text again and again until the test ends.
func repeat(t *testing.T, path, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := file.WriteString(text); err != nil || file.Close() != nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

// TestRecent reads what a command without a past reads: the end of a file, from a whole line on.
func TestRecent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "messages")
	old := fmt.Sprintf(victim, 1) + "\n"
	write(t, path, old+strings.Repeat(info+"\n", recentBytes/len(info))+fmt.Sprintf(victim, 2)+"\n", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := Follow(ctx, Config{Now: time.Now, Files: []File{{Path: path, Syslog: true}}, Recent: true})
	lines := until(t, f, "000000000002")
	if len(lines) != 1 || !lines[0].Syslog {
		t.Errorf("%d lines, the first %+v", len(lines), lines[0])
	}
}

// TestMissing has a file that is made later, and one that is a directory, which is reported and tried again.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "later.log")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := Follow(ctx, Config{Now: time.Now, Files: []File{{Path: path}, {Path: dir}}})
	repeat(t, path, info+"\n"+fmt.Sprintf(victim, 5)+"\n") // tail begins to watch at a time of its own
	until(t, f, "000000000005")
	for _, s := range f.Sources() {
		if (s.Name == dir) != strings.Contains(s.Err, "no regular file") {
			t.Errorf("%+v", s)
		}
	}
}

// stand is a journalctl that prints its arguments to a file, then entries, and waits.
const stand = `#!/bin/sh
printf '%%s\n' "$@" >"%[1]s/args"
cat "%[1]s/entries"
exec sleep 600
`

func entry(stream, fields, message string) string { return entryAt(0, stream, fields, message) }

// entryAt is an entry of some seconds later.
func entryAt(seconds int, stream, fields, message string) string {
	return fmt.Sprintf(`{"__CURSOR":"c","__REALTIME_TIMESTAMP":"%d","_SYSTEMD_UNIT":"kubelet.service","_PID":"1234",`+
		`"_UID":"0","_BOOT_ID":"b","_STREAM_ID":%q,"PRIORITY":"6"%s,"MESSAGE":%s}`+"\n", 1795221171807189+seconds*1_000_000, stream, fields, message)
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// TestJournal has entries of a stand-in for journalctl: which are whole, with their fields, and what it is called with.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	numbers := strings.ReplaceAll(fmt.Sprintf("%d", fmt.Appendf(nil, victim, 4)), " ", ",")
	// The first second of a stream may be the rest of a message.
	write(t, filepath.Join(dir, "entries"), entry("d", "", quoted(info))+entry("d", "", quoted(fmt.Sprintf(victim, 10)))+entry("a", "", quoted(fmt.Sprintf(victim, 1)))+
		entryAt(2, "a", "", quoted(fmt.Sprintf(victim, 2)))+
		entryAt(2, "a", `,"_LINE_BREAK":"nul"`, quoted(fmt.Sprintf(victim, 3)))+
		"no entry\n"+
		entry("b", "", quoted(info))+entryAt(2, "b", "", numbers)+
		entry("c", "", quoted(info))+entryAt(2, "j", `,"_TRANSPORT":"driver","MESSAGE_ID":"`+parsers.DroppedID+`"`, `"Suppressed"`)+
		// What follows may be the rest of a message whose beginning is missing.
		entryAt(2, "c", "", quoted(fmt.Sprintf(victim, 5)))+entryAt(2, "c", "", quoted(fmt.Sprintf(victim, 6)))+
		entryAt(4, "c", "", quoted(fmt.Sprintf(victim, 8)))+
		// The same entry of another program than journald has no meaning.
		entryAt(6, "j", `,"_TRANSPORT":"journal","MESSAGE_ID":"`+parsers.DroppedID+`"`, `"Suppressed"`)+
		entryAt(6, "c", "", quoted(fmt.Sprintf(victim, 9)))+
		// An entry that is too long may have quoted a text.
		entryAt(8, "c", "", `"`+strings.Repeat("x", maxEntry)+`"`)+entryAt(8, "c", "", quoted(fmt.Sprintf(victim, 11)))+
		// Another user's entry does not end the second after a line that quotes.
		entryAt(8, "c", "", quoted(mount))+
		entryAt(8, "k", `,"_TRANSPORT":"journal","MESSAGE_ID":"`+parsers.DroppedID+`"`, `"Suppressed"`)+
		entryAt(8, "c", "", quoted(info))+entryAt(8, "c", "", quoted(fmt.Sprintf(victim, 7))), 0)
	program := filepath.Join(dir, "journalctl")
	if err := os.WriteFile(program, fmt.Appendf(nil, stand, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := Follow(ctx, Config{Now: time.Now, Units: []string{"kubelet.service"}, Journalctl: Journalctl{Program: program}})
	lines := until(t, f, "000000000007")
	entries, err := os.ReadFile(filepath.Join(dir, "entries"))
	if err != nil {
		t.Fatal(err)
	}
	for i, whole := range []bool{false, false, true, false, true, false, false, true, true, false, false} {
		if l := lines[i]; l.Whole != whole || l.Journal == nil || l.Journal.PID != 1234 || l.Journal.Unit != "kubelet.service" || l.Journal.Time.IsZero() {
			t.Errorf("entry %d: whole %t, want %t: %+v", i+1, l.Whole, whole, l.Journal)
		}
	}
	if s := f.Sources(); len(s) != 1 || s[0].Lines != 19 || s[0].Err != "" {
		t.Errorf("%+v", s)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || !strings.Contains(string(args), "--all\n") || !strings.Contains(string(args), "--since=-10s\n_SYSTEMD_UNIT=kubelet.service\n+\nMESSAGE_ID="+parsers.DroppedID+"\n_TRANSPORT=driver") {
		t.Errorf("%s, %v", args, err)
	}
	_, fields, _ := strings.Cut(string(args), "--output-fields=")
	fields, _, _ = strings.Cut(fields, "\n")
	for _, m := range regexp.MustCompile(`"([A-Z_]+)":`).FindAllStringSubmatch(string(entries), -1) {
		if !strings.HasPrefix(m[1], "__") && !slices.Contains(strings.Split(fields, ","), m[1]) { // journalctl prints only these
			t.Errorf("the field %s is not asked for: %s", m[1], fields)
		}
	}
	cancel()
	for range f.Lines() { // it ends: the child was killed
	}
}

// TestJournalFails has a journalctl that cannot run: the error is in Sources, and it is tried again.
func TestJournalFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := Follow(ctx, Config{Now: time.Now, Units: []string{"kubelet.service"}, Journalctl: Journalctl{Program: filepath.Join(t.TempDir(), "none")}})
	for f.Sources()[0].Err == "" {
		select {
		case <-t.Context().Done():
			t.Fatal("no error")
		case <-time.After(time.Millisecond):
		}
	}
	if err := f.Sources()[0].Err; !strings.Contains(err, "cannot run journalctl") {
		t.Error(err)
	}
}

// TestFull: a line waits for a reader of Lines and is not lost.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Follower{lines: make(chan parsers.Line, 1), sources: map[string]*Source{"x": {}}, cfg: Config{Now: time.Now}}
		go func() {
			for i := range 3 {
				f.send(t.Context(), "x", parsers.Line{Text: fmt.Appendf(nil, victim, i)})
			}
			close(f.lines)
		}()
		synctest.Wait()
		n := 0
		for range f.lines {
			n++
		}
		if n != 3 {
			t.Errorf("%d lines of 3", n)
		}
	})
}
