package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// aliveMargin is subtracted from Position.Alive, since journald writes with a delay and clocks are set.
	aliveMargin = 10 * time.Minute
	// overlap is how much earlier than the end of the search the follower begins.
	overlap = 10 * time.Second
	// firstLook is how far back a first start reads.
	firstLook = time.Hour
	// renewal is how long one child follows. It misses a /var/log/journal that is made after its
	// start (sd_journal_open(3)), when the journal becomes persistent. It may also hang.
	renewal = 10 * time.Minute
)

// JournalOptions are the options of NewJournal.
type JournalOptions struct {
	Logger *slog.Logger
	Now    func() time.Time // the wall clock
	Units  []string         // default parsers.KubeletUnits; a name without a suffix is that of a service
	// More returns further units, unless it is nil. It is called before each child is started.
	More func(context.Context) []string
	Journalctl
	Args []string // further arguments of journalctl: --directory=DIR, --namespace=NAME
}

// Journal follows journald through a journalctl child.
type Journal struct {
	opts        JournalOptions
	matches     []string
	retryMin    time.Duration
	retryMax    time.Duration
	renewal     time.Duration
	noGrep      bool // this journalctl was built without PCRE2
	cursorBad   bool // it refused the cursor
	noNamespace bool // it does not have --namespace
	started     time.Time
	certain     time.Time // until then the child reads the entries of all units; zero means always
	status      string    // what report logged last

	// Of the running child:
	streams  map[string]stream
	lookedUp map[string]bool // the texts for which before was called
	lookups  int

	mu       sync.Mutex // guards what follows; Run's goroutine alone changes it
	pos      Position
	caughtUp bool  // the end was reached once
	failed   error // of the last child, nil while one follows
}

// NewJournal returns a follower of the journal. It starts nothing.
func NewJournal(opts JournalOptions) *Journal {
	if len(opts.Units) == 0 {
		opts.Units = parsers.KubeletUnits()
	}
	if opts.Program == "" {
		opts.Program = "journalctl"
	}
	return &Journal{opts: opts, retryMin: time.Second, retryMax: time.Minute, renewal: renewal, streams: map[string]stream{}, lookedUp: map[string]bool{}}
}

// match sets the matches of the units to read.
func (j *Journal) match(ctx context.Context) {
	j.matches = j.matches[:0]
	units := j.opts.Units
	if j.opts.More != nil {
		units = append(slices.Clone(units), j.opts.More(ctx)...)
	}
	for _, u := range units {
		if m := "_SYSTEMD_UNIT=" + unitName(u); !slices.Contains(j.matches, m) {
			j.matches = append(j.matches, m)
		}
	}
}

// unitName completes a unit's name as systemctl does.
func unitName(u string) string {
	switch u[strings.LastIndexByte(u, '.')+1:] {
	case "service", "scope", "slice", "socket", "mount", "timer", "path", "target", "swap", "device", "automount":
		return u
	}
	return u + ".service"
}

// Name returns "journald".
func (j *Journal) Name() string { return "journald" }

// Position implements Source.
func (j *Journal) Position() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pos
}

// State implements Source.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return State{Reached: j.caughtUp, Err: j.failed}
}

