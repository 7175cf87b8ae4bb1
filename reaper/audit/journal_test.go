package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestIDs checks that each message ID is a random UUID, version 4, like systemd's own, and unique. An ID never
// changes: users' journalctl queries contain it.
func TestIDs(t *testing.T) {
	seen := map[string]policy.Kind{}
	for _, m := range policy.Kinds() {
		if !regexp.MustCompile(`^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$`).MatchString(m.ID) || seen[m.ID] != "" {
			t.Errorf("%s has the ID %q, as %s", m.Kind, m.ID, seen[m.ID])
		}
		seen[m.ID] = m.Kind
	}
	if got := policy.KindRemoved.Means().ID; got != "4ea9a81c415a40cb96e0a1a629658fc7" {
		t.Errorf("the ID of removed records has changed to %s", got)
	}
}

func TestTexts(t *testing.T) {
	var b strings.Builder
	ks := kinds()
	slices.Sort(ks)
	for _, k := range ks {
		fmt.Fprintf(&b, "%s\n  %s\n", k, Text(sample(k)))
		fmt.Fprintf(&b, "  %s\n", Text(policy.Record{Kind: k}))
	}
	wait := policy.Record{Kind: policy.KindKept, UID: testUID, Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonYoung}}}
	one := policy.Record{Kind: policy.KindRemoved, UID: testUID, Taken: map[string]policy.Tally{"skeleton": {Entries: 1, Bytes: 1}}}
	printed := policy.Record{Kind: policy.KindNotParked, UID: testUID, Text: "it had not been moved"}
	newer := policy.Record{Kind: policy.KindConflict, UID: testUID, Entry: testUID + ".1" + policy.ConflictSuffix}
	elder := policy.Record{Kind: policy.KindConflict, UID: testUID, Entry: testUID + ".1", Merge: []string{"diff -rq a b", "orphan-reaper quarantine purge --force a"}}
	quiet := policy.Record{Kind: policy.KindQuiet, At: policy.Instant{Wall: noon}, UID: testUID, Lines: 2044, PodCount: 1, LastLine: noon.Add(-9 * time.Minute)}
	many := policy.Record{Kind: policy.KindQuiet, At: policy.Instant{Wall: noon}, Lines: 1234567, PodCount: 2044, LastLine: noon.Add(-24 * time.Hour)}
	still := policy.Record{Kind: policy.KindStillNamed, At: policy.Instant{Wall: noon}, UID: testUID, Lines: 1, LastLine: noon, Gone: noon.Add(-time.Hour)}
	for _, r := range []policy.Record{wait, one, printed, newer, elder, quiet, many, still} {
		fmt.Fprintf(&b, "%s\n  %s\n", r.Kind, Text(r))
	}
	testkit.Golden(t, "testdata/texts.txt", b.String())
}

func TestUntrustedNamesStayOnTheirLine(t *testing.T) {
	for _, name := range nasty {
		for _, k := range kinds() {
			r := sample(k)
			r.PodName, r.Namespace, r.Err, r.Why[0].Detail, r.Left[0].Path = name, name, name, name, name
			r.Pods, r.Runtimes, r.Archive = []string{name}, []string{name}, name
			for _, r := range []policy.Record{r, {Kind: k, UID: testUID, Text: name}} {
				text := Text(r)
				if len(text) > maxText || !utf8.ValidString(text) {
					t.Errorf("%s with %.20q: %d bytes, valid: %v", k, name, len(text), utf8.ValidString(text))
				}
				if i := strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 {
					t.Errorf("%s with %.20q: not printable at %d: %q", k, name, i, text)
				}
				for _, f := range []Format{FormatText, FormatJSON} {
					line, err := Line(r, f)
					testkit.Must(t, err)
					if bytes.Count(line, []byte("\n")) != 1 || !bytes.Contains(line, []byte(testUID)) {
						t.Errorf("%s with %.20q as %s: %q", k, name, f, line)
					}
				}
			}
		}
	}
}

func TestLine(t *testing.T) {
	text, err := Line(sample(policy.KindParked), FormatText)
	testkit.Must(t, err)
	if want := testUID + " parked: Moved pod shop/cart-0 to quarantine"; !strings.HasPrefix(string(text), want) {
		t.Errorf("text %q\nwant it to begin with %q", text, want)
	}
	b, err := Line(sample(policy.KindParked), FormatJSON)
	testkit.Must(t, err)
	var got struct {
		policy.Record
		Time  time.Time
		Level string
	}
	testkit.Must(t, json.Unmarshal(b, &got))
	if got.Level != "INFO" || got.UID != testUID || got.Text == "" || got.Undo != "orphan-reaper quarantine restore "+testUID || !got.Time.Equal(got.At.Wall) {
		t.Errorf("JSON %s", b)
	}
}

