package cni

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"path"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// FuzzCache compares with encoding/json: a file is unreadable if and only if it is not JSON, and a tie has only
// values that encoding/json finds, all copies of them, and those in the name.
func FuzzCache(f *testing.F) {
	for _, ifname := range []string{"eth0", "lo"} {
		name, data := recordedCNI(f, ifname)
		f.Add(name, data)
		f.Add(name, data[:len(data)/2])
	}
	file := newCNIFile()
	file.NetNS = podNS
	file.CniArgs = append(podArgs(), podArgs()...)
	name, data := file.write(f)
	f.Add(name, data)
	f.Add(name, append([]byte(`{"Kind":"x","containerId":"\ud800",`), data[1:]...))
	f.Add(name, []byte(`{"cniVersion":"0.3.1","dns":{},"x":[1.5e+3,-0,true,null,"\u00e9\n"]}`))
	f.Add("a-b-c", []byte(`{"kind":"cniCacheV1","containerId":"b","ifName":"c","networkName":"a"}`))
	f.Add(boxID, []byte("[]"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		got := parsedCache(name, content)
		consistent(t, name, got)
		scratch := parsedScratch(name, content)
		consistent(t, name, scratch)
		for _, g := range []parseResult{got, scratch} {
			if g.Untied != untiedSize && g.Broken == json.Valid(content) {
				t.Errorf("broken %v: %q", g.Broken, content)
			}
			if g.Untied == untiedSize && len(content) <= MaxFile && bytes.Count(content, []byte("["))+bytes.Count(content, []byte("{")) <= maxDepth {
				t.Errorf("unreadable, but neither long nor deep: %q", content)
			}
		}
		if got.V1 && got.Untied == "" {
			sameAsJSON(t, content, got)
		}
		// The same content with the name that libcni would use.
		var file libcniFile
		if json.Unmarshal(content, &file) != nil || file.Kind != "cniCacheV1" {
			return
		}
		name = file.NetworkName + "-" + file.ContainerID + "-" + file.IfName
		got = parsedCache(name, content)
		consistent(t, name, got)
		if got.Untied == "" {
			sameAsJSON(t, content, got)
		}
	})
}

// consistent reports combinations that no content may produce.
func consistent(t *testing.T, name string, f parseResult) {
	t.Helper()
	if (f.Untied == "") != (f.ContainerID != "") {
		t.Errorf("tied and untied: %+v", f)
	}
	if f.Untied != "" {
		f.V1, f.Broken, f.Untied, f.PodNamespace, f.PodName = false, false, "", "", ""
		if f != (parseResult{}) {
			t.Errorf("untied, but %+v", f)
		}
		return
	}
	if f.Network+"-"+f.ContainerID+"-"+f.IfName != name && (f.ContainerID != name || f.Network != "" || f.IfName != "") {
		t.Errorf("%q is tied to %+v", name, f)
	}
	if !IsName(f.ContainerID) || strings.ContainsAny(f.ContainerID, "/\x00\n ") {
		t.Errorf("ID %q", f.ContainerID)
	}
	if !f.V1 && (!parsers.IsContainerID(f.ContainerID) || f.PodUID != "" || f.Sandbox || f.NetNS != "" || f.PodName != "" || f.PodNamespace != "") {
		t.Errorf("tied by its name alone: %+v", f)
	}
	if uid, ok := parsers.ParsePodUID(string(f.PodUID)); f.PodUID != "" && (!ok || uid != f.PodUID) {
		t.Errorf("UID %q", f.PodUID)
	}
}

