package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	// aliveMargin is taken off the time that everything had been read: journald writes
	// with a delay, and clocks are set.
	aliveMargin = 10 * time.Minute
	// overlap is the same between the end of catching up and following.
	overlap = 10 * time.Second
	// firstLook is how far back a first start reads.
	firstLook = time.Hour
	// renewal is how long one child follows. It knows the directories that were there when it
	// started (sd_journal_open(3)): a /var/log/journal that is made later, which is how a
	// journal becomes persistent, it never sees. Nor does one that hangs say so.
	renewal = 10 * time.Minute
)

// pattern finds what parsers can use: reports of orphaned pods, and errors of the volume
// operations TearDown, NewUnmounter, FindPluginByName, UnmapDevice and UnmapPodDevice, which
// all are steps of UnmountVolume or UnmapVolume, or of their subpaths. klog's blocks are left
// out: only the line right after a block's head is the kubelet's own, and grep would hide it.
// The needles of parsers.Index are in it otherwise, and it is case sensitive
// because a pattern in lower case would not be.
const pattern = `rphaned pod|Un(mount|map)Volume.*failed|cleaning subPath mounts`

// outputFields are all that is read of an entry. journalctl adds its cursor and times.
const outputFields = "MESSAGE,_PID,_UID,_COMM,_SYSTEMD_UNIT,_BOOT_ID,SYSLOG_IDENTIFIER,_STREAM_ID,_TRANSPORT,_LINE_BREAK,PRIORITY,MESSAGE_ID"

// JournaldRuns reports whether journald takes messages here.
func JournaldRuns() bool {
	var st unix.Stat_t
	err := unix.Stat("/run/systemd/journal/socket", &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// JournalKept reports whether a journal lies in any of the directories. With Storage=none
// journald passes lines on to syslog and keeps none: there is nothing to follow.
func JournalKept(dirs ...string) bool {
	for _, dir := range dirs {
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*.journal")); err != nil || len(files) > 0 {
			return true
		}
	}
	return false
}

// journalLag is how much later than the journal a file is written that has the same lines.
const journalLag = 5 * time.Minute

// WrittenAfterJournal returns those of the files that were written well after the journals in any of
// the directories: the lines come to the files then, and to no journal. journald changes the time
// of its file with each entry that it writes.
func WrittenAfterJournal(dirs, files []string) []string {
	var last time.Time
	for _, dir := range dirs {
		journals, err := filepath.Glob(filepath.Join(dir, "*", "*.journal"))
		if err != nil {
			return nil
		}
		for _, path := range journals {
			if info, err := statRegular(path); err == nil && info.mtime.After(last) {
				last = info.mtime
			}
		}
	}
	var later []string
	for _, path := range files {
		if info, err := statRegular(path); err == nil && info.mtime.After(last.Add(journalLag)) {
			later = append(later, path)
		}
	}
	return later
}

// JournalOptions say how the journal is read.
type JournalOptions struct {
	Logger *slog.Logger
	Now    func() time.Time // the wall clock
	Units  []string         // parsers.KubeletUnits where empty; ".service" is added where there is no suffix
	// More, if it is set, returns units besides. Each new child is told anew.
	More func(context.Context) []string
	Journalctl
	Args []string // more arguments for it: --directory=DIR, --namespace=NAME
}

// Journal follows journald through a journalctl child.
type Journal struct {
	opts      JournalOptions
	matches   []string
	retryMin  time.Duration
	retryMax  time.Duration
	renewal   time.Duration
	noGrep    bool // this journalctl was built without PCRE2
	cursorBad bool // it refused the cursor
	oneSpace  bool // it knows no namespaces
	started   time.Time
	caughtUp  bool      // the end was reached once
	following bool      // the child that runs is the one that follows
	certain   time.Time // to when the child that runs reads the entries of all units, zero where for good
	said      string
	busy      bool // entries come in such number that all of the units are read
	hits      int  // entries of interest since the child was started

	// Of the child that runs:
	streams map[string]stream    // what its entries say of those that come next
	asked   map[string]time.Time // of which texts the journal was asked, and when
	lookups int

	mu     sync.Mutex
	pos    Position
	idle   bool  // following, and nothing waits to be received
	failed error // how the last child ended, nil while one follows
}

// NewJournal returns a follower of the journal. It starts nothing yet.
func NewJournal(opts JournalOptions) *Journal {
	if len(opts.Units) == 0 {
		opts.Units = parsers.KubeletUnits()
	}
	if opts.Program == "" {
		opts.Program = "journalctl"
	}
	return &Journal{opts: opts, retryMin: time.Second, retryMax: time.Minute, renewal: renewal, streams: map[string]stream{}, asked: map[string]time.Time{}}
}

// match says which units are read from now on.
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

// unitName completes a unit's name the way systemctl does.
func unitName(u string) string {
	switch _, suffix, _ := cutLast(u, "."); suffix {
	case "service", "scope", "slice", "socket", "mount", "timer", "path", "target", "swap", "device", "automount":
		return u
	}
	return u + ".service"
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Name returns "journald".
func (j *Journal) Name() string { return "journald" }

// Position implements Source.
func (j *Journal) Position() Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.pos
	if j.idle {
		p.Alive = j.opts.Now()
	}
	return p
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
		if errors.Is(err, errRenewed) {
			delay = j.retryMin
			continue
		}
		if j.adapt(ctx, err) {
			delay = j.retryMin
			continue
		}
		if j.opts.Now().Sub(begun) > j.retryMax {
			delay = j.retryMin // It worked for long.
		}
		j.report(ctx, err, delay)
		if !pause(ctx, delay) {
			return nil
		}
	}
}

