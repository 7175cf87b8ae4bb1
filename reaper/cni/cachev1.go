package cni

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// cacheV1 is what libcni 0.8.0 and newer write:
//
//	{"kind":"cniCacheV1","containerId":…,"config":base64,"ifName":…,"networkName":…,"netns":…,
//	 "cniArgs":[["K8S_POD_UID",…],…],"capabilityArgs":{…},"result":{…}}
//
// encoding/json keeps the last of two keys, and treats keys that differ only in case as one. So does libcni, but a file with two
// values contradicts itself: UnmarshalJSON of each field is called for every copy and counts it. A value of the wrong kind
// does not stop the parser, which would lose the pod's name.
type cacheV1 struct {
	Kind           text   `json:"kind"`
	ContainerID    text   `json:"containerId"`
	IfName         text   `json:"ifName"`
	NetworkName    text   `json:"networkName"`
	NetNS          text   `json:"netns"`
	CNIArgs        args   `json:"cniArgs"`
	Result         result `json:"result"`
	Config         copies `json:"config"`
	CapabilityArgs copies `json:"capabilityArgs"`
}

// copies counts a key.
type copies int

func (n *copies) UnmarshalJSON([]byte) error {
	*n++
	return nil
}

// value is a string of which there may be copies.
type value struct {
	copies
	last   string
	differ bool
}

func (v *value) add(s string) {
	v.differ = v.differ || v.copies > 0 && s != v.last
	v.last = s
	v.copies++
}

// get returns the string that all copies are, and false where there is none or they differ.
func (v *value) get() (string, bool) { return v.last, v.copies > 0 && !v.differ }

// pod returns a pod's name or namespace, where all copies agree on one.
func (v *value) pod() string {
	if s, ok := v.get(); ok && isPodText(s) {
		return s
	}
	return ""
}

// text is the value of a key that wants a string.
type text struct {
	value
	odd bool // a copy is no string, or not UTF-8, for which encoding/json puts U+FFFD
}

func (t *text) UnmarshalJSON(b []byte) error {
	t.odd = t.odd || b[0] != '"' || !utf8.Valid(b)
	s := strings.Trim(string(b), `"`)
	if b[0] == '"' && strings.Contains(s, `\`) {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	t.add(s)
	return nil
}

func (t *text) get() (string, bool) {
	s, ok := t.value.get()
	return s, ok && !t.odd
}

// args are the keys of cniArgs that the kubelet's runtimes set. They come in any order, and twice where Multus has added its own:
// copies must agree.
type args struct {
	copies
	odd                           bool // not a list of pairs of strings, which libcni cannot read either, or not UTF-8
	uid, sandbox, namespace, name value
}

func (a *args) UnmarshalJSON(b []byte) error {
	a.copies++
	var pairs [][]string
	a.odd = a.odd || json.Unmarshal(b, &pairs) != nil || b[0] != '[' || !utf8.Valid(b)
	for _, p := range pairs {
		if len(p) != 2 {
			a.odd = true
			continue
		}
		switch p[0] {
		case "K8S_POD_UID":
			a.uid.add(p[1])
		case "K8S_POD_INFRA_CONTAINER_ID":
			a.sandbox.add(p[1])
		case "K8S_POD_NAMESPACE":
			a.namespace.add(p[1])
		case "K8S_POD_NAME":
			a.name.add(p[1])
		}
	}
	return nil
}

// result has the namespaces of the interfaces of a result (0.3.0 and newer), of all copies of the keys:
//
//	"interfaces":[{"name":"veth1fc745d3"},{"name":"eth0","sandbox":"/var/run/netns/cni-…"}]
//
// Some plugins put other things into sandbox for interfaces of their own: only a path names a namespace.
type result struct {
	copies
	sandboxes text
}

func (r *result) UnmarshalJSON(b []byte) error {
	r.copies++
	var v struct{ Interfaces faces }
	_ = json.Unmarshal(b, &v) // what is not as it should be names no namespace
	for _, f := range v.Interfaces {
		if s := &f.Sandbox; s.differ || strings.HasPrefix(s.last, "/") {
			r.sandboxes.add(s.last)
			r.sandboxes.differ, r.sandboxes.odd = r.sandboxes.differ || s.differ, r.sandboxes.odd || s.odd
		}
	}
	return nil
}

type faces []struct{ Sandbox text }

func (f *faces) UnmarshalJSON(b []byte) error {
	var list []struct{ Sandbox text }
	_ = json.Unmarshal(b, &list)
	*f = append(*f, list...)
	return nil
}

// counts are how often each key comes.
func (v *cacheV1) counts() []copies {
	return []copies{
		v.Kind.copies, v.ContainerID.copies, v.IfName.copies, v.NetworkName.copies, v.NetNS.copies, v.CNIArgs.copies, v.Result.copies,
		v.Config, v.CapabilityArgs,
	}
}

func (v *cacheV1) any() bool { return slices.Max(v.counts()) > 0 }

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

// tie ties the file where its name is what libcni makes of the content (getCacheFilePath), and no two values contradict each other.
func (v *cacheV1) tie(f *File) untied {
	f.Namespace, f.PodName = v.CNIArgs.namespace.pod(), v.CNIArgs.name.pod()
	if slices.Max(v.counts()) > 1 {
		return untiedContradiction
	}
	if v.IfName.odd || v.NetNS.odd || v.CNIArgs.odd {
		return untiedContent
	}
	var ok [3]bool
	f.Network, ok[0] = v.NetworkName.get()
	f.Container, ok[1] = v.ContainerID.get()
	f.IfName, ok[2] = v.IfName.get()
	switch {
	case slices.Contains(ok[:], false):
		return untiedContent
	case f.Name != f.Network+"-"+f.Container+"-"+f.IfName:
		return untiedName
	case f.Network == "", !IsName(f.Container), !isIfName(f.IfName):
		return untiedContent
	}
	return v.tiePod(f)
}

// tiePod sets the pod and the namespace, unless their copies contradict each other.
func (v *cacheV1) tiePod(f *File) untied {
	a, netns, faces := &v.CNIArgs, v.NetNS, &v.Result.sandboxes
	f.Sandbox = a.sandbox.copies > 0
	if faces.copies > 0 {
		netns.add(faces.last)
		netns.odd = netns.odd || faces.odd
	}
	sandbox, ok := a.sandbox.get()
	if f.Sandbox && (!ok || sandbox != f.Container) || a.uid.differ || netns.differ || faces.differ {
		return untiedContradiction
	}
	if uid, ok := a.uid.get(); ok {
		f.UID, _ = parsers.ParsePodUID(uid)
	}
	path, ok := netns.get()
	switch {
	case netns.copies == 0:
		return ""
	case !ok, !strings.HasPrefix(path, "/"), len(path) >= 4096, strings.ContainsAny(path, "\x00\ufffd"):
		// A namespace that cannot be looked for cannot be shown to be gone. U+FFFD is what libcni's json.Marshal made of a byte
		// that is lost.
		return untiedContent
	}
	f.NetNS = path
	return ""
}
