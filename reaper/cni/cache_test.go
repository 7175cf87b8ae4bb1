package cni

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

const (
	boxID   = "02538aa466dd8640b990107e22f160c010b0e9bcf46b0b50f2e8b61d5818f8e6"
	otherID = "fffffaa466dd8640b990107e22f160c010b0e9bcf46b0b50f2e8b61d5818f8e6"
	podUID  = "6f1c2d3e-4a5b-4c6d-8e7f-00112233aa02"
	podNS   = "/var/run/netns/cni-05f97e31-df8a-4d5c-120b-e9e26d85e3ab"
)

type parseResult struct {
	V1, Broken, Sandbox                 bool
	Untied                              untied
	ContainerID, Network, IfName, NetNS string
	PodUID                              parsers.PodUID
	PodNamespace, PodName               string
}

func parsed(kind Kind, name string, content []byte) parseResult {
	f := File{Kind: kind, Dir: "/d", Name: name}
	why := f.parse(content)
	return parseResult{f.V1, f.Broken, f.Sandbox, why, f.Container, f.Network, f.IfName, f.NetNS, f.UID, f.Namespace, f.PodName}
}

func parsedCache(name string, content []byte) parseResult { return parsed(Cache, name, content) }

func parsedScratch(name string, content []byte) parseResult { return parsed(Multus, name, content) }

// recordedCNI returns a recorded cache file and its name.
func recordedCNI(tb testing.TB, ifname string) (string, []byte) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "recorded", "cni", ifname+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	network := map[string]string{"eth0": "labnet", "lo": "cni-loopback"}[ifname]
	return network + "-" + boxID + "-" + ifname, data
}

// libcniFile is the struct that libcni writes, with its fields in their order.
type libcniFile struct {
	Kind           string         `json:"kind"`
	ContainerID    string         `json:"containerId"`
	Config         []byte         `json:"config"`
	IfName         string         `json:"ifName"`
	NetworkName    string         `json:"networkName"`
	NetNS          string         `json:"netns,omitempty"`
	CniArgs        [][2]string    `json:"cniArgs,omitempty"`
	CapabilityArgs map[string]any `json:"capabilityArgs,omitempty"`
	RawResult      map[string]any `json:"result,omitempty"`
}

func (f *libcniFile) write(tb testing.TB) (string, []byte) {
	tb.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	return f.NetworkName + "-" + f.ContainerID + "-" + f.IfName, data
}

func podArgs() [][2]string {
	return [][2]string{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", "default"},
		{"K8S_POD_NAME", "two-labnode"},
		{"K8S_POD_INFRA_CONTAINER_ID", boxID},
		{"K8S_POD_UID", podUID},
	}
}

func newCNIFile() *libcniFile {
	return &libcniFile{Kind: "cniCacheV1", ContainerID: boxID, Config: []byte(`{"name":"n"}`), IfName: "eth0", NetworkName: "n", CniArgs: podArgs()}
}

func TestRecordedCNICaches(t *testing.T) {
	for ifname, network := range map[string]string{"eth0": "labnet", "lo": "cni-loopback"} {
		name, data := recordedCNI(t, ifname)
		want := parseResult{
			V1: true, ContainerID: boxID, Network: network, IfName: ifname, Sandbox: true,
			PodUID: podUID, PodNamespace: "default", PodName: "two-labnode", NetNS: podNS,
		}
		if got := parsedCache(name, data); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", ifname, got, want)
		}
		if !parsers.IsContainerID(want.ContainerID) {
			t.Error("no complete ID")
		}
	}
}

// TestCutOffCNICache cuts a recorded file at each byte: the rest is unreadable and tied by its name.
func TestCutOffCNICache(t *testing.T) {
	name, data := recordedCNI(t, "eth0")
	for n := range data {
		got := parsedCache(name, data[:n])
		want := parseResult{Broken: true, ContainerID: boxID, Network: "labnet", IfName: "eth0"}
		if got != want {
			t.Fatalf("cut at %d: %+v", n, got)
		}
	}
}

// TestChangedCNICache replaces each byte of a recorded file by some others: no change ties the file to another
// container, and only a change of the UID itself ties it to another pod.
func TestChangedCNICache(t *testing.T) {
	name, data := recordedCNI(t, "eth0")
	uidAt := bytes.Index(data, []byte(podUID))
	for i := range data {
		for _, c := range []byte("\"\\{}[],:a0-/\x00\xff ") {
			changed := bytes.Clone(data)
			changed[i] = c
			got := parsedCache(name, changed)
			if got.ContainerID != "" && got.ContainerID != boxID {
				t.Errorf("byte %d to %q: container %q", i, c, got.ContainerID)
			}
			if got.PodUID != "" && got.PodUID != podUID && (i < uidAt || i >= uidAt+len(podUID)) {
				t.Errorf("byte %d to %q: pod %q", i, c, got.PodUID)
			}
		}
	}
}