// session reads up to the end, then follows. Two children, because only one that exits
// says that the end was reached, without which no time could be noted up to which all
// is read.
func (j *Journal) session(ctx context.Context, lines chan<- parsers.Line) error {
	begun := j.opts.Now()
	j.match(ctx)
	start, matches := j.start(aliveMargin), j.matches
	if !j.caughtUp {
		matches = j.present(ctx, start)
	}
	if len(matches) < len(j.matches) {
		// A unit that is left out may begin to write now. The follower, which reads all units, has to
		// begin before that: what is younger does not move the position.
		j.certain = begun.Add(-overlap)
	}
	err := j.child(ctx, j.arguments(start, j.busy, matches), j.busy, lines)
	j.certain = time.Time{}
	if !reachedEnd(err) {
		return err
	}
	j.mu.Lock()
	j.pos.Alive = begun
	j.mu.Unlock()
	j.caughtUp = true
	j.report(ctx, nil, 0)
	args := append([]string{"--follow", "--no-tail"}, j.arguments(j.start(overlap), j.busy, j.matches)...)
	limited, cancel := context.WithTimeoutCause(ctx, j.renewal, errRenewed)
	defer cancel()
	j.following, j.hits = true, 0
	err = j.child(limited, args, j.busy, lines)
	j.following = false
	// A kubelet that has an orphan names it every 2 s. To ask what came before each would cost
	// more than to read all.
	j.busy = j.hits > fewHits
	if errors.Is(context.Cause(limited), errRenewed) || errors.Is(err, errBusy) {
		return errRenewed
	}
	if err == nil {
		return errEnded
	}
	return err
}

// errBusy is for a follower that leaves out what has come to be needed. errEnded is for a follower that ended of itself, errRenewed for one whose time was up.
var (
	errEnded   = errors.New("journalctl stopped following")
	errBusy    = errors.New("too many entries to ask for each what came before")
	errRenewed = errors.New("time for another journalctl")
)

// reachedEnd reports whether a child that does not follow has read everything. Exit
// status 1 without a word is what --grep gives when nothing matches.
func reachedEnd(err error) bool {
	e, ok := errors.AsType[*childError](err)
	return err == nil || (ok && e.status == 1 && e.stderr == "")
}

// adapt draws conclusions from how a child failed, and reports whether there was one to
// draw, so that another try is worth while at once. journalctl tells by text only; its
// messages are not translated under LC_ALL=C. Each conclusion is drawn once, which bounds the tries.
func (j *Journal) adapt(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*childError](err)
	if !ok || e.status <= 0 {
		return false
	}
	switch {
	case strings.Contains(e.stderr, "cursor") && !j.cursorBad:
		j.cursorBad = true
	case strings.Contains(e.stderr, "namespace") && !j.oneSpace:
		j.oneSpace = true
	case (strings.Contains(e.stderr, "pattern matching support") || strings.Contains(e.stderr, "grep") ||
		strings.Contains(e.stderr, "case-sensitive")) && !j.noGrep:
		j.noGrep = true
	default:
		return false
	}
	j.opts.Logger.InfoContext(ctx, "journalctl refused an option; it is left out", slog.String("stderr", e.stderr))
	return true
}

// report logs how the journal is doing, once per change.
func (j *Journal) report(ctx context.Context, err error, delay time.Duration) {
	j.setFailed(err)
	said := ""
	if err != nil {
		said = fmt.Sprint(err)
	}
	if said == j.said {
		return
	}
	j.said = said
	if err == nil {
		j.opts.Logger.InfoContext(ctx, "following the journal")
		return
	}
	j.opts.Logger.WarnContext(ctx, "journalctl failed, starting it again", slog.Any("error", err), slog.Duration("after", delay))
}
