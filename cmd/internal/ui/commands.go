package ui

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Place is where a pod's things are: its node, "" where nobody told, and the directories.
type Place struct{ PodsDir, QuarantineDir, Node string }

// Commands are what a person pastes: to look at what a reason tells of, which changes nothing, and
// then to end it, if the pod is gone.
type Commands struct{ Look, Then []string }

// Commands fills in the commands of a reason for one pod: its UID, paths, sandboxes, the drivers of
// its volumes, the node. There are none where a reason needs none, or where a name is none that a person
// should paste.
func (x Place) Commands(e *policy.Evidence, r policy.Reason) (c Commands) {
	uid, dir := string(e.UID), x.PodsDir+"/"+string(e.UID)
	if uid == "" {
		if name := paste(x.PodsDir + "/" + e.Name); r == policy.ReasonInvalidUID && name != "" {
			c.Look = []string{"ls -ld " + name}
		}
		return c
	}
	switch r { //nolint:exhaustive // the other reasons have no command
	case policy.ReasonMounted, policy.ReasonNotRunning:
		c.Look = append(c.Look, "grep "+uid+" /proc/[0-9]*/mountinfo")
		if e.Umount != "" {
			c.Then = append(c.Then, e.Umount)
		}
	case policy.ReasonOwnMount:
		c.Look = append(c.Look, "findmnt "+paste(dir))
	case policy.ReasonSandbox:
		c.Look = append(c.Look, crictl(e)+"pods --label io.kubernetes.pod.uid="+uid)
	case policy.ReasonContainer:
		c.Look = append(c.Look, crictl(e)+"ps --all --label io.kubernetes.pod.uid="+uid)
	case policy.ReasonSandboxOrphaned:
		for _, s := range e.Sandboxes {
			if id := paste(s.ID); id != "" && !s.Ready {
				c.Then = append(c.Then, crictl(e)+"stopp "+id+" && "+crictl(e)+"rmp "+id)
			}
		}
	case policy.ReasonCgroup:
		c.Look = append(c.Look, "find /sys/fs/cgroup -name cgroup.procs '(' -path '*"+uid+"*' -o -path '*"+strings.ReplaceAll(uid, "-", "_")+
			"*' ')' -exec grep . {} +")
	case policy.ReasonInUse:
		c.Look = append(c.Look, "find /proc/[0-9]*/fd /proc/[0-9]*/cwd -lname '*"+uid+"*' 2>/dev/null")
	case policy.ReasonStaged:
		for _, driver := range Drivers(e.VolData) {
			if paste(x.Node) != "" {
				c.Look = append(c.Look, "kubectl get csinode "+paste(x.Node)+" -o jsonpath='{.spec.drivers[*].name}' | grep -F "+driver)
			}
		}
	case policy.ReasonKubeletHolds, policy.ReasonTerminating, policy.ReasonKubeletUnknown, policy.ReasonPodLogs:
		c.Look = append(c.Look, "journalctl _COMM=kubelet --since=-1h --grep "+uid)
	case policy.ReasonAPILists, policy.ReasonKubeletLists, policy.ReasonPodResources:
		if name, space := paste(e.PodName), paste(e.Namespace); name != "" && space != "" {
			c.Look = append(c.Look, "kubectl --namespace "+space+" get pod "+name+" -o wide")
		}
	case policy.ReasonKubeletFile:
		for _, f := range e.StateFiles {
			c.Look = append(c.Look, "grep -c "+uid+" "+paste(under(strings.TrimSuffix(x.PodsDir, "/pods"), f.Name)))
		}
	case policy.ReasonCannotMove:
		c.Look = append(c.Look, "findmnt -T "+paste(x.PodsDir), "findmnt -T "+paste(x.QuarantineDir))
	case policy.ReasonRemoval:
		c.Look = append(c.Look, "lsattr -R "+paste(dir)+" | grep -e '-[ia]-'")
	case policy.ReasonRuntimeUnknown:
		c.Look = append(c.Look, crictl(e)+"info")
	case policy.ReasonRestored:
		c.Then = append(c.Then, "orphan-reaper quarantine forget "+uid)
	case policy.ReasonBreaker, policy.ReasonRemade:
		c.Look = append(c.Look, "orphan-reaper quarantine list")
	}
	whole := func(command string) bool { return command == "" || clean.Text(command) != command }
	c.Look, c.Then = slices.DeleteFunc(c.Look, whole), slices.DeleteFunc(c.Then, whole)
	return c
}

// under is a path below dir, or one that is absolute.
func under(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

// crictl begins a command that asks the pod's runtime.
func crictl(e *policy.Evidence) string {
	if len(e.Sandboxes) > 0 && strings.HasPrefix(e.Sandboxes[0].Socket, "/") {
		return "crictl -r unix://" + paste(e.Sandboxes[0].Socket) + " "
	}
	return "crictl "
}

// paste is a name as a shell takes it, "" where it moves a terminal.
func paste(name string) string {
	if name == "" || clean.Text(name) != name {
		return ""
	}
	return human.ShellQuoted(name)
}

// Drivers are the CSI drivers of the pod's volumes, as its vol_data.json files name them.
func Drivers(files map[string]string) (names []string) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		var vol struct {
			Driver string `json:"driverName"`
		}
		if err := json.Unmarshal([]byte(files[path]), &vol); err != nil {
			continue // it is shown as it is, and not as a command
		}
		if name := paste(vol.Driver); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
