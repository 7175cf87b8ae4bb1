package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pluginDir is the directory of Debian's containernetworking-plugins.
const pluginDir = "/usr/lib/cni"

// ipamStore is a network whose addresses host-local allocates.
type ipamStore struct{ network, dataDir, ranges string }

// conf returns the network's configuration. The bridge makes nothing on the host but itself.
func (s ipamStore) conf() string {
	return fmt.Sprintf(`{"cniVersion": "0.4.0", "name": %[1]q, "type": "bridge", "bridge": %[1]q, "ipam":
  {"type": "host-local", "dataDir": %[2]q, "ranges": %[3]s}}`, s.network, s.dataDir, s.ranges)
}

func addressesIn(result []byte) (all []string) {
	var r struct{ IPs []struct{ Address string } }
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	for _, ip := range r.IPs {
		address, _, _ := strings.Cut(ip.Address, "/")
		all = append(all, address)
	}
	return all
}

// runPlugin calls a plugin as a runtime does.
func runPlugin(ctx context.Context, name, conf, command, id, netns, ifName string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(pluginDir, name))
	cmd.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + id, "CNI_NETNS=" + netns, "CNI_IFNAME=" + ifName, "CNI_PATH=" + pluginDir,
		"PATH=" + os.Getenv("PATH"),
	}
	cmd.Stdin = strings.NewReader(conf)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s %s: %w %s %s", name, command, id, err, &out, &stderr)
	}
	return out.Bytes(), nil
}

const loopbackConf = `{"cniVersion": "0.3.1", "name": "cni-loopback", "type": "loopback"}`

// cniStore is what lies in /var/lib/cni of a node, and the network whose addresses host-local allocates there.
type cniStore struct {
	dir  string
	ipam ipamStore
}

func newStore(dir, network, ranges string) cniStore {
	return cniStore{dir, ipamStore{network: network, dataDir: filepath.Join(dir, "networks"), ranges: ranges}}
}

// attachment is one sandbox's network, attached as a runtime and libcni do.
type attachment struct {
	cniStore
	id      string
	netns   string // if it ends in "none", it is never made, and host-local is the only plugin
	unnamed bool   // libcni's cache has no pod, as before containerd 1.6
	files   map[string]string
}

func (c cniStore) attachment(netns string) *attachment {
	return &attachment{cniStore: c, id: newID(), netns: netns, files: map[string]string{}}
}

var errFull = errors.New("the plugin has no address left")

func newID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func uidOf(id string) string {
	return id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:32]
}

func (a *attachment) real() bool { return !strings.HasSuffix(a.netns, "none") }

// add makes the namespace, runs ADD and writes the caches, in this order. It returns errFull if there is no address, and
// then nothing remains of it but the namespace and its loopback.
func (a *attachment) add() (addresses []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	plugin := a.plugin()
	if a.real() {
		if err := a.loopback(ctx); err != nil {
			return nil, err
		}
	}
	result, err := runPlugin(ctx, plugin, a.ipam.conf(), "ADD", a.id, a.netns, "eth0")
	if err != nil && strings.Contains(err.Error(), "no IP addresses available in range set") {
		_, failed := runPlugin(ctx, plugin, a.ipam.conf(), "DEL", a.id, a.netns, "eth0") // as after every failed ADD
		return nil, errors.Join(errFull, failed)
	}
	if err != nil {
		return nil, err
	}
	addresses = addressesIn(result)
	if len(addresses) != 2 {
		return nil, fmt.Errorf("ADD %s gave %v", a.id, addresses)
	}
	for _, address := range addresses {
		a.files[filepath.Join(a.ipam.dataDir, a.ipam.network, address)] = a.id + "\r\neth0"
	}
	return addresses, a.writeCache(a.ipam.network, "eth0", a.ipam.conf(), result)
}

func (a *attachment) plugin() string {
	if a.real() {
		return "bridge"
	}
	return "host-local"
}

// loopback makes the namespace and attaches its loopback, once.
func (a *attachment) loopback(ctx context.Context) error {
	if exists(a.netns) {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "ip", "netns", "add", filepath.Base(a.netns)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w %s", err, out)
	}
	result, err := runPlugin(ctx, "loopback", loopbackConf, "ADD", a.id, a.netns, "lo")
	if err != nil {
		return err
	}
	return a.writeCache("cni-loopback", "lo", loopbackConf, result)
}

// writeCache writes what libcni has written since 1.2, in place.
func (a *attachment) writeCache(network, ifName, conf string, result []byte) error {
	args := [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "e2e"}, {"K8S_POD_NAME", "p"}, {"K8S_POD_INFRA_CONTAINER_ID", a.id}}
	if !a.unnamed {
		args = append(args, [2]string{"K8S_POD_UID", uidOf(a.id)})
	}
	b, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": a.id, "config": []byte(conf), "ifName": ifName, "networkName": network,
		"cniArgs": args, "netns": a.netns, "result": json.RawMessage(result),
	})
	if err != nil {
		return err
	}
	return a.write("results", network+"-"+a.id+"-"+ifName, string(b))
}

// writeScratch writes what Multus and flannel keep of a sandbox for its DEL: the configurations of their delegates.
func (a *attachment) writeScratch() error {
	conf := a.ipam.conf()
	return errors.Join(a.write("flannel", a.id, conf), a.write("multus", a.id, `[{"Conf":`+conf+`,"IfnameRequest":"eth0"}]`))
}

func (a *attachment) write(dir, name, text string) error {
	path := filepath.Join(mkdirAll(filepath.Join(a.dir, dir)), name)
	a.files[path] = text
	return os.WriteFile(path, []byte(text), 0o600)
}

func (a *attachment) age(age time.Duration) error {
	return ageAll(slices.Collect(maps.Keys(a.files)), age)
}

func ageAll(paths []string, age time.Duration) error {
	then := time.Now().Add(-age)
	for _, path := range paths {
		if err := os.Chtimes(path, then, then); err != nil {
			return err
		}
	}
	return nil
}

// unharmed returns an error if a living sandbox has lost one of its files.
func unharmed(files map[string]string) error {
	var errs []error
	for path, text := range files {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			errs = append(errs, fmt.Errorf("lost by a living sandbox: %s contains %q, want %q: %w", path, b, text, err))
		}
	}
	return errors.Join(errs...)
}

// end checks that everything exists, and then detaches it in a runtime's order.
func (a *attachment) end() error {
	errs := []error{unharmed(a.files)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if a.real() {
		_, err := runPlugin(ctx, "loopback", loopbackConf, "DEL", a.id, a.netns, "lo")
		errs = append(errs, err)
	}
	_, err := runPlugin(ctx, a.plugin(), a.ipam.conf(), "DEL", a.id, a.netns, "eth0")
	errs = append(errs, err)
	for path := range a.files {
		if !strings.HasPrefix(path, a.ipam.dataDir) {
			errs = append(errs, os.Remove(path))
		}
	}
	if a.real() {
		if out, err := exec.CommandContext(ctx, "ip", "netns", "delete", filepath.Base(a.netns)).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%w %s", err, out))
		}
	}
	return errors.Join(errs...)
}
