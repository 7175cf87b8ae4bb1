package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestDecodeEntry(t *testing.T) {
	const head = `{"__CURSOR":"s=1;t=5","__REALTIME_TIMESTAMP":"5","_PID":"12","_COMM":"kubelet","_SYSTEMD_UNIT":"kubelet.service","_BOOT_ID":"b","SYSLOG_IDENTIFIER":"x",`
	for name, c := range map[string]struct {
		line string
		want []string
		bad  bool
	}{
		"string":        {head + `"MESSAGE":"a\"b"}`, []string{`a"b`}, false},
		"numbers":       {head + `"MESSAGE":[104,255,0]}`, []string{"h\xff\x00"}, false},
		"null":          {head + `"MESSAGE":null}`, nil, false},
		"absent":        {head + `"OTHER":1}`, nil, false},
		"repeated":      {head + `"MESSAGE":["a",[98,99],null]}`, []string{"a", "bc"}, false},
		"empty":         {head + `"MESSAGE":[]}`, nil, false},
		"number beyond": {head + `"MESSAGE":[300]}`, nil, true},
		"object":        {head + `"MESSAGE":{}}`, nil, true},
		"no cursor":     {`{"MESSAGE":"a"}`, nil, true},
		"cut":           {head + `"MESSAGE":"a`, nil, true},
		"empty line":    {"", nil, true},
		"no object":     {"[]", nil, true},
	} {
		e, err := decodeEntry([]byte(c.line))
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, m := range e.messages {
			got = append(got, string(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		want := parsers.JournalFields{
			Unit: "kubelet.service", Comm: "kubelet", PID: 12, BootID: "b", Identifier: "x", Time: time.UnixMicro(5),
		}
		if err == nil && e.fields != want {
			t.Errorf("%s: fields %+v", name, e.fields)
		}
	}
	e, err := decodeEntry([]byte(`{"__CURSOR":"c","_PID":["1","2"],"_COMM":["a","kubelet"],"MESSAGE":"m"}`))
	if err != nil || e.fields.PID != 0 || e.fields.Comm != "" {
		t.Errorf("a duplicate trusted field was accepted: %+v, %v", e.fields, err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte(`{"__CURSOR":"s=1;t=5","MESSAGE":["a",[98,99],null],"_PID":"1"}`))
	f.Add([]byte(`{"__CURSOR":"s=1","MESSAGE":[1,2,3]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, err := decodeEntry(line); err == nil && (e.cursor == "" || e.fields.PID < 0) {
			t.Errorf("%q: %+v", line, e)
		}
	})
}

func TestJournalStart(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	cursor := func(at time.Time) string {
		return fmt.Sprintf("s=ab;i=1;b=cd;m=2;t=%x;x=3", at.UnixMicro())
	}
	day := 24 * time.Hour
	at := func(d time.Duration) string { return since(now.Add(d)) }
	for name, c := range map[string]struct {
		p    Position
		bad  bool
		want string
	}{
		"first start": {Position{}, false, at(-time.Hour)},
		"cursor younger": {
			Position{Cursor: cursor(now.Add(-time.Minute)), Hit: now.Add(-time.Minute), Alive: now},
			false,
			"--after-cursor=" + cursor(now.Add(-time.Minute)),
		},
		"cursor older":            {Position{Cursor: cursor(now.Add(-day)), Hit: now.Add(-day), Alive: now}, false, at(-aliveMargin)},
		"cursor without alive":    {Position{Cursor: cursor(now.Add(-day)), Hit: now.Add(-day)}, false, "--after-cursor=" + cursor(now.Add(-day))},
		"alive only":              {Position{Alive: now.Add(-day)}, false, at(-day - aliveMargin)},
		"malformed cursor":        {Position{Cursor: "--since=1;rm", Hit: now, Alive: now}, false, at(-aliveMargin)},
		"cursor of another hit":   {Position{Cursor: cursor(now.Add(-day)), Hit: now, Alive: now}, false, at(-aliveMargin)},
		"cursor refused":          {Position{Cursor: cursor(now.Add(-time.Minute)), Hit: now.Add(-time.Minute), Alive: now}, true, at(-time.Minute)},
		"alive in the future":     {Position{Alive: now.Add(day)}, false, at(-time.Hour)},
		"all in the future":       {Position{Cursor: cursor(now.Add(day)), Hit: now.Add(day), Alive: now.Add(day)}, false, "--after-cursor=" + cursor(now.Add(day))},
		"future cursor, refused":  {Position{Cursor: cursor(now.Add(day)), Hit: now.Add(day), Alive: now.Add(day)}, true, at(-time.Hour)},
		"enormous cursor":         {Position{Cursor: "t=" + strings.Repeat("0", 1000), Alive: now}, false, at(-aliveMargin)},
		"cursor's time overflows": {Position{Cursor: "t=ffffffffffffffffff", Alive: now}, false, at(-aliveMargin)},
	} {
		j := NewJournal(JournalOptions{Logger: quiet(), Now: func() time.Time { return now }})
		j.pos, j.cursorBad = c.p, c.bad
		if got := j.start(aliveMargin); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// fake is an artificial journalctl: a shell script that records its calls.
type fake struct {
	t     *testing.T
	dir   string
	calls string
}

// newFake writes a script. In it, $follow is set if it must follow, $calls is the number of earlier calls, and the
// function hit N prints the n-th orphan.
func newFake(t *testing.T, script string) *fake {
	t.Helper()
	return newAsked(t, "exit 0", script)
}

// newAsked writes a script that runs another one if it is called for the units' first entries. These calls are not
// counted.
func newAsked(t *testing.T, answer, script string) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir()}
	f.calls = filepath.Join(f.dir, "calls")
	head := `#!/bin/sh
case "$*" in *--output-fields=_SYSTEMD_UNIT\ *) echo "$$ $*" >> ` + f.calls + `.asked
` + answer + `;; esac
n=$(cat ` + f.calls + ` 2>/dev/null | grep -c .)
echo "$$ $*" >> ` + f.calls + `
follow=; case " $* " in *" --follow "*) follow=yes;; esac
hit() { printf '{"__CURSOR":"s=a;i=%x;b=b;m=1;t=%x;x=1","__REALTIME_TIMESTAMP":"%d","_PID":"12","_COMM":"kubelet","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"orphaned pod %s"}\n' $1 $((1790000000000000+$1)) $((1790000000000000+$1)) $1; }
`
	testkit.Must(t, os.WriteFile(filepath.Join(f.dir, "journalctl"), []byte(head+script), 0o700))
	return f
}

func (f *fake) journal(logger *slog.Logger) *Journal {
	j := NewJournal(JournalOptions{
		Logger: logger, Journalctl: Journalctl{Program: filepath.Join(f.dir, "journalctl")},
		Now: func() time.Time { return time.Unix(1_790_000_100, 0) },
	})
	j.retryMin, j.retryMax = 10*time.Millisecond, 40*time.Millisecond
	return j
}

func (f *fake) called() []string { return notes(f.calls) }

// asked returns the calls that ran newAsked's other script.
func (f *fake) asked() []string { return notes(f.calls + ".asked") }

func notes(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

func (f *follower) hits(ns ...int) {
	f.t.Helper()
	for _, n := range ns {
		text := "orphaned pod " + strconv.Itoa(n)
		f.until(text, func(texts []string) bool { return count(texts, text) > 0 })
		if c := count(f.texts(), text); c != 1 {
			f.t.Errorf("%s arrived %d times", text, c)
		}
	}
}

func TestJournalCatchesUpThenFollows(t *testing.T) {
	k := newFake(t, `if [ -z "$follow" ]; then hit 1; exit 0; fi; hit 2; exec sleep 100`)
	f := start(t, k.journal(quiet()), Position{})
	f.hits(1, 2)
	f.mu.Lock()
	if !f.got[0].CatchUp || f.got[0].Journal.PID != 12 || f.got[0].Journal.Unit != "kubelet.service" || f.got[0].Source != "journald" {
		t.Errorf("%+v %+v", f.got[0], f.got[0].Journal)
	}
	f.mu.Unlock()
	p := f.stop()
	if want := time.UnixMicro(1790000000000002); !p.Hit.Equal(want) || !p.Alive.Equal(time.Unix(1_790_000_100, 0)) {
		t.Errorf("position %+v", p)
	}
	calls := k.called()
	if len(calls) != 2 || !strings.Contains(calls[0], "--since=@1789996500 --namespace=* ") || strings.Contains(calls[0], "--follow") ||
		!strings.Contains(calls[1], "--follow --no-tail") || !strings.Contains(calls[1], "_SYSTEMD_UNIT=kubelet.service _SYSTEMD_UNIT=k3s.service") {
		t.Errorf("called with %q", calls)
	}
}

func TestJournalIsStartedAgainAndResumes(t *testing.T) {
	k := newFake(t, `if [ -z "$follow" ]; then exit 1; fi; hit $n; [ $n -ge 7 ] && exec sleep 100; exit 1`)
	j := k.journal(quiet())
	f := start(t, j, Position{Alive: time.Unix(1_790_000_000, 0)})
	f.hits(1, 3, 5, 7)
	f.stop()
	calls := k.called()
	if !strings.Contains(calls[0], "--since=@1789999400") {
		t.Errorf("does not resume ten minutes before it was last alive: %s", calls[0])
	}
}

// TestJournalRenewsItsFollower checks that a child follows for a limited time, also if it hangs, and that its
// successor sends the missing lines without logging an error.
func TestJournalRenewsItsFollower(t *testing.T) {
	k := newFake(t, `[ -z "$follow" ] && exit 0; hit 1; [ $n -ge 4 ] && hit 2; [ $n -ge 6 ] && hit 3; exec sleep 100`)
	var log lockedBuffer
	j := k.journal(slog.New(slog.NewTextHandler(&log, nil)))
	j.renewal = 200 * time.Millisecond
	f := start(t, j, Position{})
	f.until("the third", func(texts []string) bool { return count(texts, "orphaned pod 3") > 0 })
	resumed := func() bool { return strings.Contains(strings.Join(k.called(), "\n"), "--after-cursor=s=a;i=") }
	for deadline := time.Now().Add(patience); !resumed() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	f.stop()
	if !resumed() || log.String() != "" {
		t.Errorf("called with %q, logged:\n%s", k.called(), log.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.got {
		if l.CatchUp && l.Journal.Time.After(j.started) {
			t.Errorf("a line since the start counts as old: %+v", l)
		}
	}
}

// TestJournalReadsUnitsThatAreFound checks that each new child gets the current units, each once.
func TestJournalReadsUnitsThatAreFound(t *testing.T) {
	k := newFake(t, `[ -z "$follow" ] && exit 0; hit $n; [ $n -ge 3 ] && exec sleep 100; exit 1`)
	j := k.journal(quiet())
	j.opts.Units = []string{"kubelet", "k3s.service"}
	asked := 0
	j.opts.More = func(context.Context) []string {
		if asked++; asked == 1 {
			return nil // The kubelet starts later.
		}
		return []string{"k3s-shop.service", "k3s.service"}
	}
	start(t, j, Position{}).hits(1, 3)
	const usual = "_SYSTEMD_UNIT=kubelet.service _SYSTEMD_UNIT=k3s.service"
	for i, call := range k.called()[:4] {
		want := usual
		if i > 1 {
			want += " _SYSTEMD_UNIT=k3s-shop.service"
		}
		if strings.Contains(call, "--follow") {
			want += " + MESSAGE_ID=" + dropped
		}
		if !strings.HasSuffix(strings.TrimSpace(call), want) {
			t.Errorf("child %d: %s, want %s", i, call, want)
		}
	}
}

func TestJournalWithoutPCRE(t *testing.T) {
	k := newFake(t, `case "$*" in *--grep*) echo "Compiled without pattern matching support" >&2; exit 1;; esac
hit 1; printf '%s\n' '{"__CURSOR":"s=1;t=1","MESSAGE":"nothing of interest"}'; [ -z "$follow" ] || exec sleep 100`)
	f := start(t, k.journal(quiet()), Position{})
	f.hits(1)
	if texts := f.texts(); len(texts) != 1 {
		t.Errorf("lines: %q", texts)
	}
}

// TestJournalOfAnOldSystemd: before systemd 245 there is no --namespace, and a build may lack PCRE2.
func TestJournalOfAnOldSystemd(t *testing.T) {
	k := newFake(t, `case "$*" in *--namespace*) echo "journalctl: unrecognized option '--namespace=*'" >&2; exit 1;;
*--case-sensitive*|*--grep*) echo "journalctl: unrecognized option '--case-sensitive=yes'" >&2; exit 1;; esac
[ -z "$follow" ] && exit 0; hit 1; exec sleep 100`)
	start(t, k.journal(quiet()), Position{}).hits(1)
}

func TestJournalRefusesTheCursor(t *testing.T) {
	k := newFake(t, `case "$*" in *--after-cursor*) echo "Failed to seek to cursor: Invalid argument" >&2; exit 1;; esac
[ -z "$follow" ] && exit 0; hit 5; hit 6; exec sleep 100`)
	us := int64(1790000000000005)
	f := start(t, k.journal(quiet()), Position{Cursor: fmt.Sprintf("s=a;i=5;b=b;m=1;t=%x;x=1", us), Hit: time.UnixMicro(us)})
	f.hits(6)
	if count(f.texts(), "orphaned pod 5") != 0 {
		t.Error("the entry of the cursor itself arrived again")
	}
}

func TestJournalGarbageAndHugeLines(t *testing.T) {
	k := newFake(t, `echo; echo '{'; printf 'orphaned pod \0\377 \n'; head -c 3000000 /dev/zero | tr '\0' x; echo
echo warning >&2; head -c 300000 /dev/zero | tr '\0' y >&2
printf '{"__CURSOR":"s=1;t=1","MESSAGE":"orphaned pod big '; head -c 200000 /dev/zero | tr '\0' z; printf '"}\n'
hit 1; [ -z "$follow" ] && exit 0; hit 2; exec sleep 100`)
	f := start(t, k.journal(quiet()), Position{})
	f.until("the second hit", func(texts []string) bool { return count(texts, "orphaned pod 2") > 0 })
	if text := f.texts()[0]; len(text) != maxText || !strings.HasPrefix(text, "orphaned pod big") {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
}

func TestJournalEndsWithItsContext(t *testing.T) {
	for name, script := range map[string]string{
		"hung":             `trap '' TERM INT HUP; while :; do sleep 100; done`,
		"grandchild":       `[ -z "$follow" ] && exit 0; sleep 100 & hit 1; wait`,
		"never stops":      `while :; do hit 1; done`,
		"dies at once":     `exit 7`,
		"killed by itself": `kill -9 $$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newFake(t, script)
			f := start(t, k.journal(quiet()), Position{})
			deadline := time.Now().Add(patience)
			for len(k.called()) == 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			f.stop()
			for _, call := range k.called() {
				pid, _ := strconv.Atoi(strings.Fields(call)[0])
				for syscall.Kill(-pid, 0) == nil {
					if time.Now().After(deadline) {
						t.Fatalf("process group %d still exists", pid)
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

func TestJournalBacksOffAndLogsOnce(t *testing.T) {
	k := newFake(t, `echo "no journal files here" >&2; exit 1`)
	var log lockedBuffer
	j := k.journal(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	f := start(t, j, Position{})
	deadline := time.Now().Add(patience)
	for len(k.called()) < 4 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	f.stop()
	if n := strings.Count(log.String(), "journalctl failed"); n != 1 || !strings.Contains(log.String(), "no journal files here") {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestJournalWithoutJournalctlIsHopeless(t *testing.T) {
	j := NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Journalctl: Journalctl{Program: "no-such-journalctl"}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := j.Run(ctx, Position{}, make(chan parsers.Line)); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("Run: %v", err)
	}
	if err := j.Run(ctx, Position{}, make(chan parsers.Line, 1)); !errors.Is(err, ErrBuffered) {
		t.Errorf("Run: %v", err)
	}
}
