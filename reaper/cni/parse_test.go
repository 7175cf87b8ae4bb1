package cni

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded returns cache files that containerd's libcni has written, by name.
func recorded(tb testing.TB) map[string][]byte {
	tb.Helper()
	const id = "02538aa466dd8640b990107e22f160c010b0e9bcf46b0b50f2e8b61d5818f8e6"
	files := map[string][]byte{}
	for ifName, network := range map[string]string{"eth0": "labnet", "lo": "cni-loopback"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "recorded", "cni", ifName+".json"))
		must(tb, err)
		files[network+"-"+id+"-"+ifName] = text
	}
	return files
}

// TestRecorded reads recorded files, also cut at each byte, and with each byte replaced: no change makes one another
// sandbox's.
func TestRecorded(t *testing.T) {
	for name, text := range recorded(t) {
		whole := parse(cache, name, text)
		if !whole.known || !whole.kubelet || whole.broken || len(whole.uids) != 1 || len(whole.netns) == 0 {
			t.Fatalf("%+v", whole)
		}
		for i := range text {
			cut := parse(cache, name, text[:i])
			if !cut.known || !cut.broken || cut.id != whole.id || cut.kubelet {
				t.Fatalf("cut at %d: %+v", i, cut)
			}
			for _, c := range []byte("\"\\{}[],:a0-/\x00\xff ") {
				changed := bytes.Clone(text)
				changed[i] = c
				if got := parse(cache, name, changed); got.known && got.id != whole.id {
					t.Fatalf("byte %d to %q: %+v", i, c, got)
				}
			}
		}
	}
}

// TestNames has names of cache files. Those of networks and interfaces may contain dashes and IDs.
func TestNames(t *testing.T) {
	id, other := idOf("gone"), idOf("other")
	for _, network := range []string{"n", "a-b.c_d", other, "x-" + other} {
		for _, ifName := range []string{"eth0", "net-1", "eth0.100", "a-b-c-d"} {
			name := network + "-" + id + "-" + ifName
			got := parse(cache, name, []byte(cacheText(network, id, ifName, deadUID, "")))
			if !got.known || got.id.String() != id || got.network != network || got.ifName != ifName {
				t.Errorf("%s: %+v", name, got)
			}
			// Without content, two IDs between dashes are one too many.
			if empty := parse(cache, name, nil); empty.known == strings.HasPrefix(network, "x-") || empty.known && empty.id.String() != id {
				t.Errorf("empty %s: %+v", name, empty)
			}
		}
	}
	text := []byte(cacheText("n", id, "eth0", deadUID, ""))
	for _, name := range []string{
		"", "-", id, "n-" + id, "n-" + id + "-", "n-" + id + "-eth", "-" + id + "-eth0", "n-" + other + "-eth0", "n-" + id[:63] + "-eth0",
		"n-" + id + "-eth0.bak", "n-" + strings.ToUpper(id) + "-eth0",
	} {
		if got := parse(cache, name, text); got.known || got.contradiction == "" {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

// TestContradictions: a file that contradicts itself, or that no known writer writes, belongs to no sandbox.
func TestContradictions(t *testing.T) {
	id := idOf("gone")
	name := "n-" + id + "-eth0"
	good := cacheText("n", id, "eth0", deadUID, "/run/netns/x")
	for what, text := range map[string]string{
		"another sandbox":          strings.Replace(good, `"cniArgs":[`, `"cniArgs":[["K8S_POD_INFRA_CONTAINER_ID","`+idOf("other")+`"],`, 1),
		"another kind":             strings.Replace(good, "cniCacheV1", "cniCacheV2", 1),
		"another type of a value":  strings.Replace(good, `"ifName":"eth0"`, `"ifName":7`, 1),
		"a list":                   `["x"]`,
		"another network":          strings.Replace(good, `"networkName":"n"`, `"networkName":"m"`, 1),
		"an ID of another length":  strings.Replace(good, `"containerId":"`+id, `"containerId":"`+id[:12], 1),
		"no ID, and another's key": `{"kind":"x"}`,
	} {
		if got := parse(cache, name, []byte(text)); got.known || got.contradiction == "" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	old := parse(cache, name, []byte(`{"cniVersion":"0.3.1","ips":[{"address":"10.244.0.7/24"}]}`)) // libcni 0.7
	if !old.known || old.kubelet || old.broken {
		t.Errorf("%+v", old)
	}
	for text, want := range map[string]string{
		id: id, id + "\r\neth0": id, id + "\neth0": id, " " + id + "\r\neth0\r\n": id,
		id[:63]: "", id + "0": "", strings.ToUpper(id): "", id + " eth0": "", "podman-1\r\neth0": "",
	} {
		if got := parse(address, "10.244.0.7", []byte(text)); got.known != (want != "") || got.broken || got.known && got.id.String() != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// FuzzParse: a file is a sandbox's only if its ID is in the name, or in an address file's content.
func FuzzParse(f *testing.F) {
	for name, text := range recorded(f) {
		f.Add(uint8(cache), name, text)
	}
	id := idOf("gone")
	f.Add(uint8(multus), id, []byte(`[{"Conf":{"name":"cbr0"},"ConfList":{}},{"name":"x"}]`))
	f.Add(uint8(flannel), id, []byte(`{"name":"cbr0","type":"bridge"}`))
	f.Add(uint8(address), "10.244.0.7", []byte(id+"\r\neth0"))
	f.Fuzz(func(t *testing.T, k uint8, name string, text []byte) {
		k %= uint8(len(kindNames))
		c := parse(kind(k), name, text)
		in := name
		if kind(k) == address {
			in = string(text)
		}
		if c.known == (c.contradiction != "") && !c.broken || c.known && !strings.Contains(in, c.id.String()) {
			t.Errorf("%+v", c)
		}
		if c.kubelet && !bytes.Contains(text, []byte("K8S_POD_INFRA_CONTAINER_ID")) && !bytes.Contains(text, []byte(`\u`)) {
			t.Errorf("%+v", c)
		}
		if kind(k) == cache && c.known && c.network+"-"+c.id.String()+"-"+c.ifName != name {
			t.Errorf("another name: %+v", c)
		}
	})
}
