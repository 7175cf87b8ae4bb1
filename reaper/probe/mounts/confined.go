package mounts

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Before Linux 6.13 no call reads a mount namespace of which every process has another root. Any container that chroots is
// alone in one, and would stop all work on the node. But what a container without privileges can have mounted is known: what
// its runtime mounted for it, and in a user namespace of its own what it reaches from there. The runtime has the first, as
// the OCI specification of the container, and whether it had privileges. If all of that is of the pod itself, nothing of
// another pod is hidden.

// spec is what of the verbose status of a container counts here, as containerd and CRI-O have it.
//
//	{"pid":812,"sandboxID":"5f…","runtimeSpec":{
//	  "process":{"capabilities":{"bounding":["CAP_CHOWN",…]}},
//	  "mounts":[{"destination":"/etc/hosts","type":"bind","source":"/var/lib/kubelet/pods/UID/etc-hosts","options":["rbind"]},…],
//	  "linux":{"namespaces":[{"type":"mount"},…]}}}
type spec struct {
	PID         int
	SandboxID   string
	RuntimeSpec struct {
		Process struct{ Capabilities map[string][]string } // by set; one that is left out is empty
		Mounts  []specMount
		Hooks   map[string]json.RawMessage
		Linux   struct {
			Namespaces []struct{ Type, Path string }
		}
	}
}

type specMount struct {
	Destination, Type, Source string
	Options                   []string
}

// harmless are the capabilities that allow no mount outside of a user namespace of one's own, and lead to no others: those
// that runtimes give by default, and the commonest besides.
var harmless = map[string]bool{
	"CAP_AUDIT_WRITE": true, "CAP_CHOWN": true, "CAP_DAC_OVERRIDE": true, "CAP_FOWNER": true, "CAP_FSETID": true, "CAP_KILL": true, "CAP_MKNOD": true,
	"CAP_NET_BIND_SERVICE": true, "CAP_NET_RAW": true, "CAP_SETFCAP": true, "CAP_SETGID": true, "CAP_SETPCAP": true, "CAP_SETUID": true,
	"CAP_SYS_CHROOT": true, "CAP_IPC_LOCK": true, "CAP_NET_ADMIN": true, "CAP_SYS_NICE": true, "CAP_SYS_RESOURCE": true, "CAP_SYS_TIME": true,
}

// kernelMade are file systems that have nothing of another one in them.
var kernelMade = map[string]bool{"proc": true, "sysfs": true, "tmpfs": true, "devpts": true, "mqueue": true, "cgroup": true, "cgroup2": true}

// confined returns the pod of which alone something can be mounted in the namespace that the link
// names, of which the view shows a part, and false where there is none.
func (s *scan) confined(ctx context.Context, v *view, link string) (parsers.PodUID, bool) {
	uid, id, ok := containerOfProcess(s.ProcDir, v.pid)
	if !ok {
		return "", false
	}
	c, known := s.specs[id]
	if !known {
		c = s.askSpec(ctx, uid, id)
		if s.specs == nil {
			s.specs = map[string]*spec{}
		}
		s.specs[id] = c
	}
	if c == nil {
		return "", false
	}
	init, ok := s.namespace(strconv.Itoa(c.PID))
	return uid, ok && c.confines([]string{string(uid), id, c.SandboxID}, v.root, init == link)
}

// confines: own are the names that the directories of the pod, the container and its sandbox have.
// In the container's first namespace only privileges mount anything, so that the process's root is the only mount that may
// be of another pod: all of it is seen. In a later one, what is reached may be bound anywhere.
func (c *spec) confines(own []string, root string, first bool) bool {
	for _, set := range c.RuntimeSpec.Process.Capabilities {
		if slices.ContainsFunc(set, func(capability string) bool { return !harmless[capability] }) {
			return false
		}
	}
	for _, m := range c.RuntimeSpec.Mounts {
		bind := m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
		switch {
		case !bind && kernelMade[m.Type]:
		case bind && slices.ContainsFunc(strings.Split(m.Source, "/"), func(part string) bool { return slices.Contains(own, part) }):
		case bind && first && root != "" && path.Clean(m.Destination) == root:
		default:
			return false
		}
	}
	return true
}

// askSpec asks the runtime for a container that runs; nil if something that counts is missing.
func (s *scan) askSpec(ctx context.Context, uid parsers.PodUID, id string) *spec {
	limit := s.Guard.Limit() / 8
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, socket := range s.sockets {
		conn, err := cri.Dial(socket, limit, cri.MaxVerbose)
		if err != nil {
			continue
		}
		var r runtimeapi.ContainerStatusResponse
		err = conn.Call(ctx, "ContainerStatus", &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true}, &r)
		conn.Close()
		st := r.GetStatus()
		if err != nil || st.GetId() != id || st.GetLabels()[cri.LabelUID] != string(uid) || st.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if c, ok := parseSpec(r.GetInfo()["info"]); ok {
			return c
		}
	}
	return nil
}

// parseSpec wants a container that has a mount namespace of its own, and that no hook can have
// mounted anything for.
func parseSpec(info string) (*spec, bool) {
	var c spec
	if json.Unmarshal([]byte(info), &c) != nil || c.PID <= 1 || len(c.SandboxID) < fullID {
		return nil, false
	}
	r := &c.RuntimeSpec
	for _, hooks := range r.Hooks {
		if text := string(hooks); text != "null" && text != "[]" {
			return nil, false
		}
	}
	own := false
	for _, n := range r.Linux.Namespaces {
		own = own || n.Type == "mount" && n.Path == ""
	}
	return &c, own && r.Process.Capabilities != nil && len(r.Mounts) > 0
}

// fullID is how long the ID of a container or sandbox is.
const fullID = 64

// containerOfProcess reads which pod's container a process is in: podUID/ID, or with systemd
// …-podUID.slice/cri-containerd-ID.scope. What comes below may be the container's own making.
func containerOfProcess(procDir, pid string) (parsers.PodUID, string, bool) {
	text, ok := procfs.Cgroup(procDir, pid)
	if !ok {
		return "", "", false
	}
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), "/")
		for i, part := range parts[:len(parts)-1] {
			uid, ok := parsers.PodOfCgroup(part)
			if !ok {
				continue
			}
			name := strings.TrimSuffix(parts[i+1], ".scope")
			name = name[strings.LastIndexByte(name, '-')+1:]
			return uid, name, len(name) == fullID && strings.Trim(name, "0123456789abcdef") == ""
		}
	}
	return "", "", false
}
