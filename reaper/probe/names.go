package probe

import (
	"bytes"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// podName is a pod's namespace and name.
type podName struct{ namespace, name string }

// hostsName reads the pod's host name, which is its name unless its spec says otherwise,
// from the etc-hosts that the kubelet writes:
//
//	# Kubernetes-managed hosts file.
//	127.0.0.1	localhost
//	10.0.0.7	web-0.web.shop.svc.cluster.local	web-0
//
// With the host's network it is a copy of the host's file and tells nothing.
func hostsName(text []byte) podName {
	if !bytes.HasPrefix(text, []byte("# Kubernetes-managed hosts file.\n")) {
		return podName{}
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
		return podName{}
	}
	name := podName{name: string(last[len(last)-1])}
	if parts := strings.Split(string(last[1]), "."); len(last) == 3 && len(parts) > 4 && parts[3] == "svc" {
		name.namespace = parts[2]
	}
	if !isDNSName(name.name) || strings.HasPrefix(name.name, "ip6-") || name.name == "localhost" ||
		name.namespace != "" && !isDNSName(name.namespace) {
		return podName{}
	}
	return name
}

// certainName says whether the evidence has the pod's own name and namespace, and not the
// host name of its etc-hosts, which its spec may have set to anything. That of a parked pod
// stood in the evidence on which it was parked.
func (l *looking) certainName(e *policy.Evidence) bool {
	_, logged := l.logs.names[e.UID]
	_, listed := l.runtime.Names[e.UID]
	return e.Namespace != "" && e.PodName != "" && (logged || listed || e.Entry != "")
}