func TestCNICacheNames(t *testing.T) {
	for _, network := range []string{"n", "cni-loopback", "a-b.c_d", "10-net", otherID, "x-" + otherID} {
		for _, ifname := range []string{"eth0", "lo", "net-1", "eth0.100", "bond_0", "a-b-c-d", "veth-1234567890"} {
			f := newCNIFile()
			f.NetworkName, f.IfName = network, ifname
			name, data := f.write(t)
			got := parsedCache(name, data)
			if got.Untied != "" || got.ContainerID != boxID || got.Network != network || got.IfName != ifname {
				t.Errorf("%s: %+v", name, got)
			}
			empty := parsedCache(name, nil)
			if strings.HasPrefix(network, "x-") {
				// Two IDs between dashes: the name alone ties it to none.
				if empty.ContainerID != "" || empty.Untied != untiedName {
					t.Errorf("empty %s: %+v", name, empty)
				}
			} else if empty != (parseResult{Broken: true, ContainerID: boxID, Network: network, IfName: ifname}) {
				t.Errorf("empty %s: %+v", name, empty)
			}
		}
	}
	// The same file under other names: a prefix, a suffix, another ID, a copy.
	_, data := newCNIFile().write(t)
	for _, name := range []string{
		"", "-", boxID, "n-" + boxID, "n-" + boxID + "-", "n-" + boxID + "-eth", "n-" + boxID + "-eth00", "-" + boxID + "-eth0",
		"nn-" + boxID + "-eth0", "n-" + otherID + "-eth0", "n_" + boxID + "-eth0", "n-" + boxID + "_eth0", "n-" + boxID[:63] + "-eth0",
		"n-" + boxID + "-eth0.bak", ".n-" + boxID + "-eth0", "n-" + strings.ToUpper(boxID) + "-eth0",
	} {
		if got := parsedCache(name, data); got.ContainerID != "" || got.PodUID != "" || got.Untied != untiedName {
			t.Errorf("%q: %+v", name, got)
		}
	}
	for _, name := range []string{
		"", "-", boxID, "n-" + boxID, "n-" + boxID + "-", "-" + boxID + "-eth0", boxID + "-" + boxID, "n-" + boxID[:63] + "-eth0", "n-" + boxID + "0-eth0",
		"n-" + strings.ToUpper(boxID) + "-eth0", "n-" + boxID + "-" + boxID + "-eth0", "n-" + boxID + "-sixteen-bytes-xx", "n-" + boxID + "-..",
		"n-" + boxID + "-a b", "n_" + boxID + "_eth0",
	} {
		if got := parsedCache(name, nil); got != (parseResult{Broken: true, Untied: untiedName}) {
			t.Errorf("empty %q: %+v", name, got)
		}
	}
}

// TestCNIArgs checks files with several copies of a key, since multus adds its own.
func TestCNIArgs(t *testing.T) {
	const otherPod = "11111111-4a5b-4c6d-8e7f-00112233aa02"
	for _, test := range []struct {
		what   string
		more   [][2]string
		change func(*parseResult)
	}{
		{"multus' copies", podArgs(), func(*parseResult) {}},
		{"another UID", [][2]string{{"K8S_POD_UID", otherPod}}, func(f *parseResult) { f.Untied = untiedContradiction }},
		{"an empty UID", [][2]string{{"K8S_POD_UID", ""}}, func(f *parseResult) { f.Untied = untiedContradiction }},
		{"another sandbox", [][2]string{{"K8S_POD_INFRA_CONTAINER_ID", otherID}}, func(f *parseResult) { f.Untied = untiedContradiction }},
		{
			"another sandbox and back",
			[][2]string{{"K8S_POD_INFRA_CONTAINER_ID", otherID}, {"K8S_POD_INFRA_CONTAINER_ID", boxID}},
			func(f *parseResult) { f.Untied = untiedContradiction },
		},
		{"another name", [][2]string{{"K8S_POD_NAME", "other"}}, func(f *parseResult) { f.PodName = "" }},
		{"another namespace", [][2]string{{"K8S_POD_NAMESPACE", "other"}}, func(f *parseResult) { f.PodNamespace = "" }},
		{"other keys twice", [][2]string{{"MAC", "a"}, {"MAC", "b"}}, func(*parseResult) {}},
		{"a key in small letters", [][2]string{{"k8s_pod_uid", otherPod}}, func(*parseResult) {}},
	} {
		for seed := range uint64(20) {
			f := newCNIFile()
			f.CniArgs = append(f.CniArgs, test.more...)
			if seed > 0 {
				rand.New(rand.NewPCG(seed, 1)).Shuffle(len(f.CniArgs), func(i, j int) { f.CniArgs[i], f.CniArgs[j] = f.CniArgs[j], f.CniArgs[i] })
			}
			want := parseResult{
				V1: true, ContainerID: boxID, Network: "n", IfName: "eth0", Sandbox: true,
				PodUID: podUID, PodNamespace: "default", PodName: "two-labnode",
			}
			if test.change(&want); want.Untied != "" {
				want = parseResult{V1: true, Untied: want.Untied, PodNamespace: "default", PodName: "two-labnode"}
			}
			if got := parsedCache(f.write(t)); got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", test.what, got, want)
			}
		}
	}
}