// TestCommands checks that the program's own commands in a record get the flags, and no text that a pod has chosen.
func TestCommands(t *testing.T) {
	var out bytes.Buffer
	j := NewJournal(JournalOptions{
		NoJournal: true, Fallback: &out, Format: FormatJSON,
		Commands: func(text string) string {
			return strings.ReplaceAll(text, "orphan-reaper quarantine", "orphan-reaper -x quarantine")
		},
	})
	r := sample(policy.KindConflict)
	r.PodName, r.Merge = "a; orphan-reaper quarantine purge", []string{"diff a b", "orphan-reaper quarantine purge --force " + testUID}
	merge := slices.Clone(r.Merge)
	r.Undo = "orphan-reaper quarantine restore " + testUID
	testkit.Must(t, j.Record(r))
	var got policy.Record
	testkit.Must(t, json.Unmarshal(out.Bytes(), &got))
	const undo, purge = "orphan-reaper -x quarantine restore " + testUID, "orphan-reaper -x quarantine purge --force " + testUID
	if got.Undo != undo || !strings.Contains(got.Text, undo) || got.Merge[1] != purge || !strings.Contains(got.Text, purge) ||
		!strings.Contains(got.Text, r.PodName) || !slices.Equal(r.Merge, merge) {
		t.Errorf("%s", out.Bytes())
	}
}

