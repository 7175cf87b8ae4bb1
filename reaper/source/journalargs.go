package source

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// start returns the option that says where to begin: the cursor, or the time up to which
// all was read less the margin, whichever is younger.
func (j *Journal) start(margin time.Duration) string {
	j.mu.Lock()
	p := j.pos
	j.mu.Unlock()
	now := j.opts.Now()
	if p.Alive.After(now.Add(time.Minute)) {
		p.Alive = time.Time{} // The clock was wrong then, or is now.
	}
	floor := p.Alive.Add(-margin)
	switch hit, ok := cursorTime(p.Cursor); {
	case ok && hit.Equal(p.Hit) && !j.cursorBad && (p.Alive.IsZero() || !hit.Before(floor)):
		return "--after-cursor=" + p.Cursor
	case ok && hit.Equal(p.Hit) && hit.After(floor) && !hit.After(now):
		return since(hit)
	case p.Alive.IsZero():
		return since(now.Add(-firstLook))
	}
	return since(floor)
}

func since(t time.Time) string { return "--since=@" + strconv.FormatInt(t.Unix(), 10) }

// cursorTime returns the realtime that a cursor carries, and whether it looks like one of
// journald's:
//
//	s=SEQNUM-ID;i=SEQNUM;b=BOOT-ID;m=MONOTONIC;t=REALTIME;x=XOR-HASH (all hexadecimal)
//
// One of another machine or of a journal that is gone looks the same and may be accepted
// in silence (journalctl then seeks by its time), so the time must be the one noted
// with it.
func cursorTime(cursor string) (time.Time, bool) {
	var t time.Time
	if len(cursor) > 512 {
		return t, false
	}
	for part := range strings.SplitSeq(cursor, ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || len(key) != 1 || value == "" || strings.Trim(value, "0123456789abcdef") != "" {
			return time.Time{}, false
		}
		if key == "t" {
			us, err := strconv.ParseInt(value, 16, 64)
			if err != nil {
				return time.Time{}, false
			}
			t = time.UnixMicro(us)
		}
	}
	return t, !t.IsZero()
}

// arguments returns journalctl's arguments for the entries that the matches find, besides those for following.
// every asks for all entries of the units, and journald's own word that it has dropped some.
func (j *Journal) arguments(start string, every bool, matches []string) []string {
	args := j.options(outputFields, start)
	if !every && !j.noGrep {
		args = append(args, "--case-sensitive=yes", "--grep="+pattern)
	}
	args = append(args, matches...)
	if every {
		args = append(args, "+", "MESSAGE_ID="+dropped)
	}
	return args
}

// options returns what every journalctl is told. --all keeps a long MESSAGE from being null. A unit
// with LogNamespace= has a journal of its own, which only --namespace shows, since 245.
func (j *Journal) options(fields string, more ...string) []string {
	args := append([]string(nil), j.opts.Args...)
	args = append(args, "--no-pager", "--quiet", "--all", "--output=json", "--output-fields="+fields)
	args = append(args, more...)
	if !j.oneSpace {
		args = append(args, "--namespace=*")
	}
	return args
}

// present returns the matches that find an entry from the start on, and all of them where journalctl
// does not say. At each entry journalctl looks for every unit that it was told, so the 15 that a
// node does not have double its time for the one that it has. The same reading gives its first entry,
// then the first without that one's unit, until there is none: a few milliseconds each.
func (j *Journal) present(ctx context.Context, start string) []string {
	left := slices.Clone(j.matches)
	var found []string
	for len(left) > 0 {
		unit, err := j.firstUnit(ctx, start, left)
		at := slices.Index(left, "_SYSTEMD_UNIT="+unit)
		switch {
		case err == nil && len(found) > 0:
			return found
		case at < 0:
			return j.matches // Also where there is none at all: no match would find every unit's.
		}
		found = append(found, left[at])
		left = slices.Delete(left, at, at+1)
	}
	return found
}

// firstUnit returns the unit of the first entry, with errEnough. Neither comes where there is no entry.
func (j *Journal) firstUnit(ctx context.Context, start string, matches []string) (unit string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	err = j.run(ctx, append(j.options("_SYSTEMD_UNIT", start), matches...), func(_ context.Context, out io.Reader) error {
		line, err := newLineReader(out, maxEntry).next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		e, err := decodeEntry(line)
		if err != nil {
			return err
		}
		unit = e.fields.Unit
		return errEnough
	})
	return unit, err
}
