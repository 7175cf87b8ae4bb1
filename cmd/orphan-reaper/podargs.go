package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// This file knows how a person may name a pod: by its UID, by the beginning of one, by
// NAMESPACE/NAME, or by its directory. A whole UID is taken as it is and needs nothing to be
// known of it; anything else must mean exactly one pod.
//
// Where nobody else tells a pod's name it is read from its etc-hosts, which the pod's containers
// can write: any pod can be shown under the name of any other. So what changes something takes
// less. Restore and purge take no name, since the ledger does not say who told it, and a
// directory only as QUARANTINE/ENTRY, since what lies deeper is less than they would take. Sweep
// takes a name that the runtime or the kubelet's log directories tell.

// podArgHelp says so in the help of a command that only looks.
const podArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, NAMESPACE/NAME, the
pod's directory, or any path below it.`

// sweepArgHelp says so in the help of sweep.
const sweepArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, NAMESPACE/NAME, or
the pod's directory. A name counts only if it comes from the runtime
or the kubelet's log directories. Pods can forge names in other places.`

// entryArgHelp says so in the help of restore and purge.
const entryArgHelp = `POD is a pod's UID, the first 4 or more digits of the UID, or the directory of
its entry in quarantine. quarantine list shows them. You cannot use
NAMESPACE/NAME here: a pod can write the name under which it is shown, and so
use the name of another pod.`

// naming is what a command takes for a pod.
type naming int

const (
	anyName     naming = iota // by a name, whoever told it: it only looks
	certainName               // by a name that no pod can write
	noName                    // by no name
)

// hint says what to give instead of what names no pod.
func (n naming) hint() string {
	const uid = "give a pod's UID, its first 4 or more digits, "
	if n == noName {
		return uid + "or the directory of its entry: orphan-reaper quarantine list"
	}
	return uid + "NAMESPACE/NAME, or its directory: orphan-reaper scan"
}

// shortestPrefix is how much of a UID it takes at least.
const shortestPrefix = 4

// mostCandidates bounds the list of what an argument may mean.
const mostCandidates = 10

// podArg is one argument that names a pod.
type podArg struct {
	text   string
	how    naming
	uid    parsers.PodUID // where it is one
	prefix string
	name   string // NAMESPACE/NAME
	path   string
}

// readPodArgs reads arguments that name pods, as far as that takes no look at the node.
func readPodArgs(args []string, how naming) ([]podArg, error) {
	var read []podArg
	for _, text := range args {
		arg := podArg{text: text, how: how}
		namespace, name, two := strings.Cut(text, "/")
		uid, ok := parsers.ParsePodUID(text)
		if how == anyName && !ok {
			uid, ok = parsers.ParsePodUID(strings.TrimRight(text, "/"))
		}
		switch {
		case ok:
			arg.uid = uid
		case strings.HasPrefix(text, "/") || namespace == "." || namespace == "..":
			path, err := filepath.Abs(text)
			if err != nil {
				return nil, fmt.Errorf("cannot find the directory of %s: %w", strconv.Quote(text), err)
			}
			arg.path = path
		case two && consistsOf(namespace, lower+"-") && consistsOf(name, lower+"-."):
			arg.name = text
		case how == anyName && uidIn(text) != "":
			arg.uid = uidIn(text)
		case len(text) >= shortestPrefix && consistsOf(text, "0123456789abcdef-"):
			arg.prefix = text
		default:
			return nil, arg.noPodUID("")
		}
		read = append(read, arg)
	}
	return read, nil
}

const lower = "0123456789abcdefghijklmnopqrstuvwxyz"

func consistsOf(s, letters string) bool { return s != "" && strings.Trim(s, letters) == "" }

// noPodUID is the error on an argument that names no pod; more is what else was tried.
func (arg podArg) noPodUID(more string) error {
	hint := arg.how.hint()
	if uid, ok := parsers.ParsePodUID(strings.ToLower(arg.text)); ok {
		hint = "did you mean " + string(uid) + "?"
	}
	return exit.Usagef(hint, "%s is not a pod UID%s", strconv.Quote(arg.text), more)
}

// namesEntry is an error where the argument is a name, or another directory than that of an entry
// of the quarantine.
func (arg podArg) namesEntry(cfg config.Config) error {
	switch {
	case arg.name != "":
		return exit.Usagef(arg.how.hint(), "%s may be a pod's name, and a pod can write any name for itself: give the UID", strconv.Quote(arg.text))
	case arg.path != "" && filepath.Dir(arg.path) != filepath.Clean(cfg.QuarantineDir):
		return exit.Usagef(arg.how.hint(), "%s is not an entry of the quarantine: that is %s/ENTRY, nothing deeper and nothing elsewhere",
			strconv.Quote(arg.text), cfg.QuarantineDir)
	}
	return nil
}

// podUIDs turns arguments into UIDs. known lists what those may mean that are no whole UID; it is
// asked once, and only where there is one.
func podUIDs(cfg config.Config, args []podArg, known func() ([]app.Pod, error)) ([]parsers.PodUID, error) {
	var uids []parsers.PodUID
	var pods []app.Pod
	asked := false
	for _, arg := range args {
		if arg.path != "" {
			arg = byDirectory(cfg, arg)
		}
		if arg.uid == "" && !asked {
			var err error
			if pods, err = known(); err != nil {
				return nil, err
			}
			asked = true
		}
		uid, err := arg.resolve(cfg, pods)
		if err != nil {
			return nil, err
		}
		uids = append(uids, uid)
	}
	return uids, nil
}

// byDirectory takes the UID from a path in the pods directory, however far below.
func byDirectory(cfg config.Config, arg podArg) podArg {
	if name, ok := firstBelow(cfg.PodsDir(), arg.path); ok {
		arg.uid, _ = parsers.ParsePodUID(name)
	}
	return arg
}

