package cni

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseNetConf(t *testing.T) {
	for what, test := range map[string]struct {
		content, network string
		want             []Network
	}{
		"a list": {
			content: `{"cniVersion":"0.4.0","name":"labnet","plugins":[{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.0.0/24"}]]}},{"type":"portmap","capabilities":{"portMappings":true}}]}`,
			want:    []Network{{Name: "labnet", DataDirs: []string{HostLocalDir}}},
		},
		"one plugin": {
			content: `{"cniVersion":"0.3.1","name":"a-b.c_d","type":"ptp","ipam":{"type":"host-local","dataDir":"/run/cni/../ipam/"}}`,
			want:    []Network{{Name: "a-b.c_d", DataDirs: []string{"/run/ipam"}}},
		},
		"another IPAM": {
			content: `{"name":"calico","plugins":[{"type":"calico","ipam":{"type":"calico-ipam","dataDir":"relative"}}]}`,
			want:    []Network{{Name: "calico"}},
		},
		"no IPAM": {
			content: `{"name":"lo","plugins":[{"type":"loopback","ipam":{}}]}`,
			want:    []Network{{Name: "lo"}},
		},
		"flannel": {
			content: `{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel","delegate":{"hairpinMode":true,"isDefaultGateway":true}},{"type":"portmap"}]}`,
			want:    []Network{{Name: "cbr0", DataDirs: []string{HostLocalDir}}},
		},
		"flannel with a dataDir": {
			content: `{"name":"cbr0","type":"flannel","ipam":{"dataDir":"/run/ipam"},"delegate":{"type":"ipvlan"}}`,
			want:    []Network{{Name: "cbr0", DataDirs: []string{"/run/ipam"}}},
		},
		"multus": {
			content: `{"name":"multus-cni-network","type":"multus","kubeconfig":"/x","delegates":[
				{"name":"labnet","plugins":[{"type":"bridge","name":"ignored","ipam":{"type":"host-local"}}]},
				{"name":"macvlan","type":"macvlan","ipam":{"type":"host-local","dataDir":"/run/ipam"}},
				{"type":"sriov","ipam":{"type":"whereabouts"}}]}`,
			want: []Network{
				{Name: "multus-cni-network"},
				{Name: "labnet", DataDirs: []string{HostLocalDir}},
				{Name: "macvlan", DataDirs: []string{"/run/ipam"}},
			},
		},
		"two of the same IPAM, and another": {
			content: `{"name":"n","plugins":[{"type":"a","ipam":{"type":"host-local"}},{"type":"b","ipam":{"type":"host-local","dataDir":"/var/lib/cni/networks/"}},{"type":"c","ipam":{"type":"host-local","dataDir":"/d"}}]}`,
			want:    []Network{{Name: "n", DataDirs: []string{HostLocalDir, "/d"}}},
		},
		"plugins in a folder": {content: `{"name":"n","cniVersion":"1.1.0"}`, want: []Network{{Name: "n", Folder: true}}},
		"a folder's plugin": {
			content: `{"type":"bridge","name":"x","ipam":{"type":"host-local"}}`, network: "n",
			want: []Network{{Name: "n", DataDirs: []string{HostLocalDir}}},
		},
	} {
		got, err := ParseNetConf([]byte(test.content), test.network)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", what, got, err, test.want)
		}
	}
}

func TestBadNetConf(t *testing.T) {
	for content, want := range map[string]string{
		"":                                 "unexpected end",
		"null":                             "null where",
		"[]":                               "cannot unmarshal",
		`{"name":"n"`:                      "unexpected end",
		`{"name":"n"}x`:                    "invalid character",
		"\ufeff" + `{"name":"n"}`:          "invalid character",
		`{}`:                               "no network name",
		`{"type":"bridge"}`:                "no network name",
		`{"name":7,"type":"bridge"}`:       "cannot unmarshal",
		`{"name":"../x","type":"bridge"}`:  `network name "../x"`,
		`{"name":"..","type":"bridge"}`:    `network name ".."`,
		`{"name":"a/b","type":"bridge"}`:   `network name "a/b"`,
		`{"name":"n","plugins":{}}`:        "cannot unmarshal",
		`{"name":"n","plugins":[null]}`:    "null where",
		`{"name":"n","plugins":["x"]}`:     "cannot unmarshal",
		`{"name":"n","ipam":"host-local"}`: "cannot unmarshal",
		`{"name":"n","delegates":[{"name":"a b"}]}`:                                    `network name "a b"`,
		`{"name":"n","ipam":{"type":"host-local","dataDir":"d"}}`:                      `dataDir "d"`,
		`{"name":"n","ipam":{"type":"host-local","dataDir":"/\u0000"}}`:                "absolute path",
		`{"name":"n","x":` + strings.Repeat("[", 1e6) + `}`:                            "nested deeper than 64",
		strings.Repeat(`{"name":"n","delegate":`, 12) + "{}" + strings.Repeat("}", 12): "delegates nested deeper than 8",
		`{"name":"n"}` + strings.Repeat(" ", MaxFile):                                  "longer than",
	} {
		got, err := ParseNetConf([]byte(content), "")
		if err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%.60q: %+v, %v", content, got, err)
		}
	}
}