// sameAsJSON compares f with what encoding/json parses from the same content.
func sameAsJSON(t *testing.T, content []byte, f parseResult) {
	t.Helper()
	var want struct {
		Kind, ContainerID, IfName, NetworkName, NetNS string
		CniArgs                                       [][]string
		Result                                        json.RawMessage
	}
	if err := json.Unmarshal(content, &want); err != nil {
		t.Errorf("tied, but encoding/json returns %v: %q", err, content)
		return
	}
	if want.Kind != "cniCacheV1" || want.ContainerID != f.ContainerID || want.IfName != f.IfName || want.NetworkName != f.Network {
		t.Errorf("%+v, but encoding/json parses %+v", f, want)
	}
	if want.NetNS != "" && want.NetNS != f.NetNS {
		t.Errorf("namespace %q, want %q", f.NetNS, want.NetNS)
	}
	sandbox, uid := false, false
	for _, pair := range want.CniArgs {
		if len(pair) != 2 {
			t.Errorf("pair of %d values", len(pair))
			continue
		}
		switch pair[0] {
		case "K8S_POD_INFRA_CONTAINER_ID":
			sandbox = true
			if pair[1] != f.ContainerID {
				t.Errorf("%+v, but sandbox %q", f, pair[1])
			}
		case "K8S_POD_UID":
			want, ok := parsers.ParsePodUID(pair[1])
			uid = uid || ok
			if f.PodUID != "" && want != f.PodUID || f.PodUID == "" && ok {
				t.Errorf("%+v, but UID %q", f, pair[1])
			}
		case "K8S_POD_NAME":
			if f.PodName != "" && f.PodName != pair[1] {
				t.Errorf("%+v, but name %q", f, pair[1])
			}
		case "K8S_POD_NAMESPACE":
			if f.PodNamespace != "" && f.PodNamespace != pair[1] {
				t.Errorf("%+v, but namespace %q", f, pair[1])
			}
		}
	}
	if sandbox != f.Sandbox || uid != (f.PodUID != "") {
		t.Errorf("%+v, but args %q", f, want.CniArgs)
	}
}

// FuzzHostLocal checks that a reservation is tied only by values that the plugin itself, or a fork, would compare.
func FuzzHostLocal(f *testing.F) {
	f.Add("10.0.0.1", []byte(boxID+"\r\neth0"))
	f.Add("2001:db8::1", []byte(boxID))
	f.Add("::ffff:1.2.3.4", []byte(boxID+"\neth0\n"))
	f.Add("lock", []byte(""))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		got := parsed(Address, name, content)
		if (got.Untied == "") != (got.ContainerID != "") {
			t.Errorf("tied and untied: %+v", got)
		}
		if got.ContainerID == "" {
			return
		}
		text := strings.TrimSpace(string(content))
		one := text == got.ContainerID && got.IfName == "" && parsers.IsContainerID(text)
		two := got.IfName != "" && (text == got.ContainerID+"\r\n"+got.IfName || text == got.ContainerID+"\n"+got.IfName)
		if addr, err := netip.ParseAddr(name); err != nil || addr.Zone() != "" || !one && !two {
			t.Errorf("%q, %q: %+v", name, content, got)
		}
	})
}

// FuzzNetConf checks that every network's name is one path component and that every dataDir is an absolute path.
func FuzzNetConf(f *testing.F) {
	f.Add([]byte(`{"name":"n","type":"multus","delegates":[{"name":"m","plugins":[{"type":"flannel","delegate":{}}],"disableGC":"true"}]}`), "")
	f.Add([]byte(`{"type":"bridge","ipam":{"type":"host-local","dataDir":"/d"}}`), "n")
	f.Fuzz(func(t *testing.T, content []byte, network string) {
		nets, err := ParseNetConf(content, network)
		if (err == nil) != (len(nets) > 0) {
			t.Errorf("%+v, %v", nets, err)
		}
		seen := map[string]bool{}
		for _, n := range nets {
			if !IsName(n.Name) || seen[n.Name] {
				t.Errorf("network %q", n.Name)
			}
			seen[n.Name] = true
			for _, dir := range n.DataDirs {
				if dir != path.Clean(dir) || !path.IsAbs(dir) {
					t.Errorf("dataDir %q", dir)
				}
			}
		}
	})
}
