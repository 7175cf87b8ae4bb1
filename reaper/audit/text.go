package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxText bounds the line for people. journalctl -o json shows no MESSAGE over 4,096
// bytes without --all; the whole stands in the fields and in the ledger.
const maxText = 2000

// Text returns the one line that tells people of r: who, what, why, and how to undo it.
// It is r.Text where that is set.
func Text(r policy.Record) string {
	s := r.Text
	if s == "" {
		s = compose(r)
	}
	return cut(clean(s), maxText)
}

func compose(r policy.Record) string {
	var b strings.Builder
	who := pod(r)
	switch r.Kind {
	case policy.KindSeen:
		fmt.Fprintf(&b, "The kubelet cannot remove the directory of orphaned %s%s", who, because(r))
	case policy.KindKept:
		word := "Keeping"
		if r.Decision == policy.Wait {
			word = "Waiting with"
		}
		fmt.Fprintf(&b, "%s %s%s", word, who, because(r))
	case policy.KindParking, policy.KindPutting, policy.KindStripping, policy.KindPurging, policy.KindRestoring:
		fmt.Fprintf(&b, "About to act (%s) on %s", r.Kind, who)
	case policy.KindParked:
		fmt.Fprintf(&b, "Moved the directory of %s to quarantine, to see whether anything misses it", who)
	case policy.KindNotParked:
		fmt.Fprintf(&b, "Left the directory of %s where it was%s", who, because(r))
	case policy.KindPutBack:
		fmt.Fprintf(&b, "Put the directory of %s back where it was%s", who, because(r))
	case policy.KindStripped:
		fmt.Fprintf(&b, "Removed %s of %s; %s stays in quarantine", taken(r.Taken), who, left(r.Left))
	case policy.KindRemoved:
		fmt.Fprintf(&b, "Removed %s of %s; nothing of its directory is left", taken(r.Taken), who)
	case policy.KindRestored:
		fmt.Fprintf(&b, "A person put the directory of %s back; it is kept from now on", who)
	case policy.KindConflict:
		fmt.Fprintf(&b, "The directory of %s had been made again; that one is in quarantine%s and only a person removes it", who, entry(r))
	case policy.KindFailed:
		fmt.Fprintf(&b, "Something failed for %s and needs a person's eye%s", who, because(r))
	case policy.KindBreaker:
		fmt.Fprintf(&b, "Stopped removing anything, since %s turned out to live%s; find out why, then let it go on: orphan-reaper quarantine resume", who, because(r))
	case policy.KindResumed:
		b.WriteString("A person let orphan-reaper go on removing")
	case policy.KindStarted:
		b.WriteString("orphan-reaper has started")
	case policy.KindStopped:
		b.WriteString("orphan-reaper has stopped")
	case policy.KindBadRuntime:
		fmt.Fprintf(&b, "The container runtime cannot be asked, so every pod is kept%s", because(r))
	default:
		fmt.Fprintf(&b, "%s: %s%s", r.Kind, who, because(r))
	}
	if r.Err != "" {
		fmt.Fprintf(&b, ": %s", r.Err)
	}
	if undo := Undo(r); undo != "" {
		fmt.Fprintf(&b, ". Undo: %s", undo)
	}
	return b.String()
}

// Undo returns the command that takes back what r tells, "" where nothing needs to or can.
func Undo(r policy.Record) string {
	if r.Undo != "" {
		return r.Undo
	}
	switch r.Kind {
	case policy.KindParked, policy.KindStripped:
		if r.UID != "" {
			return "orphan-reaper quarantine restore " + string(r.UID)
		}
	case policy.KindSeen, policy.KindKept, policy.KindParking, policy.KindPutting, policy.KindPutBack, policy.KindNotParked,
		policy.KindStripping, policy.KindRemoved, policy.KindPurging, policy.KindRestoring, policy.KindRestored,
		policy.KindConflict, policy.KindFailed, policy.KindBreaker, policy.KindResumed, policy.KindStarted,
		policy.KindStopped, policy.KindBadRuntime:
	}
	return ""
}

// pod names the pod as far as it is known.
func pod(r policy.Record) string {
	switch {
	case r.UID == "" && r.PodName == "":
		return "a pod"
	case r.PodName == "":
		return fmt.Sprintf("pod %s", r.UID)
	case r.UID == "":
		return fmt.Sprintf("pod %s/%s", r.Namespace, r.PodName)
	}
	return fmt.Sprintf("pod %s/%s (%s)", r.Namespace, r.PodName, r.UID)
}

func entry(r policy.Record) string {
	if r.Entry == "" {
		return ""
	}
	return " as " + r.Entry
}

// because gives the reasons with their words behind a colon, "" where there are none.
func because(r policy.Record) string {
	if len(r.Why) == 0 {
		return ""
	}
	parts := make([]string, len(r.Why))
	for i, w := range r.Why {
		parts[i] = string(w.Reason)
		if w.Detail != "" {
			parts[i] += " (" + w.Detail + ")"
		}
	}
	return ": " + strings.Join(parts, ", ")
}

func taken(t map[string]policy.Tally) string {
	var sum policy.Tally
	for _, tally := range t {
		sum.Add(tally)
	}
	if sum.Entries == 0 {
		return "nothing"
	}
	classes := slices.Sorted(maps.Keys(t))
	return fmt.Sprintf("%s, %s (%s)", count(sum.Entries, "entry", "entries"), size(sum.Bytes), strings.Join(classes, ", "))
}

func left(rs []policy.Residue) string {
	var sum policy.Tally
	var more bool
	for _, r := range rs {
		sum.Add(policy.Tally{Entries: r.Entries, Bytes: r.Bytes})
		more = more || r.Partial
	}
	if sum.Entries == 0 {
		return "the rest"
	}
	at := ""
	if more {
		at = "at least "
	}
	return fmt.Sprintf("%s%s, %s,", at, count(sum.Entries, "entry", "entries"), size(sum.Bytes))
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size writes bytes as a person reads them, in binary units as du does.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), -1
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
}

// clean makes s one line that a terminal shows as it is: what is not printable is quoted
// as in Go, and bytes that are no UTF-8 are replaced. It also quotes the marks that turn
// the direction of writing, which are not printable either.
func clean(s string) string {
	ok := true
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		b.WriteString(strings.Trim(fmt.Sprintf("%+q", c), "'"))
	}
	return b.String()
}

// cut shortens s to at most n bytes, at a rune's end, with an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
