package audit

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const uid = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001")

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// sample returns an event of the kind in which every value that comes from outside is name.
func sample(kind judge.EventKind, name string) judge.Event {
	return judge.Event{
		Seq: 7, Kind: kind, At: judge.Instant{Wall: noon}, UID: uid, Namespace: name, PodName: name, Entry: string(uid) + ".1",
		By: &judge.User{Login: name, SudoUser: name}, Reasons: []judge.Reason{{Reason: judge.IsRunning, Detail: name}}, Err: name,
		Taken: map[string]judge.Tally{"skeleton": {Entries: 3, Bytes: 4096}}, Mounts: []string{name},
		Left:    []judge.Residue{{Path: name, Class: content.Data, Tally: judge.Tally{Entries: 1, Bytes: 2048}}},
		VolData: map[string]string{name: `{"token":"secret"}`},
	}
}

// TestKeptName: a name that is no UID has no command of its own.
func TestKeptName(t *testing.T) {
	e := sample(judge.EventKept, "lost+found")
	e.UID = ""
	if text := Text(e); !strings.HasSuffix(text, ". Run: orphan-reaper doctor") {
		t.Error(text)
	}
}

// kinds returns the kinds of events as judge's source declares them, so that no new one is forgotten.
func kinds(t *testing.T) (all []judge.EventKind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../judge/plan.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "EventKind" {
			literal, _ := spec.Values[0].(*ast.BasicLit)
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, judge.EventKind(value))
		}
		return true
	})
	return all
}

// TestEveryEvent: an event that is no intent has a record with an ID of its own, and an intent has none. An intent's name
// ends in -ing.
func TestEveryEvent(t *testing.T) {
	ids, all := map[string]bool{}, kinds(t)
	if len(all) < len(Records) {
		t.Fatalf("%d kinds", len(all))
	}
	for _, kind := range all {
		sent := 0
		j := NewJournal(slog.New(slog.DiscardHandler))
		j.enabled = func() bool { return true }
		j.send = func(text string, _ journal.Priority, fields map[string]string) error {
			sent++
			id := fields["MESSAGE_ID"]
			if len(id) != 32 || ids[id] || len(text) < 20 {
				t.Errorf("%s: %q %v", kind, text, fields)
			}
			ids[id] = true
			return nil
		}
		if err := j.Record(sample(kind, "x")); err != nil || (sent == 0) != strings.HasSuffix(string(kind), "ing") {
			t.Errorf("%s: %d records, %v", kind, sent, err)
		}
	}
}

// TestHostileNames: a pod chooses its names, so none may end a line, hide what follows it, or push the undo command out.
// What a CSI driver has in vol_data.json may be a secret, and stays in the ledger.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		"a\nMESSAGE=b", "\x1b[2Jx", "a\u202eb", "\xff\xfe", "a\x00b", "x. Undo: rm -rf /", strings.Repeat("long ", 100_000), "",
	} {
		for _, r := range Records {
			e := sample(r.Kind, name)
			e.Archive = "/var/lib/orphan-reaper/cni 1.tar"
			text := Text(e)
			if i := strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 || len(text) > maxText {
				t.Errorf("%s with %.20q: %d bytes, not printable at %d", r.Kind, name, len(text), i)
			}
			if undo := Undo(e); undo != "" && !strings.HasSuffix(text, ". Undo: "+undo) {
				t.Errorf("%s with %.20q does not end in its undo command: %.200s", r.Kind, name, text)
			}
			if run := strings.ReplaceAll(r.Run, "UID", string(uid)); !strings.Contains(text, run) {
				t.Errorf("%s with %.20q lacks its command: %.200s", r.Kind, name, text)
			}
			if r.Pod && !strings.Contains(text, string(uid)) {
				t.Errorf("%s with %.20q does not name the pod: %.200s", r.Kind, name, text)
			}
			size := 0
			for field, value := range Fields(e) {
				size += len(field) + len(value)
				if strings.Contains(value, "secret") {
					t.Errorf("%s: %s has %q", r.Kind, field, value)
				}
			}
			if size > 32<<10 { // of a datagram that journald gets without a file in /dev/shm
				t.Errorf("%s with %.20q: %d bytes", r.Kind, name, size)
			}
		}
	}
}

// TestUndo: the commands that bring back what was moved or removed.
func TestUndo(t *testing.T) {
	for want, e := range map[string]judge.Event{
		"orphan-reaper quarantine restore " + string(uid): {Kind: judge.EventQuarantined, UID: uid}, // of recover, which has no Undo
		"tar -xf '/var/lib/orphan-reaper/cni 1.tar' -C /": {Kind: judge.EventCNIRemoved, Archive: "/var/lib/orphan-reaper/cni 1.tar"},
		"tar -xf /other.tar -C /":                         {Kind: judge.EventCNIRemoved, Archive: "/a.tar", Undo: "tar -xf /other.tar -C /"},
		"":                                                {Kind: judge.EventRemoved, UID: uid},
		"orphan-reaper quarantine restore " + string(uid[:4]): {Kind: judge.EventCleaned, UID: uid[:4]},
	} {
		if got := Undo(e); got != want || !strings.Contains(Fields(e)["ORPHAN_REAPER_UNDO"], want) {
			t.Errorf("%s: %q, not %q", e.Kind, got, want)
		}
	}
}

// broken fails to write.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestNothingIsLostSilently: a record that was not written is an error, so that the loop writes it again.
func TestNothingIsLostSilently(t *testing.T) {
	e := sample(judge.EventRemoved, "x")
	var out bytes.Buffer
	j := NewJournal(slog.New(slog.NewTextHandler(&out, nil)))
	j.enabled = func() bool { return false }
	if err := j.Record(e); err != nil || !strings.Contains(out.String(), string(uid)) || !strings.Contains(out.String(), "seq=7") {
		t.Errorf("without journald: %v, %s", err, out.String())
	}
	j.log = slog.New(slog.NewTextHandler(broken{}, nil))
	if err := j.Record(e); err == nil {
		t.Error("a record that stderr has not got is no error")
	}
	j.enabled = func() bool { return true }
	j.send = func(string, journal.Priority, map[string]string) error { return errors.New("no buffer space") }
	if err := j.Record(e); err == nil {
		t.Error("a record that journald has not got is no error")
	}
	release, sends := make(chan struct{}), make(chan struct{}, 9)
	defer close(release)
	j.timeout = time.Nanosecond
	j.send = func(string, journal.Priority, map[string]string) error { sends <- struct{}{}; <-release; return nil }
	if err := j.Record(e); !errors.Is(err, bounded.ErrHangs) {
		t.Errorf("a journald that hangs: %v", err)
	}
	<-sends
	if err := j.Record(e); !errors.Is(err, bounded.ErrStuck) || len(sends) != 0 {
		t.Errorf("a second send while the first hangs: %v, %d more sends", err, len(sends))
	}
}
