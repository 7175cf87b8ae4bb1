package program

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// network is a bridge network whose addresses host-local keeps.
type network struct {
	name   string
	conf   string
	subnet netip.Prefix
	last   netip.Addr // the last address that was given
}

// addNetwork makes the configuration of a network: 10.88.0.0/24 for the first, with more addresses where the pods of FILE
// need them.
func (n *node) addNetwork(name string) (*network, error) {
	if net := n.networks[name]; net != nil {
		return net, nil
	}
	need, bits := 4, 24 // network, gateway and broadcast address
	for _, spec := range n.Pods {
		if spec.Network == name {
			need++
		}
	}
	for need > 1<<(32-bits) {
		bits--
	}
	first := netip.AddrFrom4([4]byte{10, byte(88 + len(n.networks)), 0, 0})
	net := &network{name: name, subnet: netip.PrefixFrom(first, bits), last: first.Next()}
	net.conf = fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,`+
		`"ipam":{"type":"host-local","ranges":[[{"subnet":%q}]]}}]}`, name, net.subnet)
	dir := n.cni + "/networks/" + name
	conf := fmt.Sprintf("%s/%d-%s.conflist", n.cniConf, 10+len(n.networks), name)
	for path, text := range map[string]string{conf: net.conf, dir + "/lock": ""} {
		if err := writeFile(path, text, 0o640); err != nil {
			return nil, err
		}
	}
	n.networks[name] = net
	return net, nil
}

// addNetworkFiles makes what CNI plugins keep of the pod's sandbox: libcni's results, host-local's address, and the files
// of Multus and flannel.
func (n *node) addNetworkFiles(p *pod, old bool) error {
	net, err := n.addNetwork(p.Network)
	if err != nil {
		return err
	}
	if net.last = net.last.Next(); !net.subnet.Contains(net.last.Next()) {
		return fmt.Errorf("%s has no address left in %s", net.name, net.subnet)
	}
	id, address := p.sandboxID, net.last.String()
	netns := "/var/run/netns/cni-" + p.sandboxID[:8] + "-df8a-4d5c-120b-e9e26d85e3ab"
	files := map[string]string{
		"results/" + net.name + "-" + id + "-eth0":     p.result(net.name, net.conf, "eth0", netns, address+"/"+fmt.Sprint(net.subnet.Bits())),
		"results/cni-loopback-" + id + "-lo":           p.result("cni-loopback", `{"cniVersion":"0.3.1","name":"cni-loopback","plugins":[{"type":"loopback"}]}`, "lo", netns, "127.0.0.1/8"),
		"networks/" + net.name + "/" + address:         id + "\r\neth0",
		"networks/" + net.name + "/last_reserved_ip.0": address,
		"multus/" + id:  `[{"Conf":{"cniVersion":"1.0.0","name":"` + net.name + `","type":"bridge"},"masterPlugin":true}]`,
		"flannel/" + id: `{"cniVersion":"1.0.0","name":"` + net.name + `","type":"bridge","mtu":1450,"ipam":{"type":"host-local"}}`,
	}
	at := unix.NsecToTimespec(time.Now().Add(-age).UnixNano())
	for rel, text := range files {
		path := filepath.Join(n.cni, rel)
		if err := writeFile(path, text, 0o600); err != nil {
			return err
		}
		if old {
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, 0); err != nil {
				return err
			}
		}
	}
	if p.sandbox != sandboxReady {
		return nil
	}
	return writeFile(netns, "", 0o444) // a real one is a mount of nsfs
}

// result returns libcni's cache of one attachment (libcni/api.go, cachedInfo).
func (p *pod) result(network, conf, ifName, netns, address string) string {
	text, _ := json.Marshal(map[string]any{ // it has no errors
		"kind": "cniCacheV1", "containerId": p.sandboxID, "config": base64.StdEncoding.EncodeToString([]byte(conf)),
		"ifName": ifName, "networkName": network, "netns": netns,
		"cniArgs": [][2]string{
			{"IgnoreUnknown", "1"},
			{"K8S_POD_NAMESPACE", namespace},
			{"K8S_POD_NAME", p.Name},
			{"K8S_POD_INFRA_CONTAINER_ID", p.sandboxID},
			{"K8S_POD_UID", p.UID},
		},
		"result": map[string]any{
			"cniVersion": "1.0.0", "dns": map[string]string{},
			"interfaces": []map[string]string{{"name": ifName, "sandbox": netns}},
			"ips":        []map[string]any{{"address": address, "interface": 0}},
		},
	})
	return string(text)
}
