package probe

import "github.com/orphan-reaper/orphan-reaper/parsers"

// agent says which other pod's process keeps a mount that the namespace of PID 1 has not, "" where
// none does. The runtime or the log directory has that pod's name.
func (l *gathering) agent(uid parsers.PodUID) string {
	owner, ok := l.mounts.Agent(uid)
	if !ok {
		return ""
	}
	return "; the process is of " + l.podName(owner) + ": restart that pod to end the mount"
}

// podName is how people call a pod: by its name where the runtime or the log directory has it.
func (l *gathering) podName(owner parsers.PodUID) string {
	name := "pod " + string(owner)
	if n, ok := l.runtime.Names[owner]; ok {
		name = "pod " + n.Namespace + "/" + n.Name
	} else if n, ok := l.logs.Names[owner]; ok {
		name = "pod " + n.Namespace + "/" + n.Name
	}
	return name
}