// uidIn returns the pod of a path as the kubelet's lines have it, below UID or below any directory pods, "" where there is
// none: the kubelet may know its directory by another name. A path is the pod's, whatever lies at it, where nothing is changed.
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

// firstBelow returns the first name of path below dir.
func firstBelow(dir, path string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, filepath.Clean(dir)+"/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}

// resolve finds the one pod that the argument means.
func (arg podArg) resolve(cfg config.Config, pods []app.Pod) (parsers.PodUID, error) {
	if arg.uid != "" {
		return arg.uid, nil
	}
	entry, _ := firstBelow(cfg.QuarantineDir, arg.path)
	var means []app.Pod
	for _, pod := range pods {
		switch {
		case arg.prefix != "" && strings.HasPrefix(string(pod.UID), arg.prefix),
			arg.name != "" && pod.Name == arg.name && (pod.Certain || arg.how == anyName),
			entry != "" && pod.Entry == entry:
			means = append(means, pod)
		}
	}
	if slices.ContainsFunc(means, func(p app.Pod) bool { return !p.Past }) {
		means = slices.DeleteFunc(means, func(p app.Pod) bool { return p.Past }) // a name is used again and again
	}
	if uid := uidIn(arg.text); len(means) == 0 && arg.how == anyName && uid != "" {
		return uid, nil
	}
	if len(means) == 0 {
		return "", arg.noPodUID(arg.nothing(cfg))
	}
	uid := means[0].UID
	several := slices.ContainsFunc(means, func(p app.Pod) bool { return p.UID != uid })
	if entry != "" {
		// What is done with a UID is done with each of its entries, and this names one of them.
		means = slices.DeleteFunc(slices.Clone(pods), func(p app.Pod) bool { return p.UID != uid || p.Entry == "" })
		several = len(means) > 1
	}
	if several {
		return "", ambiguous(arg.text, means)
	}
	return uid, nil
}

// nothing says what was looked for and is not there.
func (arg podArg) nothing(cfg config.Config) string {
	switch {
	case arg.prefix != "" && arg.how == noName:
		return ", and there is no pod in quarantine whose UID begins so"
	case arg.prefix != "":
		return ", and the UID of no pod that is known here begins so"
	case arg.name != "" && arg.how == certainName:
		return ", and neither the runtime nor the kubelet's log directories have a pod of this name; what a pod may have written does not count"
	case arg.name != "":
		return ", and no pod that is known here has this name"
	case arg.how == noName:
		return ", nor a pod's entry in " + cfg.QuarantineDir
	}
	return fmt.Sprintf(", nor the directory of one in %s or %s", cfg.PodsDir(), cfg.QuarantineDir)
}

// ambiguous lists what an argument may mean.
func ambiguous(text string, means []app.Pod) error {
	var lines []string
	for _, pod := range means {
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

// surveyed reads the arguments of a command that looks at some pods, and its configuration.
func (a *cli) surveyed(ctx context.Context, args []string, how naming, past bool) (config.Config, []parsers.PodUID, error) {
	named, err := readPodArgs(args, how)
	if err != nil {
		return config.Config{}, nil, err
	}
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return config.Config{}, nil, err
	}
	uids, err := podUIDs(cfg, named, func() ([]app.Pod, error) { return app.PodsHere(ctx, cfg, past) })
	return cfg, uids, err
}

// meant is what the argument of restore or purge means.
type meant struct {
	uid     parsers.PodUID      // "" without an argument
	entries []policy.EntryState // all that lie in quarantine of the pod, or without an argument of all
}

// quarantined reads the argument of restore and purge, and their configuration. The quarantine is
// listed once: what the argument means, what the person is shown and what is done are one list.
func (a *cli) quarantined(ctx context.Context, args []string) (cfg config.Config, means meant, err error) {
	named, err := readPodArgs(args, noName)
	if err != nil {
		return cfg, means, err
	}
	if cfg, err = a.nodeConfig(ctx); err != nil {
		return cfg, means, err
	}
	for _, arg := range named {
		if err := arg.namesEntry(cfg); err != nil {
			return cfg, means, err
		}
	}
	all, err := app.ListQuarantine(ctx, cfg)
	if err != nil {
		return cfg, means, fmt.Errorf("cannot list the quarantine: %w", err)
	}
	if means.entries = lying(all); len(named) == 0 {
		return cfg, means, nil
	}
	uids, err := podUIDs(cfg, named, func() ([]app.Pod, error) { return podsOf(all), nil })
	if err != nil {
		return cfg, means, err
	}
	a.tellPods(args, uids)
	means.uid = uids[0]
	means.entries = slices.DeleteFunc(means.entries, func(e policy.EntryState) bool { return e.UID != means.uid })
	return cfg, means, nil
}

// podsOf are the pods of entries that lie in quarantine, and those that a person put back: these count only where
// no other is meant, and the same command again then says that it is done.
func podsOf(entries []policy.EntryState) (pods []app.Pod) {
	for _, e := range entries {
		if !e.Phase.InQuarantine() && !e.Restored {
			continue
		}
		if !e.Phase.InQuarantine() {
			pods = append(pods, app.Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName), Where: "put back", Past: true})
			continue
		}
		pods = append(pods, app.Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName), Where: "in quarantine", Entry: e.Entry})
	}
	return pods
}

// tellPods says which pods were meant, before anything is done with them.
func (a *cli) tellPods(args []string, uids []parsers.PodUID) {
	for i, uid := range uids {
		if args[i] != string(uid) && !a.quiet {
			_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: %s is pod %s\n", clean.Text(args[i]), uid) // who cannot read it reads what was done
		}
	}
}
