package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Identifier is the SYSLOG_IDENTIFIER of all entries: journalctl -t orphan-reaper.
const Identifier = "orphan-reaper"

// prefix begins the names of our own journal fields.
const prefix = "ORPHAN_REAPER_"

// sendTimeout limits how long one record waits for journald. A send blocks while the socket's queue is full, and a
// journald that hangs never empties it.
const sendTimeout = 5 * time.Second

// ErrStuck is returned while journald accepts no record. The record was not written. It is sent again later, since the
// ledger does not mark it as sent.
var ErrStuck = errors.New("journald accepts no records")

// Format is the form of records on a stream.
type Format string

// The formats: a line of text, or a JSON object a line.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// JournalOptions are the options of NewJournal.
type JournalOptions struct {
	// Fallback gets the records if there is no journal. If it is nil, that is an error.
	Fallback io.Writer
	Format   Format // of Fallback; the zero value is text
	// NoJournal sends everything to Fallback (--log-format text and json).
	NoJournal bool
	// Level is the lowest level that Fallback gets; nil is all. The journal and the ledger have every record.
	Level slog.Leveler
	// Commands adds the flags of this call to the commands in a text; nil adds none. The ledger's records have none.
	Commands func(text string) string
}

// Journal writes records to the journal, or to a stream if there is none. Its methods may be called from several
// goroutines.
type Journal struct {
	opts JournalOptions
	mu   sync.Mutex // one record at a time on the stream
	out  sender
}

// NewJournal returns a Journal. It checks for each record whether there is a journal.
func NewJournal(opts JournalOptions) *Journal {
	return &Journal{opts: opts, out: sender{send: journal.Send, timeout: sendTimeout}}
}

// Record writes one record. After an error it was not written.
func (j *Journal) Record(r policy.Record) error {
	if c := j.opts.Commands; c != nil {
		r.Undo, r.Merge = c(Undo(r)), slices.Clone(r.Merge)
		for i := range r.Merge {
			r.Merge[i] = c(r.Merge[i])
		}
		r.Text = cmp.Or(r.Text, compose(r, c))
	}
	if j.opts.NoJournal {
		return j.write(r)
	}
	err := j.out.do(Text(r), priorityOf(r), Fields(r))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrStuck):
		// Under systemd stderr goes to the same journald, so writing to it would block forever.
		return err
	}
	if j.opts.Fallback == nil {
		return fmt.Errorf("cannot send a record to the journal: %w", err)
	}
	return j.write(r)
}

// write writes the record to the stream, in one write, unless its level is below opts.Level.
func (j *Journal) write(r policy.Record) error {
	if j.opts.Fallback == nil {
		return errors.New("cannot show a record: no journal and no stream")
	}
	if j.opts.Level != nil && levelOf(priorityOf(r)) < j.opts.Level.Level() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	line, err := Line(r, j.opts.Format)
	if err != nil {
		return err
	}
	if _, err := j.opts.Fallback.Write(line); err != nil {
		return fmt.Errorf("cannot show a record: %w", err)
	}
	return nil
}

// Line returns the record as one line of a stream, with its newline. A text begins with the pod's UID and the kind, for
// grep. JSON has the record as in the ledger, with a level.
func Line(r policy.Record, f Format) ([]byte, error) {
	if f != FormatJSON {
		uid, text := "-", Text(r)
		if r.UID != "" { // do not repeat the UID in the text
			uid = string(r.UID)
			text = strings.Replace(strings.Replace(text, "pod "+uid, "the pod", 1), " ("+uid+")", "", 1)
		}
		return []byte(clean.Text(fmt.Sprintf("%s %s: %s", uid, r.Kind, text)) + "\n"), nil
	}
	r.Text, r.Undo = Text(r), Undo(r)
	b, err := json.Marshal(struct {
		Time  time.Time `json:"time"`
		Level string    `json:"level"`
		policy.Record
	}{r.At.Wall, levelOf(priorityOf(r)).String(), r})
	if err != nil {
		return nil, fmt.Errorf("cannot show record %d: %w", r.Seq, err)
	}
	return append(b, '\n'), nil
}

func priorityOf(r policy.Record) journal.Priority { return journal.Priority(r.Kind.Means().Level) }

