package look

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

// netConf holds the networks that the node's configurations define.
type netConf struct {
	networks map[string]bool
	dataDirs []string
	dirs     []string // the directories that were read
	err      error    // why there may be more networks
	reported bool
}

const (
	mostConfs    = 1000
	mostDataDirs = 256
)

// usualConfDirs are the configuration directories of distributions with their own runtime: K3s, RKE2, MicroK8s, and
// OpenShift, whose CRI-O does not report its network_dir.
var usualConfDirs = []string{
	"/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/rke2/agent/etc/cni/net.d", "/var/snap/microk8s/current/args/cni-network",
	"/etc/kubernetes/cni/net.d",
}

// confDirs returns the directories of network configurations.
func (r *Reader) confDirs() []string {
	dirs := []string{r.ConfDir}
	if !r.ConfDirSet {
		for _, dir := range usualConfDirs {
			dirs = append(dirs, filepath.Join("/", r.NodeRoot, dir))
		}
	}
	return dirs
}

// readConfs reads every configuration that libcni would read (ConfFiles: .conf, .conflist and .json). It is an error
// if no directory exists.
func (r *Reader) readConfs(ctx context.Context) netConf {
	all := netConf{networks: map[string]bool{}, dirs: r.confDirs()}
	var missing error
	read := 0
	for _, dir := range all.dirs {
		c, err := bounded.Try(ctx, r.Guard, "cni "+dir, func() (netConf, error) { return r.readConfDir(dir) })
		if beneath.Gone(err) {
			missing = cmp.Or(missing, err)
			continue
		}
		if err = cmp.Or(err, c.err); err != nil && all.err == nil {
			all.err = fmt.Errorf("cannot read the network configuration in %s: %w", clean.Name(dir), err)
		}
		read++
		maps.Copy(all.networks, c.networks)
		for _, dir := range c.dataDirs {
			all.dataDirs = append(all.dataDirs, r.onNode(dir))
		}
	}
	if read == 0 && missing != nil {
		all.err = fmt.Errorf("cannot read the network configuration in %s: %w", clean.Name(all.dirs[0]), missing)
	}
	return all
}

// onNode returns the path below NodeRoot of a directory in a network configuration.
func (r *Reader) onNode(dir string) string {
	root := filepath.Join("/", r.NodeRoot)
	if dir = filepath.Clean(dir); root == "/" || !filepath.IsAbs(dir) || dir == root || strings.HasPrefix(dir, root+"/") {
		return dir
	}
	return filepath.Join(root, dir)
}

func (r *Reader) readConfDir(dir string) (netConf, error) {
	c := netConf{networks: map[string]bool{}}
	fd, err := r.openUsual(dir)
	if err != nil {
		return c, err
	}
	defer beneath.Close(fd)
	for _, name := range c.readAll(fd, "") {
		// A list may have its plugins in a folder of its name (libcni 1.3).
		below, err := beneath.Retry(func() (int, error) { return unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
		if err == nil {
			c.readAll(below, name)
			beneath.Close(below)
		} else {
			c.fail(name, err)
		}
	}
	return c, nil
}

// readAll reads the configurations of a directory, which is the folder of network unless that is "". It returns the
// networks whose configuration has no plugin.
func (c *netConf) readAll(dir int, network string) (folders []string) {
	entries, err := beneath.List(dir, mostConfs)
	c.fail(network, err)
	for _, d := range entries {
		switch filepath.Ext(d.Name) {
		case ".conf", ".conflist", ".json":
		default:
			continue
		}
		text, err := readConf(dir, d.Name)
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var networks []cni.Network
		if err == nil {
			networks, err = cni.ParseNetConf(text, network)
		}
		c.fail(d.Name, err)
		for _, n := range networks {
			c.networks[n.Name] = true
			if n.Folder {
				folders = append(folders, n.Name)
			}
			for _, dir := range n.DataDirs {
				switch {
				case slices.Contains(c.dataDirs, dir):
				case len(c.dataDirs) == mostDataDirs:
					c.fail(d.Name, fmt.Errorf("more than %d directories of host-local", mostDataDirs))
				default:
					c.dataDirs = append(c.dataDirs, dir)
				}
			}
		}
	}
	return folders
}

// fail keeps the first error.
func (c *netConf) fail(name string, err error) {
	if c.err == nil && err != nil && !beneath.Gone(err) {
		c.err = fmt.Errorf("%s: %w", clean.Name(name), err)
	}
}

// readConf reads one configuration. It follows a symlink, as libcni does; only the administrator can write to the
// directory. With O_NONBLOCK a FIFO does not block.
func readConf(dir int, name string) ([]byte, error) {
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("it is " + beneath.TypeName(st.Mode) + ", no regular file")
	}
	return beneath.ReadAll(fd, int64(min(st.Size, 1<<40)), cni.MaxFile)
}
