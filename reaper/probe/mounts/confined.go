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

// Before Linux 6.13 no call reads a mount namespace in which every process has another root, as in that of a container
// that chroots. So any such container would stop all work on the node. But a container without privileges has only the
// mounts that its runtime made, and in a user namespace of its own what it can reach from there. The OCI specification of
// the container has these mounts and its privileges. If they are all of the pod itself, no mount of another pod is hidden.

// spec has the parts of a container's verbose status that count here, as containerd and CRI-O write it.
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

// harmless lists capabilities that neither allow a mount outside of a user namespace of one's own nor lead to one that does:
// the default ones of runtimes, and the most common others.
var harmless = map[string]bool{
	"CAP_AUDIT_WRITE": true, "CAP_CHOWN": true, "CAP_DAC_OVERRIDE": true, "CAP_FOWNER": true, "CAP_FSETID": true, "CAP_KILL": true, "CAP_MKNOD": true,
	"CAP_NET_BIND_SERVICE": true, "CAP_NET_RAW": true, "CAP_SETFCAP": true, "CAP_SETGID": true, "CAP_SETPCAP": true, "CAP_SETUID": true,
	"CAP_SYS_CHROOT": true, "CAP_IPC_LOCK": true, "CAP_NET_ADMIN": true, "CAP_SYS_NICE": true, "CAP_SYS_RESOURCE": true, "CAP_SYS_TIME": true,
}

// kernelMade lists file systems that never contain files of another one.
var kernelMade = map[string]bool{"proc": true, "sysfs": true, "tmpfs": true, "devpts": true, "mqueue": true, "cgroup": true, "cgroup2": true}

// confined returns the only pod of which something can be mounted in the namespace link, a part of
// which the view shows. It returns false if it may be of several.
func (s *scan) confined(ctx context.Context, v *view, link string) (parsers.PodUID, bool) {
	uid, id, ok := containerOfProcess(s.ProcDir, v.pid)
	if !ok {
		return "", false
	}
	c, known := s.specs[id]
	if !known {
		c = s.findSpec(ctx, uid, id)
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

// confines reports whether all mounts of the container are in directories with the names own: those of the pod, the
// container and its sandbox. In its first namespace, root may be another bind mount, because the view shows all of it and
// only a privileged process can mount anything there. In a later one it may have been bind-mounted elsewhere, too.
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

// findSpec asks the runtimes for a container that runs. It returns nil if there is none or its specification is incomplete.
func (s *scan) findSpec(ctx context.Context, uid parsers.PodUID, id string) *spec {
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

// parseSpec returns false for a container without a mount namespace of its own, and for one with
// hooks, since a hook may have mounted anything.
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

// containerOfProcess returns the pod and the container of a process, from its cgroup: podUID/ID, or with
// systemd …-podUID.slice/cri-containerd-ID.scope. The container itself may have made those below.
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