func TestJournalFields(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	d := newJournald(t)
	j := NewJournal(JournalOptions{})
	for _, k := range kinds() {
		r := sample(k)
		testkit.Must(t, j.Record(r))
		e, _ := d.read(t)
		for name, want := range map[string]string{
			"MESSAGE": Text(r), "MESSAGE_ID": k.Means().ID, "PRIORITY": strconv.Itoa(int(k.Means().Level)),
			"SYSLOG_IDENTIFIER": "orphan-reaper", "ERROR": r.Err,
			"ORPHAN_REAPER_KIND": string(k), "ORPHAN_REAPER_POD_UID": testUID,
			"ORPHAN_REAPER_POD_NAMESPACE": "shop", "ORPHAN_REAPER_POD_NAME": "cart-0",
			"ORPHAN_REAPER_ARCHIVE": "cni-20260102-030405-000", "ORPHAN_REAPER_PODS": "shop/cart-0,shop/cart-1",
			"ORPHAN_REAPER_RUNTIMES": "containerd 1.6.20",
			"ORPHAN_REAPER_ENTRY":    testUID + "-1", "ORPHAN_REAPER_VERDICT": "keep",
			"ORPHAN_REAPER_REASONS":       "mounted,hold",
			"ORPHAN_REAPER_REASON_DETAIL": "mounted: /var/lib/kubelet/pods/x is a mount point of process 812",
			"ORPHAN_REAPER_TAKEN_ENTRIES": "14", "ORPHAN_REAPER_TAKEN_BYTES": "3166208",
			"ORPHAN_REAPER_TAKEN_SKELETON_ENTRIES": "5", "ORPHAN_REAPER_TAKEN_PROJECTED_BYTES": "3145728",
			"ORPHAN_REAPER_LEFT":     `[{"path":"volumes/kubernetes.io~nfs/data","class":"data","bytes":5368709120,"entries":12,"partial":true}]`,
			"ORPHAN_REAPER_VOL_DATA": `{"volumes/kubernetes.io~csi/pv/vol_data.json":{"volumeHandle":"h","keys":["volumeHandle"]}}`,
			"ORPHAN_REAPER_SEQ":      "42", "ORPHAN_REAPER_BOOT_ID": r.At.BootID, "ORPHAN_REAPER_UNDO": Undo(r),
		} {
			if e.get(name) != want {
				t.Errorf("%s: %s is %q, want %q", k, name, e[name], want)
			}
		}
		for name := range e {
			if !regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`).MatchString(name) {
				t.Errorf("%s: journald would drop the field %q", k, name)
			}
		}
	}
	// An empty record has no fields.
	testkit.Must(t, j.Record(policy.Record{Kind: policy.KindStarted}))
	if e, _ := d.read(t); len(e) != 5 {
		t.Errorf("an empty record has the fields %v", e)
	}
}

func TestUntrustedNamesForgeNoField(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	d := newJournald(t)
	j := NewJournal(JournalOptions{})
	for _, name := range nasty {
		r := sample(policy.KindKept)
		want := len(Fields(r)) + 2
		r.PodName, r.Namespace, r.Entry, r.Err, r.Why[0].Detail, r.Left[0].Path, r.VolData = name, name, name, name, name, name, map[string]string{name: name}
		r.Taken = map[string]policy.Tally{"skeleton": {}, "projected": {}}
		testkit.Must(t, j.Record(r))
		e, _ := d.read(t)
		if len(e) != want || e.get("ORPHAN_REAPER_POD_UID") != testUID || e.get("ORPHAN_REAPER_POD_NAME") != strings.ToValidUTF8(name, "\uFFFD") {
			t.Errorf("%.40q forged fields: %.300q", name, e)
		}
	}
}

// TestVolumesInJournal checks that only driver and handle of a volume are sent to the journal.
func TestVolumesInJournal(t *testing.T) {
	for text, want := range map[string]string{
		`{"driverName":"d","volumeHandle":"h","volumeAttributes":{"password":"SECRET"},"token":"SECRET"}`: `{"a":{"driverName":"d","volumeHandle":"h",` +
			`"keys":["driverName","password","token","volumeAttributes","volumeHandle"]}}`,
		`{"driverName":["SECRET"]}`: `{"a":{"keys":["driverName"]}}`,
		`SECRET`:                    `{"a":{}}`,
		``:                          `{"a":{}}`,
	} {
		got := ""
		jsonField(func(_, value string) { got = value }, "VOL_DATA", shippedVolumes(map[string]string{"a": text}), 1)
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestLargeRecord(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	d := newJournald(t)
	r := sample(policy.KindRemoved)
	large := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB, five times a socket's buffer
	r.VolData = map[string]string{"vol_data.json": `{"volumeHandle":"` + large + `"}`}
	testkit.Must(t, NewJournal(JournalOptions{}).Record(r))
	e, inFile := d.read(t)
	if !inFile {
		t.Error("1 MiB arrived in a datagram: the test does not reach the memfd")
	}
	want := `{"vol_data.json":{"volumeHandle":"` + large + `","keys":["volumeHandle"]}}`
	if e.get("ORPHAN_REAPER_VOL_DATA") != want || e.get("ORPHAN_REAPER_POD_UID") != testUID {
		t.Error("a large record arrived incomplete")
	}
}

func TestWithoutJournal(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	d := newJournald(t)
	var out bytes.Buffer
	j := NewJournal(JournalOptions{Fallback: &out})
	testkit.Must(t, j.Record(sample(policy.KindParked)))
	d.read(t)
	if out.Len() > 0 {
		t.Errorf("with a journal stderr has %q", &out)
	}
	testkit.Must(t, errors.Join(d.conn.Close(), os.Remove("/run/systemd/journal/socket")))
	testkit.Must(t, j.Record(sample(policy.KindParked)))
	if !strings.HasPrefix(out.String(), testUID+" parked: ") {
		t.Errorf("without a journal stderr has %q", &out)
	}
	if err := NewJournal(JournalOptions{}).Record(sample(policy.KindParked)); err == nil {
		t.Error("a record counts as sent without journal and stderr")
	}
	// A socket without a listener, as after a crash of journald.
	testkit.Must(t, listenJournald(t).conn.Close())
	out.Reset()
	testkit.Must(t, j.Record(sample(policy.KindParked)))
	if out.Len() == 0 {
		t.Error("stderr has no record while the socket has no listener")
	}
	testkit.Must(t, os.Remove("/run/systemd/journal/socket"))
	d = listenJournald(t)
	testkit.Must(t, j.Record(sample(policy.KindParked)))
	if e, _ := d.read(t); e.get("ORPHAN_REAPER_POD_UID") != testUID {
		t.Error("no records in the journal after its return")
	}
}

// TestJournaldThatHangs checks that one record waits for a journald that hangs, that the next ones fail, and that
// nothing is written to stderr, which journald reads and which would hang as well.
func TestJournaldThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var calls atomic.Int32
		var out bytes.Buffer
		j := NewJournal(JournalOptions{Fallback: &out})
		j.out.timeout, j.out.send = time.Second, func(string, journal.Priority, map[string]string) error {
			calls.Add(1)
			<-hang
			return nil
		}
		for range 3 {
			if err := j.Record(sample(policy.KindParked)); !errors.Is(err, ErrStuck) || out.Len() > 0 {
				t.Errorf("error %v, want ErrStuck; stderr has %q", err, &out)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d records hang, want 1", n)
		}
		close(hang)
		synctest.Wait()
		testkit.Must(t, j.Record(sample(policy.KindParked)))
	})
}

func TestNoJournal(t *testing.T) {
	var out bytes.Buffer
	j := NewJournal(JournalOptions{Fallback: &out, NoJournal: true, Format: FormatJSON})
	testkit.Must(t, j.Record(sample(policy.KindStarted)))
	if !json.Valid(out.Bytes()) {
		t.Errorf("not JSON: %s", &out)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testkit.Must(t, err)
	defer func() { _ = full.Close() }()
	if err := NewJournal(JournalOptions{Fallback: full, NoJournal: true}).Record(sample(policy.KindStarted)); err == nil {
		t.Error("a record that could not be written counts as sent")
	}
}

// TestLevel checks that a record below a stream's level is skipped without an error.
func TestLevel(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 4, slog.LevelInfo: 3, slog.LevelWarn: 2, slog.LevelError: 1} {
		var out bytes.Buffer
		j := NewJournal(JournalOptions{Fallback: &out, NoJournal: true, Level: level})
		for _, kind := range []policy.Kind{policy.KindParking, policy.KindParked, policy.KindPutBack, policy.KindBreaker} {
			testkit.Must(t, j.Record(sample(kind)))
		}
		if n := strings.Count(out.String(), "\n"); n != want {
			t.Errorf("%d records at %v, want %d:\n%s", n, level, want, &out)
		}
	}
}

func TestHandler(t *testing.T) {
	var got map[string]string
	var message string
	newHandler := func(*testing.T) slog.Handler {
		got = nil
		h := NewHandler(slog.LevelInfo, nil)
		h.out = &sender{timeout: time.Minute, send: func(m string, p journal.Priority, vars map[string]string) error {
			message, got = m, vars
			got["PRIORITY"] = strconv.Itoa(int(p))
			return nil
		}}
		return h
	}
	// slogtest calls its groups G, H and I and its attributes in lower case, so a field's name can be converted back.
	slogtest.Run(t, newHandler, func(t *testing.T) map[string]any {
		t.Helper()
		word, _, _ := strings.Cut(message, " ")
		res := map[string]any{slog.MessageKey: word, slog.LevelKey: got["PRIORITY"]}
		for name, value := range got {
			name, ok := strings.CutPrefix(name, prefix)
			if !ok {
				continue
			}
			at := res
			words := strings.Split(name, "_")
			for _, group := range words[:len(words)-1] {
				inner, ok := at[group].(map[string]any)
				if !ok {
					inner = map[string]any{}
					at[group] = inner
				}
				at = inner
			}
			at[strings.ToLower(words[len(words)-1])] = value
		}
		return res
	})

	log := slog.New(newHandler(t)).With(slog.String("source", "journald"))
	log.Warn("cannot read file", slog.String("path", "/a b\nMESSAGE=x"), slog.Duration("after", time.Second))
	if want := `cannot read file source=journald path="/a b\nMESSAGE=x" after=1s`; message != want {
		t.Errorf("MESSAGE is %q, want %q", message, want)
	}
	if got["PRIORITY"] != "4" || got["ORPHAN_REAPER_PATH"] != "/a b\nMESSAGE=x" || got["SYSLOG_IDENTIFIER"] != Identifier {
		t.Errorf("fields %q", got)
	}
	got = nil
	log.Debug("quiet")
	if got != nil {
		t.Error("a line below the level was sent")
	}
}

func TestHandlerWithoutJournal(t *testing.T) {
	var out bytes.Buffer
	h := NewHandler(slog.LevelInfo, slog.NewTextHandler(&out, nil))
	h.out.send = func(string, journal.Priority, map[string]string) error { return os.ErrNotExist }
	slog.New(h).With(slog.Int("a", 1)).WithGroup("g").Error("message", slog.Int("b", 2))
	if !strings.Contains(out.String(), "level=ERROR msg=message a=1 g.b=2") {
		t.Errorf("stderr has %q", &out)
	}
	out.Reset()
	h.out.send = func(string, journal.Priority, map[string]string) error { return ErrStuck }
	slog.New(h).Error("message")
	if out.Len() > 0 {
		t.Error("stderr, which would hang as well, has a line")
	}
}
