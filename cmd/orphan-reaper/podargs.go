package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// A pod can be named by its UID, the first digits of the UID, NAMESPACE/NAME, or its directory. A whole UID is used as it
// is. Anything else must match exactly one pod.
//
// The name of a pod may come from its etc-hosts, which its containers can write: a pod can show the name of another one. So
// commands that change something accept less. Sweep and forget accept a name from the runtime or the kubelet's log
// directories. Restore and purge accept no name, because the ledger does not have its source, and no directory except
// QUARANTINE/ENTRY.

// podArgHelp is for commands that change nothing.
const podArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, NAMESPACE/NAME, the
pod's directory, or any path below it.`

// sweepArgHelp is for commands that change pods on disk.
const sweepArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, NAMESPACE/NAME, or
the pod's directory. A name counts only if it comes from the runtime
or the kubelet's log directories. Pods can forge names in other places.`

// entryArgHelp is for restore and purge.
const entryArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, or the directory of
its entry in quarantine. quarantine list shows them. You cannot use
NAMESPACE/NAME here: a pod can write the name under which it is shown, and so
use the name of another pod.`

func onePod(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef("orphan-reaper scan lists all pods", "name one pod")
	}
	return nil
}

type naming int

const (
	anyName     naming = iota // a name from any source, for commands that change nothing
	certainName               // a name that no pod can write
	noName                    // no name
)

func (n naming) hint() string {
	const uid = "give a pod's UID, its first 4 or more digits, "
	switch n {
	case noName:
		return uid + "or the directory of its entry: orphan-reaper quarantine list"
	case certainName:
		return uid + "its directory, or a NAMESPACE/NAME that the runtime or the kubelet's log directories have: orphan-reaper scan"
	case anyName:
	}
	return uid + "NAMESPACE/NAME, or its directory: orphan-reaper scan"
}

const mostCandidates = 10

var (
	podName   = regexp.MustCompile(`^[a-z0-9-]+/[a-z0-9.-]+$`)
	uidPrefix = regexp.MustCompile(`^[0-9a-f-]{4,}$`)
)

// podUIDs returns the pods that args name. It calls known at most once, and only for an argument that is no whole UID.
func podUIDs(cfg config.Config, args []string, how naming, known func() ([]app.Pod, error)) (uids []parsers.PodUID, err error) {
	known = sync.OnceValues(known)
	for _, text := range args {
		uid, err := podUID(cfg, text, how, known)
		if err != nil {
			return nil, err
		}
		uids = append(uids, uid)
	}
	return uids, nil
}

func podUID(cfg config.Config, text string, how naming, known func() ([]app.Pod, error)) (parsers.PodUID, error) {
	if uid, ok := parsers.ParsePodUID(text); ok {
		return uid, nil
	}
	var entry string
	var matches func(app.Pod) bool
	switch isPath := strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../"); {
	case isPath:
		path, err := filepath.Abs(text)
		if err != nil {
			return "", fmt.Errorf("cannot find the directory of %s: %w", strconv.Quote(text), err)
		}
		if how == noName && filepath.Dir(path) != filepath.Clean(cfg.QuarantineDir) {
			return "", exit.Usagef(how.hint(), "%s is not an entry of the quarantine: that is %s/ENTRY, nothing deeper and nothing elsewhere",
				strconv.Quote(text), cfg.QuarantineDir)
		}
		if uid, ok := parsers.ParsePodUID(firstBelow(cfg.PodsDir(), path)); ok {
			return uid, nil
		}
		entry = firstBelow(cfg.QuarantineDir, path)
		matches = func(p app.Pod) bool { return entry != "" && p.Entry == entry }
	case podName.MatchString(text) && how == noName:
		return "", exit.Usagef(how.hint(), "%s may be a pod's name, and a pod can write any name for itself: give the UID", strconv.Quote(text))
	case podName.MatchString(text):
		matches = func(p app.Pod) bool { return p.Name == text && (p.Certain || how == anyName) }
	case uidPrefix.MatchString(text):
		matches = func(p app.Pod) bool { return strings.HasPrefix(string(p.UID), text) }
	case how == anyName && uidIn(text) != "":
		return uidIn(text), nil
	default:
		return "", notAPod(text, how, "is not a pod UID")
	}
	pods, err := known()
	if err != nil {
		return "", err
	}
	found := matching(pods, matches)
	if len(found) == 0 {
		if uid := uidIn(text); how == anyName && uid != "" {
			return uid, nil
		}
		return "", notAPod(text, how, "matches no pod that is known here")
	}
	uid := found[0].UID
	if entry != "" { // a command acts on all entries of a UID, and this argument names one
		found = matching(pods, func(p app.Pod) bool { return p.UID == uid && p.Entry != "" })
		if len(found) > 1 {
			return "", ambiguous(text, found)
		}
	}
	if slices.ContainsFunc(found, func(p app.Pod) bool { return p.UID != uid }) {
		return "", ambiguous(text, found)
	}
	return uid, nil
}

// matching returns the pods that match. It returns pods of the past only if no other matches: names are used again.
func matching(pods []app.Pod, matches func(app.Pod) bool) (found []app.Pod) {
	for _, p := range pods {
		if matches(p) {
			found = append(found, p)
		}
	}
	if slices.ContainsFunc(found, func(p app.Pod) bool { return !p.Past }) {
		found = slices.DeleteFunc(found, func(p app.Pod) bool { return p.Past })
	}
	return found
}

func notAPod(text string, how naming, why string) error {
	hint := how.hint()
	if uid, ok := parsers.ParsePodUID(strings.ToLower(text)); ok {
		hint = "did you mean " + string(uid) + "?"
	}
	return exit.Usagef(hint, "%s %s", strconv.Quote(text), why)
}

func ambiguous(text string, found []app.Pod) error {
	var lines []string
	for _, pod := range found {
		where := pod.Where
		if pod.Entry != "" && pod.Entry != string(pod.UID) {
			where += " as " + pod.Entry
		}
		line := strings.Join(strings.Fields(string(pod.UID)+" "+clean.Text(pod.Name)), "  ") + " (" + where + ")"
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if more := len(lines) - mostCandidates; more > 0 {
		lines = append(lines[:mostCandidates], fmt.Sprintf("and %d more", more))
	}
	return exit.Usagef("name one of them by its whole UID", "%s may mean several:\n  %s", strconv.Quote(text), strings.Join(lines, "\n  "))
}

// uidIn returns the pod of a path in a line of the kubelet: below UID, or below any directory named pods, since the kubelet
// may use another path of its root directory. Only commands that change nothing use it.
func uidIn(path string) parsers.PodUID {
	before := ""
	for i, name := range strings.Split(path, "/") {
		if uid, ok := parsers.ParsePodUID(name); ok && (i == 0 || before == "pods") {
			return uid
		}
		before = name
	}
	return ""
}

// firstBelow returns the first name of path below dir, "" for a path elsewhere.
func firstBelow(dir, path string) string {
	rest, ok := strings.CutPrefix(path, filepath.Clean(dir)+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// surveyed returns the configuration, and the pods that the arguments name. With past it also finds pods of the ledger.
func (a *cli) surveyed(ctx context.Context, args []string, how naming, past bool) (config.Config, []parsers.PodUID, error) {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return config.Config{}, nil, err
	}
	uids, err := podUIDs(cfg, args, how, func() ([]app.Pod, error) { return app.PodsHere(ctx, cfg, past) })
	return cfg, uids, err
}

// quarantined returns the configuration, the pod that the argument of restore or purge names, and its entries in quarantine;
// without an argument all entries. It lists the quarantine once, so that the argument, the screen and the action refer to the
// same entries.
func (a *cli) quarantined(ctx context.Context, args []string) (cfg config.Config, uid parsers.PodUID, entries []policy.EntryState, err error) {
	if cfg, err = a.nodeConfig(ctx); err != nil {
		return cfg, "", nil, err
	}
	q, err := app.ReadQuarantine(cfg)
	if err != nil {
		return cfg, "", nil, fmt.Errorf("cannot list the quarantine: %w", err)
	}
	if entries = inQuarantine(q.Entries); len(args) == 0 {
		return cfg, "", entries, nil
	}
	uids, err := podUIDs(cfg, args, noName, func() ([]app.Pod, error) { return podsOf(q.Entries), nil })
	if err != nil {
		return cfg, "", nil, err
	}
	a.printPods(args, uids)
	return cfg, uids[0], slices.DeleteFunc(entries, func(e policy.EntryState) bool { return e.UID != uids[0] }), nil
}

// podsOf returns the pods of entries in quarantine, and as pods of the past those that an operator put back: a repeated
// restore then reports that it is done.
func podsOf(entries []policy.EntryState) (pods []app.Pod) {
	for _, e := range entries {
		pod := app.Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName)}
		switch {
		case e.Phase.InQuarantine():
			pod.Where, pod.Entry = "in quarantine", e.Entry
		case e.Restored:
			pod.Where, pod.Past = "put back", true
		default:
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}

// printPods prints which pods the arguments name, before anything is done.
func (a *cli) printPods(args []string, uids []parsers.PodUID) {
	for i, uid := range uids {
		if args[i] != string(uid) && !a.quiet {
			_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: %s is pod %s\n", clean.Text(args[i]), uid)
		}
	}
}
