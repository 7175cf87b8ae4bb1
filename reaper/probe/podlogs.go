package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// mostLogDirs bounds one listing of the log directory.
const mostLogDirs = 100_000

// podLogs are the directories of the pods' logs, NAMESPACE_NAME_UID since 1.14. The kubelet makes
// one before the pod's first sandbox. Every minute, once its sources are ready, it removes those
// of the pods whose content should go: that it does not know, or has finished with
// (kuberuntime_gc.go, evictPodLogsDirectories). A reboot, a lost sandbox, the end of all
// containers leave it.
type podLogs struct {
	dir   string
	pods  map[parsers.PodUID]bool
	names map[parsers.PodUID]policy.PodName
	err   error // why not all of them are known
}

// podLogs reads the directory as the kubelet that runs sees it, or the usual one.
func (p *Probe) podLogs(ctx context.Context, running *kubelet) *podLogs {
	logs, err := bounded.Do(ctx, p.guard, "pod logs", func() *podLogs { return p.readPodLogs(running) })
	if err != nil {
		return &podLogs{dir: p.cfg.LogPodsDir, err: fmt.Errorf("cannot read the pods' log directories: %w", err)}
	}
	return logs
}

func (p *Probe) readPodLogs(running *kubelet) *podLogs {
	l := &podLogs{dir: p.cfg.LogPodsDir, pods: map[parsers.PodUID]bool{}, names: map[parsers.PodUID]policy.PodName{}}
	var files kubeletFiles
	if running != nil {
		files = running.files
		c, err := running.configured()
		if err != nil { // the usual place is good enough for names
			l.err = fmt.Errorf("cannot tell where the kubelet keeps the pods' logs: %w", err)
		} else if c.PodLogsDir != "" {
			l.dir = c.PodLogsDir
		}
	}
	f, err := files.open(l.dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return l // a kubelet makes it at its start
	}
	if err != nil {
		l.err = errors.Join(l.err, fmt.Errorf("cannot read the pods' log directories: %w", err))
		return l
	}
	defer func() { _ = f.Close() }() // nothing was written
	entries, err := beneath.List(int(f.Fd()), mostLogDirs)
	if err == nil && len(entries) == mostLogDirs {
		err = fmt.Errorf("there are more than %d", mostLogDirs)
	}
	if err != nil {
		l.err = errors.Join(l.err, fmt.Errorf("cannot read the pods' log directories: %w", beneath.PathError("list", l.dir, err)))
	}
	for _, d := range entries {
		uid, ok := parsers.ParsePodUID(d.Name[strings.LastIndexByte(d.Name, '_')+1:])
		if !ok || d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
			continue
		}
		l.pods[uid] = true
		if name, ok := logName(d.Name); ok {
			l.names[uid] = name
		}
	}
	return l
}

// logName reads a pod's namespace and name from the name of its log directory.
func logName(dir string) (policy.PodName, bool) {
	namespace, rest, ok := strings.Cut(dir, "_")
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 0 {
		return policy.PodName{}, false
	}
	name := policy.PodName{Namespace: namespace, Name: rest[:i]}
	return name, policy.IsDNSName(name.Namespace) && policy.IsDNSName(name.Name)
}

// fact says whether the kubelet keeps the pod's log directory. That it is not there counts where
// the directories are all there: a person or a program that cleans /var/log may have removed it.
// So it does not where a pod of the kubelet's runs and has none.
func (l *looking) podLogsFact(e *policy.Evidence) policy.Fact {
	f := policy.Fact{Origin: l.logs.dir}
	switch {
	case l.logs.pods[e.UID]:
		f.Truth, f.Detail = policy.Yes, "the kubelet keeps the pod's log directory"
	case l.logs.err != nil:
		f.Detail = clean.Name(l.logs.err.Error())
	case neverRan(e):
		f.Truth = policy.No // such a pod has none, whoever cleans
	case l.logless() != "":
		f.Detail = "the pod " + string(l.logless()) + " runs and has no log directory there: somebody removes them, or they lie elsewhere"
	default:
		f.Truth = policy.No
	}
	return f
}

// logless is a pod that runs and has a directory here, and no log directory; "" where there is none.
func (l *looking) logless() parsers.PodUID {
	var found []parsers.PodUID
	for uid := range l.runtime.Ready {
		if _, ok := l.lists(string(uid)); ok && !l.logs.pods[uid] {
			found = append(found, uid)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// neverRan reports whether the pod's directory shows that it had no container: the kubelet makes
// containers/NAME and etc-hosts for the first one, after sandbox and log directory.
func neverRan(e *policy.Evidence) bool {
	if e.Facts[policy.FactContent].Truth != policy.Yes {
		return false
	}
	return !slices.ContainsFunc(e.Residue, func(r policy.Residue) bool {
		first, _, _ := strings.Cut(r.Path, "/")
		return first == "containers" || first == "etc-hosts"
	})
}

// uids are the pods of each name, as runtime and log directories tell them.
func (l *looking) uids() map[policy.PodName][]parsers.PodUID {
	uids := map[policy.PodName][]parsers.PodUID{}
	add := func(uid parsers.PodUID, name policy.PodName) {
		if !slices.Contains(uids[name], uid) {
			uids[name] = append(uids[name], uid)
		}
	}
	for uid, name := range l.runtime.Names {
		add(uid, name)
	}
	for uid, name := range l.logs.names {
		add(uid, name)
	}
	return uids
}
