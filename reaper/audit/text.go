package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// maxText limits the text of a record: journalctl -o json shows no MESSAGE over 4,096 bytes without --all. The ledger has
// everything.
const maxText = 2000

// run returns the command of a record. A name in the pods directory that is no UID has none for itself.
func run(command string, e judge.Event) string {
	if e.UID == "" && strings.Contains(command, "UID") {
		return "orphan-reaper doctor"
	}
	return strings.ReplaceAll(command, "UID", string(e.UID))
}

// Text returns what happened, why, who ordered it and how to undo it, as one line of printable characters.
func Text(e judge.Event) string {
	end := ""
	if r, _ := RecordOf(e.Kind); r.Run != "" {
		end += ". Run: " + run(r.Run, e)
	}
	if undo := Undo(e); undo != "" {
		end += ". Undo: " + bounded.Text(undo)
	}
	return message(e, end)
}

// History is Text without commands, which may be refused by now.
func History(e judge.Event) string { return message(e, "") }

// message returns what happened, why and who ordered it, and then the end.
func message(e judge.Event, end string) string {
	r, ok := RecordOf(e.Kind)
	if !ok {
		return ""
	}
	if by := user(e.By); by != "" {
		end = ". Ordered by " + bounded.Cut(bounded.Text(by), maxName) + end
	}
	return bounded.Cut(bounded.Text(r.text(e)), maxText-len(end)) + end // a long error does not push the commands out
}

// Undo returns the command that undoes the event, "" if there is none.
func Undo(e judge.Event) string {
	switch {
	case e.Undo != "":
		return e.Undo
	case e.UID != "" && (e.Kind == judge.EventQuarantined || e.Kind == judge.EventCleaned):
		return "orphan-reaper quarantine restore " + string(e.UID)
	case e.Archive != "" && e.Kind == judge.EventCNIRemoved:
		return "tar -xf " + bounded.Shell(e.Archive) + " -C /"
	}
	return ""
}

// maxName is the most that is shown of one name that comes from outside: a pod's name has at most 253 bytes.
const maxName = 300

func quarantined(e judge.Event) string {
	return "Moved " + pod(e) + ", which the kubelet reported as an orphan, to quarantine" + because(e)
}

func cleaned(e judge.Event) string {
	return "Removed " + taken(e) + " of " + pod(e) + "; " + left(e) + because(e)
}

func removed(e judge.Event) string {
	if len(e.Taken) == 0 {
		return "Nothing is left of " + pod(e) + because(e)
	}
	return "Removed what was left of " + pod(e) + ": " + taken(e) + because(e)
}

func restored(e judge.Event) string {
	text := "Restored " + pod(e)
	if e.Other != "" {
		text += "; the directory that the kubelet had made again is in quarantine as " + e.Other
	}
	return text + because(e)
}

func kept(e judge.Event) string {
	return "An operator is needed for " + pod(e) + because(e)
}

func conflict(e judge.Event) string {
	return "Cannot restore " + pod(e) + ": it is alive and has another directory in use" + because(e)
}

func breaker(e judge.Event) string {
	return "The circuit breaker opened, and nothing is moved or removed any more: " + pod(e) + ", which was in quarantine, is alive" + because(e)
}

func resumed(judge.Event) string {
	return "The circuit breaker was closed: dead pods are moved and removed again"
}

func failed(e judge.Event) string {
	switch {
	case e.UID == "":
		return "A step failed" + because(e)
	case e.Lost:
		return "The quarantined directory of " + pod(e) + " is lost" + because(e)
	}
	return "A step with " + pod(e) + " failed" + because(e)
}

func notMoved(e judge.Event) string    { return "Did not move " + pod(e) + " to quarantine" + because(e) }
func notRestored(e judge.Event) string { return "Cannot restore " + pod(e) + because(e) }

func released(e judge.Event) string {
	return "Stopped keeping " + pod(e) + ", which was restored: it is judged like every other pod" + because(e)
}

func unmounted(e judge.Event) string {
	return "Unmounted what was mounted in " + pod(e) + because(e) + ": " + strings.Join(e.Mounts, ", ")
}

func cniRemoved(e judge.Event) string { return "Removed stale CNI files: " + taken(e) + because(e) }
func started(e judge.Event) string    { return "The daemon started" + because(e) }
func stopped(e judge.Event) string    { return "The daemon stopped" + because(e) }

// pod returns the name and UID of the pod, as far as they are known. The name is quoted if it has a space, so that it
// cannot pass for more than a name.
func pod(e judge.Event) string {
	if e.UID == "" {
		return "a pod"
	}
	name := bounded.Cut(e.PodName, maxName)
	if e.Namespace != "" {
		name = bounded.Cut(e.Namespace, maxName) + "/" + name
	}
	switch {
	case e.PodName == "":
		return "pod " + string(e.UID)
	case strings.ContainsAny(name, " \"'`"):
		name = strconv.Quote(name)
	}
	return "pod " + name + " (" + string(e.UID) + ")"
}

// because returns a colon with the reasons, their details and the error, or "".
func because(e judge.Event) string {
	parts := make([]string, 0, len(e.Reasons)+1)
	for _, r := range e.Reasons {
		part := string(r.Reason)
		if r.Detail != "" {
			part += " (" + r.Detail + ")"
		}
		parts = append(parts, part)
	}
	if e.Err != "" {
		parts = append(parts, e.Err)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// taken returns the sum of what was removed, and how much of each class.
func taken(e judge.Event) string {
	var sum judge.Tally
	var classes []string
	for _, class := range slices.Sorted(maps.Keys(e.Taken)) {
		t := e.Taken[class]
		sum.Entries, sum.Bytes = sum.Entries+t.Entries, sum.Bytes+t.Bytes
		classes = append(classes, fmt.Sprintf("%s %d", class, t.Entries))
	}
	if sum.Entries == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s, %s (%s)", files(sum.Entries), size(sum.Bytes), strings.Join(classes, ", "))
}

// left returns what is still in quarantine.
func left(e judge.Event) string {
	var sum judge.Tally
	classes, more := map[string]bool{}, ""
	for _, r := range e.Left {
		sum.Entries, sum.Bytes = sum.Entries+r.Entries, sum.Bytes+r.Bytes
		classes[r.Class.String()] = true
		if r.Partial {
			more = "at least "
		}
	}
	return fmt.Sprintf("left in quarantine as %s: %s%s, %s (%s)", e.Entry, more, files(sum.Entries), size(sum.Bytes),
		strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return strconv.FormatInt(n, 10) + " files"
}

// user returns who gave the command, as far as it is known.
func user(u *judge.User) string {
	if u == nil {
		return ""
	}
	name := u.Login
	if name == "" && u.UID != nil {
		name = "UID " + strconv.FormatUint(uint64(*u.UID), 10)
	}
	if u.SudoUser != "" && u.SudoUser != name {
		name = strings.TrimPrefix(name+", sudo by "+u.SudoUser, ", ")
	}
	return name
}

// size formats bytes in binary units, as du -h does.
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
