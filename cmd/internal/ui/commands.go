package ui

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Place has the directories and the node's name, "" if unknown, for commands.
type Place struct{ PodsDir, QuarantineDir, Node string }

// Commands are commands for an operator to paste: those of Look inspect a reason's cause and change nothing, and those of Then
// remove it, for a pod that is gone.
type Commands struct{ Look, Then []string }

// Commands fills in the commands of a reason for one pod.
func (x Place) Commands(e *policy.Evidence, r policy.Reason) Commands {
	a := of(r)
	return Commands{x.fill(e, a.Look), x.fill(e, a.Then)}
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// fill replaces the placeholders of commands with one pod's values, quoted for a shell. It does so in one pass, so that no
// placeholder in a value is replaced. A placeholder with several values makes several commands. One without a value, or with a
// value that must not be pasted, makes none.
func (x Place) fill(e *policy.Evidence, templates []string) (commands []string) {
	for _, template := range templates {
		n, values := 1, map[string][]string{}
		for _, name := range placeholder.FindAllString(template, -1) {
			values[name] = slices.DeleteFunc(x.values(e, name), func(value string) bool { return value == "" })
			if count := len(values[name]); count != 1 {
				n = min(n, 1) * count
			}
		}
		for i := range n {
			commands = append(commands, placeholder.ReplaceAllStringFunc(template, func(name string) string {
				return values[name][min(i, len(values[name])-1)]
			}))
		}
	}
	return slices.DeleteFunc(commands, func(command string) bool { return clean.Text(command) != command })
}

func (x Place) values(e *policy.Evidence, name string) (values []string) {
	uid := string(e.UID)
	switch name {
	case "{entry}": // whose name is no UID
		if uid == "" {
			return []string{paste(x.PodsDir + "/" + e.Name)}
		}
	case "{uid}":
		return []string{uid}
	case "{uid_}":
		return []string{strings.ReplaceAll(uid, "-", "_")}
	case "{dir}":
		if e.Entry != "" {
			return []string{paste(x.QuarantineDir + "/" + e.Entry)}
		}
		if uid != "" {
			return []string{paste(x.PodsDir + "/" + uid)}
		}
	case "{pods}":
		return []string{paste(x.PodsDir)}
	case "{quarantine}":
		return []string{paste(x.QuarantineDir)}
	case "{node}":
		return []string{paste(x.Node)}
	case "{namespace}":
		return []string{paste(e.Namespace)}
	case "{name}":
		return []string{paste(e.PodName)}
	case "{unmount}":
		return []string{e.Unmount}
	case "{driver}":
		return Drivers(e.VolData)
	case "{crictl}": // for the pod's own runtime
		if len(e.Sandboxes) > 0 && strings.HasPrefix(e.Sandboxes[0].Socket, "/") {
			return []string{"crictl -r unix://" + paste(e.Sandboxes[0].Socket)}
		}
		return []string{"crictl"}
	case "{sandbox}": // those that have stopped
		for _, s := range e.Sandboxes {
			if !s.Ready {
				values = append(values, paste(s.ID))
			}
		}
	}
	return values
}

// paste returns a name quoted for a shell, "" if it contains unprintable characters.
func paste(name string) string {
	if name == "" || clean.Text(name) != name {
		return ""
	}
	return clean.Shell(name)
}

// Drivers returns the CSI drivers of the pod's volumes, as its vol_data.json files name them.
func Drivers(files map[string]string) (names []string) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		var vol struct {
			Driver string `json:"driverName"`
		}
		if err := json.Unmarshal([]byte(files[path]), &vol); err != nil {
			continue
		}
		if name := paste(vol.Driver); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
