package poddir

import (
	"bytes"
	"strings"

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