// Run implements Source.
func (j *Journal) Run(ctx context.Context, from Position, lines chan<- parsers.Line) error {
	if cap(lines) != 0 {
		return ErrBuffered
	}
	j.mu.Lock()
	j.pos = Position{Cursor: from.Cursor, Hit: from.Hit, Alive: from.Alive}
	j.mu.Unlock()
	j.started = j.opts.Now()
	for delay := j.retryMin; ; delay = min(2*delay, j.retryMax) {
		begun := j.opts.Now()
		err := j.session(ctx, lines)
		switch classify(ctx, err) {
		case classShutdown:
			return nil
		case classHopeless:
			j.setFailed(err)
			return err
		case classRetry:
		}
		if errors.Is(err, errRenewed) || j.adapt(ctx, err) {
			delay = j.retryMin
			continue
		}
		if j.opts.Now().Sub(begun) > j.retryMax {
			delay = j.retryMin // it worked for a while
		}
		j.report(ctx, err, delay)
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// session reads the journal to its end with one child and then follows it with another, since only a child that exits
// shows that it reached the end. The first lets journalctl search, which is many times faster. The second reads all
// entries of the units, so that it always has the previous one.
func (j *Journal) session(ctx context.Context, lines chan<- parsers.Line) error {
	begun := j.opts.Now()
	j.match(ctx)
	start, matches := j.start(aliveMargin), j.matches
	if !j.caughtUp {
		matches = j.present(ctx, start)
	}
	if len(matches) < len(j.matches) {
		// A unit that is left out may begin to write now. So the follower, which reads all units, must
		// begin earlier: younger entries do not move the position.
		j.certain = begun.Add(-overlap)
	}
	err := j.child(ctx, j.searching(start, matches), false, lines)
	j.certain = time.Time{}
	if !reachedEnd(err) {
		return err
	}
	j.report(ctx, nil, 0)
	j.mu.Lock()
	j.pos.Alive, j.caughtUp = begun, true
	j.mu.Unlock()
	limited, cancel := context.WithTimeoutCause(ctx, j.renewal, errRenewed)
	defer cancel()
	err = j.child(limited, append([]string{"--follow", "--no-tail"}, j.reading(j.start(overlap), j.matches)...), true, lines)
	if errors.Is(context.Cause(limited), errRenewed) {
		return errRenewed
	}
	if err == nil {
		return errEnded
	}
	return err
}

var (
	errEnded   = errors.New("journalctl stopped following")
	errRenewed = errors.New("time for another journalctl")
)

// child starts journalctl with args and sends the lines that it prints. every reports whether these
// are all entries of the units.
func (j *Journal) child(ctx context.Context, args []string, every bool, lines chan<- parsers.Line) error {
	j.forget()
	bad := false
	return j.run(ctx, args, func(ctx context.Context, line []byte) error {
		if !every && j.noGrep && !parsers.Interesting(line) {
			return nil
		}
		e, err := decodeEntry(line)
		if err != nil {
			if !bad {
				j.opts.Logger.WarnContext(ctx, "cannot decode a line of journalctl", slog.Any("error", err))
			}
			bad = true
			return nil
		}
		return j.deliver(ctx, e, every, lines)
	})
}

// forget clears the state of the earlier entries: another child begins elsewhere.
func (j *Journal) forget() {
	clear(j.streams)
	clear(j.lookedUp)
	j.lookups = 0
}

// deliver sends the lines of one entry and then moves the position past it.
func (j *Journal) deliver(ctx context.Context, e entry, every bool, lines chan<- parsers.Line) error {
	seen := e.cursor != "" && e.cursor == j.Position().Cursor
	if seen && !every {
		return nil
	}
	whole := j.whole(ctx, &e, every)
	if seen {
		return nil
	}
	for _, m := range e.messages {
		if !parsers.Interesting(m) {
			continue
		}
		fields := e.fields
		l := parsers.Line{Text: m, Source: j.Name(), Journal: &fields, Whole: whole, CatchUp: !j.caughtUp || fields.Time.Before(j.started)}
		if err := send(ctx, lines, l); err != nil {
			return err
		}
	}
	_, ok := cursorTime(e.cursor)
	if !ok || !j.certain.IsZero() && e.fields.Time.After(j.certain) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pos.Cursor, j.pos.Hit = e.cursor, e.fields.Time
	j.cursorBad = false
	return nil
}

// reachedEnd reports whether a child that does not follow has read everything. journalctl --grep exits with
// status 1 and no message if nothing matches.
func reachedEnd(err error) bool {
	e, ok := errors.AsType[*childError](err)
	return err == nil || (ok && e.status == 1 && e.stderr == "")
}

// adapt stops using an option that this journalctl has refused, and reports whether to try again at once.
// Only the text of a message shows the option; LC_ALL=C keeps it in English. The three options bound the tries.
func (j *Journal) adapt(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*childError](err)
	if !ok || e.status <= 0 {
		return false
	}
	mentions := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(e.stderr, text) })
	}
	switch {
	case mentions("cursor") && !j.cursorBad:
		j.cursorBad = true
	case mentions("namespace") && !j.noNamespace:
		j.noNamespace = true
	case mentions("pattern matching support", "grep", "case-sensitive") && !j.noGrep:
		j.noGrep = true
	default:
		return false
	}
	j.opts.Logger.InfoContext(ctx, "journalctl refused an option; it is left out", slog.String("stderr", e.stderr))
	return true
}

func (j *Journal) setFailed(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = err
}

// report logs the state of the journal, once per change.
func (j *Journal) report(ctx context.Context, err error, delay time.Duration) {
	j.setFailed(err)
	status := ""
	if err != nil {
		status = fmt.Sprint(err)
	}
	if status == j.status {
		return
	}
	j.status = status
	if err == nil {
		j.opts.Logger.InfoContext(ctx, "following the journal")
		return
	}
	j.opts.Logger.WarnContext(ctx, "journalctl failed, starting it again", slog.Any("error", err), slog.Duration("after", delay))
}
