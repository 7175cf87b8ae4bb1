package cni

import (
	"slices"
	"testing"
)

// TestConf has the forms of a network's configuration, and the number of addresses that host-local can give out of each.
func TestConf(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		keeper string
		sizes  []int64
	}{
		"a range set": {`{"name":"n","plugins":[{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}]]}},{"type":"portmap"}]}`, "", []int64{253}},
		"dual stack": {
			`{"name":"n","type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/25"}],[{"subnet":"fd00::/120"}]]}}`, "", []int64{125, 254},
		},
		"two ranges of a set": {
			`{"name":"n","type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/28"},{"subnet":"10.2.0.0/28"}]]}}`, "", []int64{26},
		},
		"the old form, with bounds": {
			`{"name":"n","type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/16","rangeStart":"10.1.0.10","rangeEnd":"10.1.0.19"}}`, "", []int64{10},
		},
		"a gateway in the range": {
			`{"name":"n","type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/16","rangeStart":"10.1.0.10","rangeEnd":"10.1.0.19","gateway":"10.1.0.10"}}`, "", []int64{9},
		},
		"a whole IPv6 subnet": {`{"name":"n","type":"ptp","ipam":{"type":"host-local","subnet":"fd00::/48"}}`, "", []int64{1<<63 - 1}},
		"nonsense":            {`{"name":"n","type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0"}}`, "", nil},
		"flannel":             {`{"name":"n","plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}}]}`, "", nil},
		"Calico":              {`{"name":"n","plugins":[{"type":"calico","ipam":{"type":"calico-ipam"}},{"type":"portmap"}]}`, "calico-ipam", nil},
		"Cilium":              {`{"name":"n","plugins":[{"type":"cilium-cni"}]}`, "cilium-cni", nil},
		"whereabouts by Multus": {
			`{"name":"m","type":"multus","delegates":[{"name":"n","type":"macvlan","ipam":{"type":"whereabouts"}}]}`, "whereabouts", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write("conf/00-first.conf", c.text)
			conf := readConfs(n.path("conf"))
			got := conf.networks["n"]
			var sizes []int64
			for _, set := range got.sets {
				sizes = append(sizes, set.size)
			}
			if got.keeper != c.keeper || !slices.Equal(sizes, c.sizes) || !slices.Contains(conf.loaded, "n") || slices.Contains(conf.loaded, "cbr0") {
				t.Errorf("%+v, loaded %v", got, conf.loaded)
			}
			if _, ok := conf.networks["cbr0"]; !ok || conf.problem != nil {
				t.Errorf("the other network is lost: %v", conf.problem)
			}
			n.leak("gone", "10.244.0.7")
			for _, net := range n.sweep().Networks {
				if net.Name == "n" && net.Keeper != c.keeper {
					t.Errorf("%+v", net)
				}
			}
		})
	}
}

// TestFullSecondFamily: a dual-stack network is full if one of its families is, and the numbers are those of this one.
func TestFullSecondFamily(t *testing.T) {
	n := newNode(t)
	n.write("conf/00-first.conf", `{"name":"n","type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/126"}]]}}`)
	for _, addr := range []string{"10.1.0.2", "fd00::2", "fd00::3"} {
		n.address("n", addr, idOf("living"))
	}
	for _, net := range n.sweep().Networks {
		if net.Name == "n" && (!net.Full || net.Size != 2 || net.Used != 2) {
			t.Errorf("%+v", net)
		}
	}
}

// TestDataDir: addresses in another directory of host-local are found by the configuration.
func TestDataDir(t *testing.T) {
	n := newNode(t)
	n.write("conf/00-first.conf", `{"name":"n","type":"ptp","ipam":{"type":"host-local","dataDir":"`+n.path("data")+`"}}`)
	n.write("conf/20-odd.conf", `{"name":"..","type":"ptp","ipam":{"type":"host-local","dataDir":"`+n.path("data/n")+`"}}`)
	gone := n.write("data/n/10.1.0.9", idOf("gone"))
	kept := n.write("data/10.1.0.9", idOf("gone"))
	n.sweep()
	n.wantGone([]string{gone, kept}, []string{gone})
}
