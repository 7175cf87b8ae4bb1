package source

import (
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

// arguments returns journalctl's arguments besides those for following. --all keeps a
// long MESSAGE from being null. A unit with LogNamespace= has a journal of its own, which
// only --namespace shows, since 245.
// every asks for all entries of the units, and journald's own word that it has dropped some.
func (j *Journal) arguments(start string, every bool) []string {
	args := append([]string(nil), j.opts.Args...)
	args = append(args, "--no-pager", "--quiet", "--all", "--output=json", "--output-fields="+outputFields, start)
	if !j.oneSpace {
		args = append(args, "--namespace=*")
	}
	if !every && !j.noGrep {
		args = append(args, "--case-sensitive=yes", "--grep="+pattern)
	}
	args = append(args, j.matches...)
	if every {
		args = append(args, "+", "MESSAGE_ID="+dropped)
	}
	return args
}
