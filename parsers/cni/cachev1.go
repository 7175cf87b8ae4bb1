package cni

import (
	"bytes"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// cniKey is a key of cniCacheV1.
type cniKey int

const (
	keyKind cniKey = iota
	keyContainerID
	keyIfName
	keyNetwork
	keyNetNS
	keyArgs
	keyResult
	keyConfig
	keyCapabilities
	keysTotal
)

var cniKeys = [keysTotal][]byte{
	[]byte("kind"), []byte("containerId"), []byte("ifName"), []byte("networkName"), []byte("netns"),
	[]byte("cniArgs"), []byte("result"), []byte("config"), []byte("capabilityArgs"),
}

// cniArg is a key of cniArgs that the kubelet's runtimes set.
type cniArg int

const (
	argUID cniArg = iota
	argSandbox
	argNamespace
	argName
	argsTotal
)

// copies is what the copies of one value say: lit as it stands in the file.
type copies struct {
	lit []byte
	// differ says that another copy says something else.
	differ bool
}

func (v *copies) add(lit []byte) {
	if v.lit != nil && !sameText(v.lit, lit) {
		v.differ = true
	}
	v.lit = lit
}

// text returns what all copies say, and false where there is none or they differ.
func (v *copies) text() (string, bool) {
	if v.lit == nil || v.differ {
		return "", false
	}
	return decodeText(v.lit)
}

// is reports whether there is a copy and all say want.
func (v *copies) is(want string) bool {
	if v.lit == nil || v.differ {
		return false
	}
	if in, ok := plainText(v.lit); ok {
		return string(in) == want
	}
	s, ok := decodeText(v.lit)
	return ok && s == want
}

// cacheReader reads a cniCacheV1 in one pass. Literals are slices of the content: a
// string is made of what the caller gets, and of nothing else.
type cacheReader struct {
	scan jsonScan
	// keys is the set of own keys that were seen.
	keys int
	// legacy says that a key was seen that a bare result has.
	legacy bool
	// twice: a key of ours came twice; odd: a value of ours has the wrong type.
	twice, odd bool
	values     [keyArgs]copies
	args       [argsTotal]copies
	// sandboxes are the network namespaces of the result's interfaces.
	sandboxes copies
}

// member reads one member of the file's object.
func (r *cacheReader) member(lit []byte) bool {
	key, ok := r.ownKey(lit)
	if !ok {
		return r.scan.value()
	}
	if r.keys&(1<<key) != 0 {
		r.twice = true
	}
	r.keys |= 1 << key
	switch c := r.scan.peek(); {
	case key < keyArgs && c == '"':
		value, ok := r.scan.text()
		if ok {
			r.values[key].add(value)
		}
		return ok
	case key == keyArgs && c == '[':
		return r.scan.array(r.arg)
	case key == keyResult && c == '{':
		return r.scan.object(r.resultMember)
	case key <= keyArgs:
		r.odd = true
	}
	return r.scan.value()
}

// ownKey says which key of cniCacheV1 lit is. One that differs in case only is one too:
// encoding/json, and so libcni, takes it for the same.
func (r *cacheReader) ownKey(lit []byte) (cniKey, bool) {
	name, ok := plainText(lit)
	if !ok {
		s, _ := decodeText(lit)
		name = []byte(s)
	}
	for key, own := range cniKeys {
		if bytes.Equal(name, own) {
			return cniKey(key), true
		}
	}
	for key, own := range cniKeys {
		if bytes.EqualFold(name, own) {
			return cniKey(key), true
		}
	}
	switch string(name) {
	case "cniVersion", "interfaces", "ips", "ip4", "ip6", "routes", "dns":
		r.legacy = true
	}
	return 0, false
}

// arg reads one pair of cniArgs. Whatever is no pair of strings makes the file odd:
// libcni cannot read it either.
func (r *cacheReader) arg() bool {
	if r.scan.peek() != '[' {
		r.odd = true
		return r.scan.value()
	}
	var pair [2][]byte
	n, good := 0, true
	ok := r.scan.array(func() bool {
		n++
		if n > len(pair) || r.scan.peek() != '"' {
			good = false
			return r.scan.value()
		}
		var ok bool
		pair[n-1], ok = r.scan.text()
		return ok
	})
	if !ok || !good || n != len(pair) {
		r.odd = true
		return ok
	}
	key, ok := plainText(pair[0])
	if !ok {
		s, _ := decodeText(pair[0])
		key = []byte(s)
	}
	switch string(key) {
	case "K8S_POD_UID":
		r.args[argUID].add(pair[1])
	case "K8S_POD_INFRA_CONTAINER_ID":
		r.args[argSandbox].add(pair[1])
	case "K8S_POD_NAMESPACE":
		r.args[argNamespace].add(pair[1])
	case "K8S_POD_NAME":
		r.args[argName].add(pair[1])
	}
	return true
}

// resultMember reads the interfaces of a result (0.3.0 and newer):
//
//	"interfaces":[{"name":"veth1fc745d3"},{"name":"eth0","sandbox":"/var/run/netns/cni-…"}]
func (r *cacheReader) resultMember(lit []byte) bool {
	if string(lit) != `"interfaces"` || r.scan.peek() != '[' {
		return r.scan.value()
	}
	return r.scan.array(func() bool {
		if r.scan.peek() != '{' {
			return r.scan.value()
		}
		return r.scan.object(func(lit []byte) bool {
			if string(lit) != `"sandbox"` || r.scan.peek() != '"' {
				return r.scan.value()
			}
			value, ok := r.scan.text()
			// Some plugins put other things here for interfaces of their own: only a
			// path names a namespace. A backslash may begin one.
			if ok && (value[1] == '/' || value[1] == '\\') {
				r.sandboxes.add(value)
			}
			return ok
		})
	})
}

func (r *cacheReader) isV1() bool {
	return r.values[keyKind].is("cniCacheV1")
}

// tie returns the file with the container, where the name and all of the content agree
// on one.
func (r *cacheReader) tie(name string) File {
	f := File{Kind: CacheV1}
	f.PodNamespace, f.PodName = podText(&r.args[argNamespace]), podText(&r.args[argName])
	switch {
	case r.twice:
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
func (r *cacheReader) tieName(name string, f *File) Untied {
	rest := name
	for _, part := range [...]struct {
		key   cniKey
		after string
		to    *string
	}{{keyNetwork, "-", &f.Network}, {keyContainerID, "-", &f.ContainerID}, {keyIfName, "", &f.IfName}} {
		lit := r.values[part.key].lit
		if lit == nil {
			return UntiedContent
		}
		value, ok := plainText(lit)
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
func (r *cacheReader) tieArgs(f *File) Untied {
	if sandbox := &r.args[argSandbox]; sandbox.lit != nil {
		if !sandbox.is(f.ContainerID) {
			return UntiedContradiction
		}
		f.Sandbox = true
	}
	if r.args[argUID].differ {
		return UntiedContradiction
	}
	if uid, ok := r.args[argUID].text(); ok {
		f.PodUID, _ = parsers.ParsePodUID(uid)
	}
	netns := r.values[keyNetNS]
	if r.sandboxes.lit != nil {
		netns.add(r.sandboxes.lit)
		netns.differ = netns.differ || r.sandboxes.differ
	}
	if netns.differ {
		return UntiedContradiction
	}
	if netns.lit == nil {
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
