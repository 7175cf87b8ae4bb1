package cni

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// cacheV1 is the format of libcni 0.8.0 and newer:
//
//	{"kind":"cniCacheV1","containerId":…,"config":base64,"ifName":…,"networkName":…,"netns":…,
//	 "cniArgs":[["K8S_POD_UID",…],…],"capabilityArgs":{…},"result":{…}}
//
// A result has the namespaces of its interfaces since 0.3.0: "interfaces":[{"name":"veth1fc745d3"},{"name":"eth0","sandbox":"/var/run/netns/cni-…"}].
type cacheV1 struct {
	Kind        once[string]     `json:"kind"`
	ContainerID once[string]     `json:"containerId"`
	IfName      once[string]     `json:"ifName"`
	NetworkName once[string]     `json:"networkName"`
	NetNS       once[string]     `json:"netns"`
	CNIArgs     once[[][]string] `json:"cniArgs"`
	Result      once[struct {
		Interfaces once[[]struct {
			Sandbox once[string] `json:"sandbox"`
		}] `json:"interfaces"`
	}] `json:"result"`
}

// once is the value of a key, and counts how often the key occurs. encoding/json and libcni keep the last of two
// values, and match keys without regard to case, but a file with two values contradicts itself. A value of the wrong
// kind does not stop the parser, so that the pod's name is still read.
type once[T any] struct {
	value  T
	copies int
	err    error
}

func (o *once[T]) UnmarshalJSON(b []byte) error {
	o.copies++
	o.err = cmp.Or(o.err, json.Unmarshal(b, &o.value))
	return nil
}

// copies returns how often each key occurs.
func (v *cacheV1) copies() []int {
	n := []int{
		v.Kind.copies, v.ContainerID.copies, v.IfName.copies, v.NetworkName.copies, v.NetNS.copies, v.CNIArgs.copies, v.Result.copies,
		v.Result.value.Interfaces.copies,
	}
	for _, i := range v.Result.value.Interfaces.value {
		n = append(n, i.Sandbox.copies)
	}
	return n
}

// arg returns an argument that the kubelet's runtimes set, and how often it occurs, since Multus adds its own. ok is
// false if the values differ.
func (v *cacheV1) arg(key string) (value string, copies int, ok bool) {
	ok = true
	for _, p := range v.CNIArgs.value {
		if len(p) == 2 && p[0] == key {
			ok = ok && (copies == 0 || p[1] == value)
			value = p[1]
			copies++
		}
	}
	return value, copies, ok
}

// podText returns a pod's name or namespace, or "" if the values differ.
func (v *cacheV1) podText(key string) string {
	if s, _, ok := v.arg(key); ok && isPodText(s) {
		return s
	}
	return ""
}

// isResult reports whether the content is a bare result: an object with a key of one.
func isResult(content []byte) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(content, &keys) != nil {
		return false
	}
	return slices.ContainsFunc([]string{"cniVersion", "interfaces", "ips", "ip4", "ip6", "routes", "dns"}, func(k string) bool {
		_, ok := keys[k]
		return ok
	})
}

// tie ties the file to its container if its name is the one that libcni's getCacheFilePath builds from the content,
// and no two values contradict each other.
func (v *cacheV1) tie(f *File, content []byte) untied {
	f.Namespace, f.PodName = v.podText("K8S_POD_NAMESPACE"), v.podText("K8S_POD_NAME")
	if slices.Max(v.copies()) > 1 {
		return untiedContradiction
	}
	// encoding/json replaces invalid UTF-8 by U+FFFD.
	odd := !utf8.Valid(content) || v.CNIArgs.copies > 0 && v.CNIArgs.value == nil ||
		slices.ContainsFunc(v.CNIArgs.value, func(p []string) bool { return len(p) != 2 })
	for _, err := range []error{v.ContainerID.err, v.IfName.err, v.NetworkName.err, v.NetNS.err, v.CNIArgs.err} {
		odd = odd || err != nil
	}
	f.Network, f.Container, f.IfName = v.NetworkName.value, v.ContainerID.value, v.IfName.value
	switch {
	case odd, f.Container == "", f.IfName == "":
		return untiedContent
	case f.Name != f.Network+"-"+f.Container+"-"+f.IfName:
		return untiedName
	case f.Network == "", !IsName(f.Container), !isIfName(f.IfName):
		return untiedContent
	}
	return v.tiePod(f)
}

// tiePod sets the pod and the namespace, unless two values contradict each other.
func (v *cacheV1) tiePod(f *File) untied {
	sandbox, copies, ok := v.arg("K8S_POD_INFRA_CONTAINER_ID")
	f.Sandbox = copies > 0
	uid, _, sameUID := v.arg("K8S_POD_UID")
	if f.Sandbox && (!ok || sandbox != f.Container) || !sameUID {
		return untiedContradiction
	}
	f.UID, _ = parsers.ParsePodUID(uid)
	netns := v.NetNS.value
	for _, i := range v.Result.value.Interfaces.value {
		// Some plugins set sandbox to something else for interfaces of their own. Only a path is a namespace.
		if path := i.Sandbox.value; strings.HasPrefix(path, "/") {
			if v.NetNS.copies > 0 && path != netns {
				return untiedContradiction
			}
			netns, v.NetNS.copies = path, 1
		}
	}
	switch {
	case v.NetNS.copies == 0:
		return ""
	case !strings.HasPrefix(netns, "/"), len(netns) >= 4096, strings.ContainsAny(netns, "\x00\ufffd"):
		// It cannot be checked whether such a namespace exists. libcni's json.Marshal writes U+FFFD for an invalid byte.
		return untiedContent
	}
	f.NetNS = netns
	return ""
}
