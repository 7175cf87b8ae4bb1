package probe

import (
	"bytes"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// hostsName reads the pod's host name, which is its name unless its spec says otherwise,
// from the etc-hosts that the kubelet writes:
//
//	# Kubernetes-managed hosts file.
//	127.0.0.1	localhost
//	10.0.0.7	web-0.web.shop.svc.cluster.local	web-0
//
// With the host's network it is a copy of the host's file and tells nothing.
func hostsName(text []byte) policy.PodName {
	if !bytes.HasPrefix(text, []byte("# Kubernetes-managed hosts file.\n")) {
		return policy.PodName{}
	}
	var last [][]byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("# Entries added by HostAliases")) {
			break
		}
		if len(line) > 0 && line[0] != '#' {
			last = bytes.Fields(line)
		}
	}
	if len(last) < 2 {
		return policy.PodName{}
	}
	name := policy.PodName{Name: string(last[len(last)-1])}
	if parts := strings.Split(string(last[1]), "."); len(last) == 3 && len(parts) > 4 && parts[3] == "svc" {
		name.Namespace = parts[2]
	}
	if !policy.IsDNSName(name.Name) || strings.HasPrefix(name.Name, "ip6-") || name.Name == "localhost" ||
		name.Namespace != "" && !policy.IsDNSName(name.Namespace) {
		return policy.PodName{}
	}
	return name
}

// certainName says whether the evidence has the pod's own name and namespace, and not the
// host name of its etc-hosts, which its spec may have set to anything. That of a parked pod
// stood in the evidence on which it was parked.
func (l *gathering) certainName(e *policy.Evidence) bool {
	_, logged := l.logs.Names[e.UID]
	_, listed := l.runtime.Names[e.UID]
	return e.Namespace != "" && e.PodName != "" && (logged || listed || e.Entry != "")
}

// uids are the pods of each name, as runtime and log directories tell them.
func (l *gathering) uids() map[policy.PodName][]parsers.PodUID {
	uids := map[policy.PodName][]parsers.PodUID{}
	add := func(uid parsers.PodUID, name policy.PodName) {
		if !slices.Contains(uids[name], uid) {
			uids[name] = append(uids[name], uid)
		}
	}
	for uid, name := range l.runtime.Names {
		add(uid, name)
	}
	for uid, name := range l.logs.Names {
		add(uid, name)
	}
	return uids
}

// logless is a pod that runs and has a directory here, and no log directory; "" where there is none.
func (l *gathering) logless() parsers.PodUID {
	var found []parsers.PodUID
	for uid := range l.runtime.Ready {
		if _, ok := l.lists(string(uid)); ok && !l.logs.Pods[uid] {
			found = append(found, uid)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}
