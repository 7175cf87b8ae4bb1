package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// attachment is one sandbox's network, attached as a runtime and libcni do.
type attachment struct {
	s       *stream
	id      string
	netns   string // if it ends in "none", it is never made, and host-local is the only plugin
	unnamed bool   // libcni's cache has no pod, as before containerd 1.6
	files   map[string]string
}

func newID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func uidOf(id string) string {
	return id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:32]
}

func (a *attachment) real() bool { return !strings.HasSuffix(a.netns, "none") }

// add makes the namespace, runs ADD and writes the cache, in this order.
func (a *attachment) add() error {
	a.files = map[string]string{}
	plugin := "host-local"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if a.real() {
		plugin = "bridge"
		if out, err := exec.CommandContext(ctx, "ip", "netns", "add", filepath.Base(a.netns)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		result, err := runPlugin(ctx, "loopback", loopbackConf, "ADD", a.id, a.netns, "lo")
		if err != nil {
			return err
		}
		if err := a.writeCache("cni-loopback", "lo", loopbackConf, result); err != nil {
			return err
		}
	}
	var result []byte
	for {
		var err error
		result, err = runPlugin(ctx, plugin, a.s.ipam.conf(), "ADD", a.id, a.netns, "eth0")
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "no IP addresses available") {
			return err
		}
		a.s.full.Add(1)
		if _, err := runPlugin(ctx, plugin, a.s.ipam.conf(), "DEL", a.id, a.netns, "eth0"); err != nil { // as after every failed ADD
			return err
		}
		time.Sleep(20 * time.Millisecond) // until a sweep has freed addresses
	}
	a.s.adds.Add(1)
	given := addressesIn(result)
	if len(given) != 2 {
		return fmt.Errorf("ADD %s gave %v", a.id, given)
	}
	for _, address := range given {
		a.files[filepath.Join(a.s.ipam.dataDir, a.s.ipam.network, address)] = a.id + "\r\neth0"
	}
	return a.writeCache(a.s.ipam.network, "eth0", a.s.ipam.conf(), result)
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
	path := filepath.Join(a.s.cache, network+"-"+a.id+"-"+ifName)
	a.files[path] = string(b)
	return os.WriteFile(path, b, 0o600)
}

// end checks that everything exists, and then detaches it in a runtime's order.
func (a *attachment) end() error {
	var errs []error
	for path, text := range a.files {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			errs = append(errs, fmt.Errorf("lost by a living sandbox: %s contains %q, want %q: %w", path, b, text, err))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	plugin := "host-local"
	if a.real() {
		plugin = "bridge"
		_, err := runPlugin(ctx, "loopback", loopbackConf, "DEL", a.id, a.netns, "lo")
		errs = append(errs, err)
	}
	_, err := runPlugin(ctx, plugin, a.s.ipam.conf(), "DEL", a.id, a.netns, "eth0")
	errs = append(errs, err)
	a.s.dels.Add(1)
	for path := range a.files {
		if strings.HasPrefix(path, a.s.cache) {
			errs = append(errs, os.Remove(path))
		}
	}
	if a.real() {
		if out, err := exec.CommandContext(ctx, "ip", "netns", "delete", filepath.Base(a.netns)).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%w %s", err, out))
		}
	}
	a.s.runtime.drop(a.id)
	return errors.Join(errs...)
}
