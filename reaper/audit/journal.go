package audit

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Identifier is the SYSLOG_IDENTIFIER of all records: journalctl -t orphan-reaper.
const Identifier = "orphan-reaper"

// sendTimeout limits how long one record waits for journald. A send blocks while the socket's queue is full, and a
// journald that hangs never empties it.
const sendTimeout = 5 * time.Second

// Journal writes records to the journal, or to a logger if no journald runs: loop.Recorder.
type Journal struct {
	log     *slog.Logger
	enabled func() bool
	send    func(message string, p journal.Priority, vars map[string]string) error
	timeout time.Duration

	mu    sync.Mutex // one record at a time
	guard bounded.Guard
}

// NewJournal returns a Journal. log gets the records on a machine without journald, such as a container.
func NewJournal(log *slog.Logger) *Journal {
	return &Journal{log: log, enabled: journal.Enabled, send: journal.Send, timeout: sendTimeout}
}

// Record writes the record of an event; an intent has none. After an error it was not written, or that is not known: the
// loop writes it again, with the same ORPHAN_REAPER_SEQ.
func (j *Journal) Record(e judge.Event) error {
	r, ok := RecordOf(e.Kind)
	if !ok {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// A send that hangs is not repeated before it ends, so that at most one goroutine waits for journald.
	err, hangs := bounded.Within(context.Background(), &j.guard, "journal", j.timeout, func() error {
		if !j.enabled() {
			return j.show(e, r)
		}
		return j.send(Text(e), r.Priority, Fields(e))
	})
	if hangs != nil {
		return fmt.Errorf("cannot write record %d: journald accepts no records: %w", e.Seq, hangs)
	}
	if err != nil {
		return fmt.Errorf("cannot write record %d: %w", e.Seq, err)
	}
	return nil
}

// show writes the record to the logger. It calls the handler, since a Logger drops its error.
func (j *Journal) show(e judge.Event, r Record) error {
	ctx, level := context.Background(), levelOf(r.Priority)
	if !j.log.Enabled(ctx, level) {
		return nil
	}
	line := slog.NewRecord(e.At.Wall, level, Text(e), 0)
	line.AddAttrs(slog.String("event", string(e.Kind)), slog.Int64("seq", e.Seq))
	if e.UID != "" {
		line.AddAttrs(slog.String("pod_uid", string(e.UID)))
	}
	return j.log.Handler().Handle(ctx, line)
}

func levelOf(p journal.Priority) slog.Level {
	switch {
	case p <= journal.PriErr:
		return slog.LevelError
	case p == journal.PriWarning:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Field is one field of a record besides MESSAGE and PRIORITY.
type Field struct {
	Name, Meaning string
	value         func(e judge.Event) string // "" leaves the field out
}

// JournalFields is the table of fields that a record may have, for the journal and the docs.
var JournalFields = [...]Field{
	{"MESSAGE_ID", "the kind of event, for journalctl -x", func(e judge.Event) string { r, _ := RecordOf(e.Kind); return r.ID }},
	{"SYSLOG_IDENTIFIER", "always " + Identifier, func(judge.Event) string { return Identifier }},
	{"ORPHAN_REAPER_EVENT", "the kind of event", func(e judge.Event) string { return string(e.Kind) }},
	{"ORPHAN_REAPER_SEQ", "the number of the event in the ledger; a record that was written twice has the same", func(e judge.Event) string {
		return strconv.FormatInt(e.Seq, 10)
	}},
	{"ORPHAN_REAPER_TIME", "when it happened: the journal may get it later", func(e judge.Event) string {
		return e.At.Wall.UTC().Format(time.RFC3339Nano)
	}},
	{"ORPHAN_REAPER_POD_UID", "the pod's UID", func(e judge.Event) string { return string(e.UID) }},
	{"ORPHAN_REAPER_NAMESPACE", "the pod's namespace, if it is known", func(e judge.Event) string { return e.Namespace }},
	{"ORPHAN_REAPER_POD", "the pod's name, if it is known", func(e judge.Event) string { return e.PodName }},
	{"ORPHAN_REAPER_REASON", "the reasons, separated by commas", func(e judge.Event) string {
		names := make([]string, 0, len(e.Reasons))
		for _, r := range e.Reasons {
			names = append(names, string(r.Reason))
		}
		return strings.Join(names, ",")
	}},
	{"ORPHAN_REAPER_ENTRY", "the name in quarantine", func(e judge.Event) string { return e.Entry }},
	{"ORPHAN_REAPER_BYTES", "how many bytes were removed", func(e judge.Event) string {
		var sum int64
		for _, t := range e.Taken {
			sum += t.Bytes
		}
		if len(e.Taken) == 0 {
			return ""
		}
		return strconv.FormatInt(sum, 10)
	}},
	{"ORPHAN_REAPER_BY", "the operator who ordered it", func(e judge.Event) string { return user(e.By) }},
	{"ORPHAN_REAPER_UNDO", "the command that undoes it", Undo},
}

// maxField limits one field. Nothing that the program itself makes is longer.
const maxField = 4096

// Fields returns the journal fields of the event's record.
func Fields(e judge.Event) map[string]string {
	fields := map[string]string{}
	for _, f := range JournalFields {
		if v := f.value(e); v != "" {
			fields[f.Name] = bounded.Cut(v, maxField)
		}
	}
	return fields
}
