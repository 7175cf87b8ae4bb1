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

// cacheDirs are the caches below a cache directory: libcni's own; that of the kubelet's
// dockershim and of cri-dockerd (--cni-cache-dir, kubernetes PR 78908); that of Multus since
// 3.7.2; and the delegates of Multus and flannel, in a file for each sandbox. They are read
// in this order.
var cacheDirs = [...]struct {
	kind  cni.Kind
	names []string
}{
	{cni.Flannel, []string{"flannel"}},
	{cni.Multus, []string{"multus"}},
	{cni.Cache, []string{"results"}},
	{cni.Cache, []string{"cache", "results"}},
	{cni.Cache, []string{"multus", "results"}},
}

func cacheDir(base string, kind cni.Kind, names []string) directory {
	return directory{kind, base, names, filepath.Join(base, filepath.Join(names...))}
}

// findDirs says what there is to read: the caches, and the networks that host-local has
// given addresses of.
func (s *Sweep) findDirs(ctx context.Context) {
	s.conf = s.r.readConfs(ctx)
	if errors.Is(s.conf.err, bounded.ErrHangs) || errors.Is(s.conf.err, bounded.ErrStuck) {
		s.complain(s.conf.err) // the process cannot end before that directory answers, so its name must be known
		s.conf.told = true
	}
	var bases []string
	for _, base := range slices.Concat(s.r.DataDirs, s.conf.dataDirs) {
		base = filepath.Clean(base)
		if !filepath.IsAbs(base) || slices.Contains(bases, base) {
			continue
		}
		bases = append(bases, base)
		networks, err := s.r.networks(ctx, base)
		s.complain(err)
		for _, name := range networks {
			s.dirs = append(s.dirs, directory{cni.Address, base, []string{name}, filepath.Join(base, name)})
		}
	}
	for _, c := range cacheDirs {
		for _, base := range s.r.CacheDirs {
			s.dirs = append(s.dirs, cacheDir(base, c.kind, c.names))
		}
	}
	s.count(ctx)
}

// Dirs returns the directories in and below which CNI keeps its files: those that were
// configured, and every dataDir that a network configuration names.
func (r *Reader) Dirs() []string {
	conf := r.readConfs(context.Background())
	return slices.Concat(r.CacheDirs, r.DataDirs, conf.dataDirs)
}

// mostNetworks bounds the networks of one data directory.
const mostNetworks = 10_000

// networks returns the names of host-local's networks, sorted.
func (r *Reader) networks(ctx context.Context, base string) ([]string, error) {
	type answer struct {
		names []string
		err   error
	}
	a, err := bounded.Do(ctx, r.Guard, "cni "+base, func() (a answer) {
		fd, err := openDirectory(r.Open, directory{base: base})
		if err != nil {
			return answer{err: err}
		}
		defer beneath.Close(fd)
		entries, err := beneath.List(fd, mostNetworks)
		a.err = err
		for _, d := range entries {
			// A symlink is listed, and told as one when it is opened.
			if d.Kind == unix.DT_DIR || d.Kind == unix.DT_UNKNOWN || d.Kind == unix.DT_LNK {
				a.names = append(a.names, d.Name)
			}
		}
		slices.Sort(a.names)
		return a
	})
	if err == nil {
		err = a.err
	}
	if err == nil || beneath.Gone(err) {
		return a.names, nil
	}
	return a.names, fmt.Errorf("cannot read the networks in %s: %w", clean.Name(base), err)
}

// skips says that a name is part of the store and no reservation or result.
func skips(d directory, e beneath.Entry) bool {
	switch d.kind {
	case cni.Address:
		return e.Name == "lock" || strings.HasPrefix(e.Name, "last_reserved_ip.")
	case cni.Multus:
		return e.Name == "results" && (e.Kind == unix.DT_DIR || e.Kind == unix.DT_UNKNOWN)
	case cni.Cache, cni.Flannel:
	}
	return false
}

// netConf is what the network configurations of the node name.
type netConf struct {
	networks map[string]bool
	dataDirs []string
	dirs     []string // that were read
	err      error    // why it may name more
	missing  error    // the directory is not there
	told     bool
}

const (
	mostConfs    = 1000
	mostDataDirs = 256
	longConf     = cni.MaxFile
)

// usualConfDirs are where distributions that bring their own runtime have the network
// configurations: K3s and RKE2, and MicroK8s.
var usualConfDirs = []string{
	"/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/rke2/agent/etc/cni/net.d", "/var/snap/microk8s/current/args/cni-network",
}

// confDirs are the directories of network configurations: the one that was named; else the
// usual one, those of distributions, and those that the runtime tells.
func (r *Reader) confDirs(ctx context.Context) []string {
	dirs := []string{r.ConfDir}
	if r.ConfDirSet {
		return dirs
	}
	var more []string
	for _, dir := range usualConfDirs {
		more = append(more, filepath.Join("/", r.NodeRoot, dir))
	}
	for _, dir := range append(more, r.toldConfDirs(ctx)...) {
		if dir = filepath.Clean(dir); filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// readConfs reads every configuration that libcni would (ConfFiles: .conf, .conflist and
// .json). Where no directory is there, that is an error: then nothing is known.
func (r *Reader) readConfs(ctx context.Context) netConf {
	all := netConf{networks: map[string]bool{}, dirs: r.confDirs(ctx)}
	var missing error
	read := 0
	for _, dir := range all.dirs {
		c, err := bounded.Do(ctx, r.Guard, "cni "+dir, func() netConf { return readConfDir(r.Open, dir) })
		if err != nil {
			c.err = err
		}
		switch {
		case c.missing != nil:
			missing = cmp.Or(missing, c.missing)
			continue
		case c.err != nil && all.err == nil:
			all.err = fmt.Errorf("cannot read the network configuration in %s: %w", clean.Name(dir), c.err)
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

// onNode is where a directory lies that a network configuration names, or host-local uses where that names none: below NodeRoot, as all
// that is usual. One that is named below it is meant so.
func (r *Reader) onNode(dir string) string {
	root := filepath.Join("/", r.NodeRoot)
	if dir = filepath.Clean(dir); root == "/" || !filepath.IsAbs(dir) || dir == root || strings.HasPrefix(dir, root+"/") {
		return dir
	}
	return filepath.Join(root, dir)
}

func readConfDir(o *beneath.Opener, dir string) netConf {
	c := netConf{networks: map[string]bool{}}
	fd, err := openDirectory(o, directory{base: dir})
	if beneath.Gone(err) {
		c.missing = err
		return c
	}
	if err != nil {
		c.err = err
		return c
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
	return c
}

// readAll reads the configurations of a directory; network is that of a list's folder. It
// returns the networks that name no plugin.
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
			continue // it names nothing
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

// readConf reads one configuration. It may be a symlink: libcni follows it, too, and the
// directory is the administrator's. O_NONBLOCK: a FIFO must not hold us.
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
	return beneath.ReadAll(fd, int64(min(st.Size, 1<<40)), longConf)
}