func levelOf(p journal.Priority) slog.Level {
	switch {
	case p <= journal.PriErr:
		return slog.LevelError
	case p == journal.PriWarning:
		return slog.LevelWarn
	case p == journal.PriDebug:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// Fields returns the journal fields of a record except MESSAGE and PRIORITY. It omits fields without a value.
func Fields(r policy.Record) map[string]string {
	f := map[string]string{"SYSLOG_IDENTIFIER": Identifier}
	set := func(name, value string) {
		if value != "" {
			f[name] = strings.ToValidUTF8(value, "\uFFFD")
		}
	}
	own := func(name, value string) { set(prefix+name, value) }
	set("MESSAGE_ID", r.Kind.Means().ID)
	set("ERROR", r.Err)
	own("KIND", string(r.Kind))
	own("BY", r.By.Name())
	if by := r.By; by != nil {
		if by.UID != nil {
			own("BY_UID", strconv.FormatUint(uint64(*by.UID), 10))
		}
		own("BY_SUDO_USER", by.SudoUser)
	}
	own("POD_UID", string(r.UID))
	own("POD_NAMESPACE", r.Namespace)
	own("POD_NAME", r.PodName)
	own("ENTRY", r.Entry)
	own("LEAF", clean.Text(r.Leaf))
	own("ARCHIVE", clean.Text(r.Archive))
	own("PODS", clean.Text(strings.Join(r.Pods, ",")))
	own("RUNTIMES", clean.Text(strings.Join(r.Runtimes, ", ")))
	number := func(name string, n int64) {
		if n != 0 {
			own(name, strconv.FormatInt(n, 10))
		}
	}
	number("LINES", r.Lines)
	number("POD_COUNT", r.PodCount)
	number("SEQ", r.Seq)
	if !r.LastLine.IsZero() {
		own("LAST_LINE", r.LastLine.UTC().Format(time.RFC3339Nano))
	}
	if !r.Gone.IsZero() {
		own("GONE", r.Gone.UTC().Format(time.RFC3339Nano))
	}
	own("VERDICT", string(r.Decision))
	own("UNDO", Undo(r))
	own("MERGE", strings.Join(r.Merge, "\n"))
	own("BOOT_ID", r.At.BootID)
	if r.NeedsPerson() {
		own("NEEDS_PERSON", "1")
	}
	reasons, details := make([]string, len(r.Why)), make([]string, 0, len(r.Why))
	for i, w := range r.Why {
		reasons[i] = string(w.Reason)
		if w.Detail != "" {
			details = append(details, string(w.Reason)+": "+clean.Text(w.Detail))
		}
	}
	own("REASONS", strings.Join(reasons, ","))
	own("REASON_DETAIL", strings.Join(details, "\n"))
	takenFields(own, r.Taken)
	jsonField(own, "LEFT", r.Left, len(r.Left))
	jsonField(own, "MOUNTS", r.Mounts, len(r.Mounts))
	jsonField(own, "VOL_DATA", shippedVolumes(r.VolData), len(r.VolData))
	return f
}

// takenFields sets the fields for the sum and for each class, such as ORPHAN_REAPER_TAKEN_BYTES and
// ORPHAN_REAPER_TAKEN_PROJECTED_BYTES.
func takenFields(own func(name, value string), t map[string]policy.Tally) {
	if len(t) == 0 {
		return
	}
	var sum policy.Tally
	for _, class := range slices.Sorted(maps.Keys(t)) {
		sum.Add(t[class])
		name := "TAKEN_" + fieldName(class) + "_"
		own(name+"ENTRIES", strconv.FormatInt(t[class].Entries, 10))
		own(name+"BYTES", strconv.FormatInt(t[class].Bytes, 10))
	}
	own("TAKEN_ENTRIES", strconv.FormatInt(sum.Entries, 10))
	own("TAKEN_BYTES", strconv.FormatInt(sum.Bytes, 10))
}

// jsonField formats a list or a map as JSON, which can hold any name.
func jsonField(own func(name, value string), name string, v any, n int) {
	if n == 0 {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		own(name, "cannot be shown: "+err.Error())
		return
	}
	own(name, string(b))
}

// fieldName converts a name to that of a journal field.
func fieldName(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
			return c
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		}
		return '_'
	}, s)
}

// shippedVolume is the part of one vol_data.json that the journal gets. A driver's attributes may contain secrets, and
// log shippers send the journal elsewhere. The ledger has the whole file.
type shippedVolume struct {
	Driver string   `json:"driverName,omitempty"`
	Handle string   `json:"volumeHandle,omitempty"`
	Keys   []string `json:"keys,omitempty"`
}

func shippedVolumes(files map[string]string) map[string]shippedVolume {
	all := make(map[string]shippedVolume, len(files))
	for path, text := range files {
		var v shippedVolume
		var keys map[string]json.RawMessage
		var attributes struct {
			Of map[string]json.RawMessage `json:"volumeAttributes"`
		}
		if json.Unmarshal([]byte(text), &keys) == nil {
			_ = json.Unmarshal(keys["driverName"], &v.Driver) // a value that is not a string is omitted
			_ = json.Unmarshal(keys["volumeHandle"], &v.Handle)
			_ = json.Unmarshal([]byte(text), &attributes)
			maps.Copy(keys, attributes.Of)
			v.Keys = slices.Sorted(maps.Keys(keys))
		}
		all[path] = v
	}
	return all
}
