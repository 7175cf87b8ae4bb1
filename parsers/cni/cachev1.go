package cni

import (
	"encoding/json"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// copies are all values that one key has, each as its text in the file. encoding/json hands
// over each of them: of keys that come twice, and of keys that differ in case only, which it
// takes for the same, as libcni does. It would keep the last without a word.
type copies struct {
	lit   []byte
	times int
	// differ: another copy has another value.
	differ bool
}

// UnmarshalJSON takes one more copy.
func (c *copies) UnmarshalJSON(lit []byte) error {
	c.add(lit)
	return nil
}

func (c *copies) add(lit []byte) {
	c.differ = c.differ || c.times > 0 && !sameText(c.lit, lit)
	c.lit, c.times = append([]byte(nil), lit...), c.times+1
}

// isText reports whether the last copy is a string.
func (c *copies) isText() bool { return c.times > 0 && c.lit[0] == '"' }

// text returns the string that all copies are, and false where there is none or they differ.
func (c *copies) text() (string, bool) {
	if !c.isText() || c.differ {
		return "", false
	}
	return decodeText(c.lit)
}

// is reports whether there is a copy and all are want.
func (c *copies) is(want string) bool {
	s, ok := c.text()
	return ok && s == want
}

// count is how often a key comes whose value does not matter here.
type count int

// UnmarshalJSON counts one more copy.
func (c *count) UnmarshalJSON([]byte) error {
	*c++
	return nil
}

// cacheV1 is a cniCacheV1.
type cacheV1 struct {
	Kind         copies `json:"kind"`
	ContainerID  copies `json:"containerId"`
	IfName       copies `json:"ifName"`
	Network      copies `json:"networkName"`
	NetNS        copies `json:"netns"`
	Args         copies `json:"cniArgs"`
	Result       copies `json:"result"`
	Config       count  `json:"config"`
	Capabilities count  `json:"capabilityArgs"`

	// The keys of cniArgs that the kubelet's runtimes set.
	uid, sandbox, namespace, podName copies
	// sandboxes are the network namespaces of the result's interfaces.
	sandboxes copies
	// odd: a value has the wrong type.
	odd bool
}

// read takes the values of cniArgs and of the result apart.
func (r *cacheV1) read() {
	for _, v := range []*copies{&r.Kind, &r.ContainerID, &r.IfName, &r.Network, &r.NetNS} {
		r.odd = r.odd || v.times > 0 && !v.isText()
	}
	if r.Args.times > 0 {
		r.readArgs()
	}
	if r.Result.times > 0 {
		r.readInterfaces()
	}
}

// readArgs reads the pairs of cniArgs. Whatever is no pair of strings makes the file odd:
// libcni cannot read it either.
func (r *cacheV1) readArgs() {
	var pairs [][]copies
	if json.Unmarshal(r.Args.lit, &pairs) != nil || pairs == nil {
		r.odd = true
	}
	for _, p := range pairs {
		if len(p) != 2 || !p[0].isText() || !p[1].isText() {
			r.odd = true
			continue
		}
		switch key, _ := p[0].text(); key {
		case "K8S_POD_UID":
			r.uid.add(p[1].lit)
		case "K8S_POD_INFRA_CONTAINER_ID":
			r.sandbox.add(p[1].lit)
		case "K8S_POD_NAMESPACE":
			r.namespace.add(p[1].lit)
		case "K8S_POD_NAME":
			r.podName.add(p[1].lit)
		}
	}
}

// readInterfaces reads the interfaces of a result (0.3.0 and newer):
//
//	"interfaces":[{"name":"veth1fc745d3"},{"name":"eth0","sandbox":"/var/run/netns/cni-…"}]
//
// Some plugins put other things into sandbox for interfaces of their own: only a path names
// a namespace. A backslash may begin one.
func (r *cacheV1) readInterfaces() {
	var result struct {
		Interfaces faces `json:"interfaces"`
	}
	_ = json.Unmarshal(r.Result.lit, &result) // what has another type has no namespace
	for _, face := range result.Interfaces {
		v := face.Sandbox
		if v.isText() && (v.lit[1] == '/' || v.lit[1] == '\\') {
			r.sandboxes.add(v.lit)
		}
		r.sandboxes.differ = r.sandboxes.differ || v.differ
	}
}

// faces are the interfaces of a result, of all copies of the key: encoding/json would keep the last.
type faces []struct {
	Sandbox copies `json:"sandbox"`
}

// UnmarshalJSON adds one more copy.
func (f *faces) UnmarshalJSON(lit []byte) error {
	var more []struct {
		Sandbox copies `json:"sandbox"`
	}
	err := json.Unmarshal(lit, &more)
	*f = append(*f, more...)
	return err
}

// twice reports whether a key comes twice.
func (r *cacheV1) twice() bool {
	for _, v := range []*copies{&r.Kind, &r.ContainerID, &r.IfName, &r.Network, &r.NetNS, &r.Args, &r.Result} {
		if v.times > 1 {
			return true
		}
	}
	return r.Config > 1 || r.Capabilities > 1
}

// isLegacy reports whether the content is a bare result: it has a key of one, and none of ours.
func (r *cacheV1) isLegacy(content []byte) bool {
	for _, v := range []*copies{&r.Kind, &r.ContainerID, &r.IfName, &r.Network, &r.NetNS, &r.Args, &r.Result} {
		if v.times > 0 {
			return false
		}
	}
	var keys map[string]json.RawMessage
	if r.Config+r.Capabilities > 0 || json.Unmarshal(content, &keys) != nil {
		return false
	}
	for _, key := range []string{"cniVersion", "interfaces", "ips", "ip4", "ip6", "routes", "dns"} {
		if _, ok := keys[key]; ok {
			return true
		}
	}
	return false
}

// tie returns the file with the container, where the name and all of the content agree
// on one.
func (r *cacheV1) tie(name string) File {
	f := File{Kind: CacheV1}
	f.PodNamespace, f.PodName = podText(&r.namespace), podText(&r.podName)
	switch {
	case r.twice():
		f.Untied = UntiedContradiction
		return f
	case r.odd:
		f.Untied = UntiedContent
		return f
	}
	if f.Untied = r.tieName(name, &f); f.Untied == "" {
		f.Untied = r.tieArgs(&f)
	}
	if f.Untied != "" {
		return File{Kind: CacheV1, Untied: f.Untied, PodNamespace: f.PodNamespace, PodName: f.PodName}
	}
	return f
}

// tieName compares the name with what libcni makes of the content's values
// (getCacheFilePath), and cuts them out of it.
func (r *cacheV1) tieName(name string, f *File) Untied {
	rest := name
	for _, part := range [...]struct {
		value *copies
		after string
		to    *string
	}{{&r.Network, "-", &f.Network}, {&r.ContainerID, "-", &f.ContainerID}, {&r.IfName, "", &f.IfName}} {
		if !part.value.isText() {
			return UntiedContent
		}
		value, ok := plainText(part.value.lit)
		if !ok {
			// No ID and no interface has an escape, and no network that libcni accepts.
			return UntiedContent
		}
		n := len(value)
		if n > len(rest) || rest[:n] != string(value) || !strings.HasPrefix(rest[n:], part.after) {
			return UntiedName
		}
		*part.to, rest = rest[:n], rest[n+len(part.after):]
	}
	switch {
	case rest != "":
		return UntiedName
	case f.Network == "", !IsName(f.ContainerID), !isIfName(f.IfName):
		return UntiedContent
	}
	return ""
}

// tieArgs takes what cniArgs and the result say, and reports what contradicts.
func (r *cacheV1) tieArgs(f *File) Untied {
	if r.sandbox.times > 0 {
		if !r.sandbox.is(f.ContainerID) {
			return UntiedContradiction
		}
		f.Sandbox = true
	}
	if r.uid.differ {
		return UntiedContradiction
	}
	if uid, ok := r.uid.text(); ok {
		f.PodUID, _ = parsers.ParsePodUID(uid)
	}
	netns := r.NetNS
	if r.sandboxes.times > 0 {
		netns.add(r.sandboxes.lit)
	}
	netns.differ = netns.differ || r.sandboxes.differ
	if netns.differ {
		return UntiedContradiction
	}
	if netns.times == 0 {
		return ""
	}
	path, ok := netns.text()
	if !ok || !strings.HasPrefix(path, "/") || len(path) >= 4096 || strings.ContainsAny(path, "\x00\ufffd") {
		// A namespace that cannot be looked for cannot be shown to be gone. U+FFFD is what
		// libcni's json.Marshal made of a byte that is lost.
		return UntiedContent
	}
	f.NetNS = path
	return ""
}

// podText returns a pod's name or namespace, where all copies agree on one.
func podText(v *copies) string {
	s, ok := v.text()
	if !ok || !isPodText(s) {
		return ""
	}
	return s
}
