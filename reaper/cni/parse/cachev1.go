package parse

import (
	"bytes"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// copies are all values that one key has, each as its text in the file: of a key that comes
// twice, and of keys that differ in case only, which encoding/json, and so libcni, takes for the
// same. It would keep the last without a word.
type copies struct {
	lit   []byte
	times int
	// differ: another copy has another value.
	differ bool
}

func (c *copies) add(lit []byte) {
	c.differ = c.differ || c.times > 0 && !sameText(c.lit, lit)
	c.lit, c.times = lit, c.times+1
}

// isText reports whether the last copy is a string.
func (c *copies) isText() bool { return c.times > 0 && c.lit[0] == '"' }

// text returns the string that all copies are, and false where there is none or they differ.
func (c *copies) text() (string, bool) {
	if c.differ {
		return "", false
	}
	text, ok := decode(c.lit)
	return string(text), ok
}

// is reports whether there is a copy and all are want.
func (c *copies) is(want string) bool {
	s, ok := c.text()
	return ok && s == want
}

// cacheV1 is a cniCacheV1. What it holds are parts of the content.
type cacheV1 struct {
	kind, containerID, ifName, network, netns, args, result, config, capabilities copies

	// The keys of cniArgs that the kubelet's runtimes set.
	uid, sandbox, namespace, podName copies
	// sandboxes are the network namespaces of the result's interfaces.
	sandboxes copies
	// odd: a value has the wrong type.
	odd bool
	// legacy: it has a key of a bare result.
	legacy bool
}

// cacheKey is a key of a cniCacheV1.
type cacheKey struct {
	name   string
	values *copies
}

// keys returns all keys, those whose values are strings first.
func (r *cacheV1) keys() [9]cacheKey {
	return [...]cacheKey{
		{"kind", &r.kind},
		{"containerId", &r.containerID},
		{"ifName", &r.ifName},
		{"networkName", &r.network},
		{"netns", &r.netns},
		{"cniArgs", &r.args},
		{"result", &r.result},
		{"config", &r.config},
		{"capabilityArgs", &r.capabilities},
	}
}

// read takes content apart, which is valid JSON.
func (r *cacheV1) read(content []byte) {
	keys := r.keys()
	for name, value := range parts(bytes.TrimSpace(content), '{') {
		switch i := slices.IndexFunc(keys[:], func(k cacheKey) bool { return strings.EqualFold(k.name, string(name)) }); {
		case i >= 0:
			keys[i].values.add(value)
		case slices.Contains(legacyKeys, string(name)):
			r.legacy = true
		}
	}
	for _, k := range keys[:5] {
		r.odd = r.odd || k.values.times > 0 && !k.values.isText()
	}
	r.readArgs()
	r.readInterfaces()
}

var legacyKeys = []string{"cniVersion", "interfaces", "ips", "ip4", "ip6", "routes", "dns"}

// readArgs reads the pairs of cniArgs. Whatever is no pair of strings makes the file odd:
// libcni cannot read it either.
func (r *cacheV1) readArgs() {
	r.odd = r.odd || r.args.times > 0 && r.args.lit[0] != '['
	for _, lit := range parts(r.args.lit, '[') {
		var pair [2][]byte
		n := 0
		for _, text := range parts(lit, '[') {
			pair[min(n, 1)] = text
			n++
		}
		if n != 2 || pair[0][0] != '"' || pair[1][0] != '"' {
			r.odd = true
			continue
		}
		switch key, _ := decode(pair[0]); string(key) {
		case "K8S_POD_UID":
			r.uid.add(pair[1])
		case "K8S_POD_INFRA_CONTAINER_ID":
			r.sandbox.add(pair[1])
		case "K8S_POD_NAMESPACE":
			r.namespace.add(pair[1])
		case "K8S_POD_NAME":
			r.podName.add(pair[1])
		}
	}
}

// readInterfaces reads the interfaces of a result (0.3.0 and newer), of all copies of the key:
//
//	"interfaces":[{"name":"veth1fc745d3"},{"name":"eth0","sandbox":"/var/run/netns/cni-…"}]
//
// Some plugins put other things into sandbox for interfaces of their own: only a path names
// a namespace. A backslash may begin one.
func (r *cacheV1) readInterfaces() {
	for name, faces := range parts(r.result.lit, '{') {
		if !strings.EqualFold(string(name), "interfaces") {
			continue
		}
		for _, face := range parts(faces, '[') {
			var v copies
			for name, value := range parts(face, '{') {
				if strings.EqualFold(string(name), "sandbox") {
					v.add(value)
				}
			}
			if v.isText() && (v.lit[1] == '/' || v.lit[1] == '\\') {
				r.sandboxes.add(v.lit)
			}
			r.sandboxes.differ = r.sandboxes.differ || v.differ
		}
	}
}

// twice reports whether a key comes twice.
func (r *cacheV1) twice() bool {
	keys := r.keys()
	return slices.ContainsFunc(keys[:], func(k cacheKey) bool { return k.values.times > 1 })
}

// isLegacy reports whether the content is a bare result: it has a key of one, and none of ours.
func (r *cacheV1) isLegacy() bool {
	keys := r.keys()
	return r.legacy && !slices.ContainsFunc(keys[:], func(k cacheKey) bool { return k.values.times > 0 })
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
	}{{&r.network, "-", &f.Network}, {&r.containerID, "-", &f.ContainerID}, {&r.ifName, "", &f.IfName}} {
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
	netns := r.netns
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
