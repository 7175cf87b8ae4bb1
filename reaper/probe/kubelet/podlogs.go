package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

const mostLogDirs = 100_000

// PodLogs lists the pods' log directory of the running kubelet, or the usual one if none is known.
func (r *Reader) PodLogs(ctx context.Context, running *Kubelet) *reading.PodLogs {
	logs, err := bounded.Do(ctx, r.Guard, "pod logs", func() *reading.PodLogs { return r.readPodLogs(running) })
	if err != nil {
		return &reading.PodLogs{Dir: r.LogPodsDir, Err: fmt.Errorf("cannot read the pods' log directories: %w", err)}
	}
	return logs
}

func (r *Reader) readPodLogs(running *Kubelet) *reading.PodLogs {
	l := &reading.PodLogs{Dir: r.LogPodsDir, Pods: map[parsers.PodUID]bool{}, Names: map[parsers.PodUID]policy.PodName{}}
	defer func() {
		if l.Err != nil { // tables show it
			l.Err = errors.New(clean.Name(l.Err.Error()))
		}
	}()
	var files kubeletFiles
	if running != nil {
		files = running.files
		if running.configErr != nil { // the usual directory is enough for names
			l.Err = fmt.Errorf("cannot find out where the kubelet keeps the pods' logs: %w", running.configErr)
		}
		l.Dir = cmp.Or(running.config.PodLogsDir, l.Dir)
	}
	entries, err := files.list(l.Dir, mostLogDirs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kubelet makes it when it starts
		l.Err = errors.Join(l.Err, fmt.Errorf("cannot read the pods' log directories: %w", err))
	}
	for _, d := range entries {
		uid, ok := parsers.ParsePodUID(d.Name[strings.LastIndexByte(d.Name, '_')+1:])
		if !ok || d.Kind != unix.DT_DIR && d.Kind != unix.DT_UNKNOWN {
			continue
		}
		l.Pods[uid] = true
		if name, ok := logName(d.Name); ok {
			l.Names[uid] = name
		}
	}
	return l
}

// logName parses a pod's namespace and name from the name of its log directory.
func logName(dir string) (policy.PodName, bool) {
	namespace, rest, ok := strings.Cut(dir, "_")
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 0 {
		return policy.PodName{}, false
	}
	name := policy.PodName{Namespace: namespace, Name: rest[:i]}
	return name, policy.IsDNSName(name.Namespace) && policy.IsDNSName(name.Name)
}