// TestOtherWritersOfCNICaches checks files without a pod, a UID or a complete ID.
func TestOtherWritersOfCNICaches(t *testing.T) {
	podman := newCNIFile()
	podman.CniArgs = [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "web"}}
	if got := parsedCache(podman.write(t)); got.ContainerID != boxID || got.Sandbox || got.PodUID != "" {
		t.Errorf("podman: %+v", got)
	}
	old := newCNIFile()
	old.CniArgs = old.CniArgs[:4]
	if got := parsedCache(old.write(t)); got.ContainerID != boxID || !got.Sandbox || got.PodUID != "" || got.PodName != "two-labnode" {
		t.Errorf("containerd 1.5: %+v", got)
	}
	for _, uid := range []string{"lost+found", "../..", "", strings.ToUpper(podUID), podUID + "\n"} {
		f := newCNIFile()
		f.CniArgs[4][1] = uid
		if got := parsedCache(f.write(t)); got.ContainerID != boxID || got.PodUID != "" {
			t.Errorf("UID %q: %+v", uid, got)
		}
	}
	for _, name := range []string{"Web", "a b", "a/b", "a\x1b[2J", strings.Repeat("a", 254), ""} {
		f := newCNIFile()
		f.CniArgs[1][1], f.CniArgs[2][1] = name, name
		if got := parsedCache(f.write(t)); got.ContainerID != boxID || got.PodName != "" || got.PodNamespace != "" {
			t.Errorf("name %q: %+v", name, got)
		}
	}
	for id, good := range map[string]bool{
		"test1": true, "a.b_c-d": true, boxID[:12]: true, "a/b": false, "..": false, "-a": false, "a b": false,
		"a\nb": false, "é": false, `a"b`: false,
	} {
		f := newCNIFile()
		f.ContainerID, f.CniArgs[3][1] = id, id
		got := parsedCache(f.write(t))
		if good && (got.ContainerID != id || parsers.IsContainerID(got.ContainerID)) || !good && (got.ContainerID != "" || got.Untied != untiedContent) {
			t.Errorf("ID %q: %+v", id, got)
		}
	}
}

func TestCNICacheNetNS(t *testing.T) {
	face := func(sandbox ...any) map[string]any {
		list := []any{map[string]any{"name": "veth0"}}
		for _, s := range sandbox {
			list = append(list, map[string]any{"name": "eth0", "sandbox": s})
		}
		return map[string]any{"cniVersion": "1.0.0", "interfaces": list}
	}
	for _, test := range []struct {
		netns  string
		result map[string]any
		want   string
		untied untied
	}{
		{want: ""},
		{netns: podNS, want: podNS},
		{result: face(podNS), want: podNS},
		{netns: podNS, result: face(podNS, podNS), want: podNS},
		{netns: podNS, result: face("", "0", 5, nil), want: podNS},
		{netns: podNS, result: face("/run/netns/other"), untied: untiedContradiction},
		{result: face(podNS, "/run/netns/other"), untied: untiedContradiction},
		{netns: podNS, result: face("/run/netns/other", podNS), untied: untiedContradiction},
		{netns: "run/netns/x", untied: untiedContent},
		{netns: "/run/netns/x\x00", untied: untiedContent},
		{netns: "/run/netns/\xff", untied: untiedContent},
		{netns: "/" + strings.Repeat("x", 4096), untied: untiedContent},
	} {
		f := newCNIFile()
		f.NetNS, f.RawResult = test.netns, test.result
		got := parsedCache(f.write(t))
		if got.NetNS != test.want || got.Untied != test.untied {
			t.Errorf("%q %v: %+v", test.netns, test.result, got)
		}
	}
}
