package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The content of the machine. A file whose loss would be a disaster contains "precious".
const (
	podUID    = "2d1f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c99"
	container = "0af10af10af10af10af10af10af10af10af10af10af10af10af10af10af10af1"
	precious  = "precious\n"
)

var files = map[string]string{
	"/etc/cni/net.d/10-canary.conflist": `{"cniVersion":"1.0.0","name":"canary","plugins":[{"type":"bridge","ipam":{"type":"host-local",` +
		`"dataDir":"/var/lib/cni/networks","ranges":[[{"subnet":"10.99.0.0/16"}]]}}]}`,
	// A program that reads this fails: a test may not depend on this machine's configuration.
	"/etc/orphan-reaper/config.yaml":                                                           "this_is_the_machine_s_own: true\n",
	"/etc/kubernetes/manifests/static.yaml":                                                    precious,
	"/var/lib/cni/networks/canary/10.99.0.2":                                                   container + "\r\neth0",
	"/var/lib/cni/networks/canary/last_reserved_ip.0":                                          "10.99.0.2",
	"/var/lib/cni/networks/canary/lock":                                                        "",
	"/var/lib/kubelet/pods/" + podUID + "/etc-hosts":                                           precious,
	"/var/lib/kubelet/pods/" + podUID + "/volumes/kubernetes.io~empty-dir/data/file":           precious,
	"/var/lib/kubelet/pods/" + podUID + "/volumes/kubernetes.io~csi/pvc/mount/file":            precious,
	"/var/lib/kubelet/orphan-reaper/.keep":                                                     precious,
	"/var/lib/orphan-reaper/ledger.jsonl":                                                      precious,
	"/var/lib/prometheus/node-exporter/other.prom":                                             precious,
	"/var/log/pods/shop_db-0_" + podUID + "/db/0.log":                                          precious,
	"/var/log/messages":                                                                        precious,
	"/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + strings.Repeat("0", 64) + "/pid": "1",
	"/var/lib/cni/results/canary-" + container + "-eth0": `{"kind":"cniCacheV1","containerId":"` + container + `","ifName":"eth0","networkName":"canary",` +
		`"netns":"/run/netns/gone","cniArgs":[["K8S_POD_UID","` + podUID + `"],["K8S_POD_NAME","db-0"],["K8S_POD_NAMESPACE","shop"]],"result":{}}`,
}

// machine is the machine and its changes.
type machine struct {
	before  map[string]string
	inotify int
	watched map[int32]string
	streams net.Listener
	packets net.PacketConn

	mu   sync.Mutex
	seen []string
}

func newMachine(beneath string) (*machine, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, err
	}
	if err := ownTree(beneath); err != nil {
		return nil, err
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		old := time.Now().Add(-1000 * time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			return nil, err
		}
	}
	m := &machine{watched: map[int32]string{}}
	if err := errors.Join(netns("/run/netns/canary"), m.listen()); err != nil {
		return nil, err
	}
	var err error
	if m.before, err = look(); err != nil {
		return nil, err
	}
	return m, m.watch()
}

// trees are the directories with the machine's files. Other content of them remains visible, except in /run.
var trees = []string{"/etc", "/var/lib", "/var/log", "/run"}

// ownTree puts a tmpfs over each tree, with links to what is below it: a link needs no
// mount, and nothing of the machine beneath must be made for one.
func ownTree(beneath string) error {
	if err := unix.Mount("tmpfs", beneath, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	for _, tree := range trees {
		was := filepath.Join(beneath, filepath.Base(tree))
		if err := os.Mkdir(was, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(tree, was, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", tree, "tmpfs", 0, "mode=0755"); err != nil {
			return err
		}
		names, err := os.ReadDir(was)
		if err != nil {
			return err
		}
		for _, name := range names {
			path := filepath.Join(tree, name.Name())
			if tree == "/run" || slices.ContainsFunc(places(), func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }) {
				continue
			}
			if err := os.Symlink(filepath.Join(was, name.Name()), path); err != nil {
				return err
			}
		}
	}
	return nil
}

func places() (paths []string) {
	for path := range files {
		paths = append(paths, path)
	}
	return paths
}

// mounters is where mount(8) keeps what /proc/self/mountinfo does not have.
const mounters = "/run/mount"

// netns binds a network namespace, which no file of CNI claims.
func netns(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	return unix.Mount("/proc/self/ns/net", path, "", unix.MS_BIND, "")
}

// listen plays the machine's runtime and its journal. Neither answers: to connect to them
// is a fault.
func (m *machine) listen() (err error) {
	for _, dir := range []string{"/run/systemd/journal", "/run/lock", mounters} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if m.streams, err = net.Listen("unix", "/run/containerd/containerd.sock"); err != nil {
		return err
	}
	if m.packets, err = net.ListenPacket("unixgram", "/run/systemd/journal/socket"); err != nil {
		return err
	}
	go func() {
		for {
			c, err := m.streams.Accept()
			if err != nil {
				return
			}
			m.note("the runtime was connected to: " + m.streams.Addr().String())
			_ = c.Close()
		}
	}()
	go func() {
		text := make([]byte, 64<<10)
		for {
			n, _, err := m.packets.ReadFrom(text)
			if err != nil {
				return
			}
			m.note(fmt.Sprintf("the journal was written to: %.200q", text[:n]))
		}
	}()
	return nil
}

func (m *machine) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.seen, text) {
		m.seen = append(m.seen, text)
	}
}

// below calls each with the machine's own files and directories.
func below(each func(path string) error) error {
	for _, tree := range trees {
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type() == fs.ModeSymlink {
				return err
			}
			if path == mounters {
				return fs.SkipDir
			}
			return each(path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// look returns attributes, times and content of each file and directory.
func look() (map[string]string, error) {
	all := map[string]string{}
	return all, below(func(path string) error {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		text := ""
		if st.Mode&unix.S_IFMT == unix.S_IFREG && path != "/run/netns/canary" {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		all[path] = fmt.Sprintf("mode %o, owner %d:%d, inode %d, modified %d, changed %d, %d bytes: %.80q",
			st.Mode, st.Uid, st.Gid, st.Ino, st.Mtim.Nano(), st.Ctim.Nano(), st.Size, text)
		return nil
	})
}

// check returns the changes that the command made to the machine.
func (m *machine) check() error {
	m.readWatch()
	// All was sent before the command ended, so neither waits long.
	_ = m.packets.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	time.Sleep(100 * time.Millisecond)
	after, err := look()
	if err != nil {
		return err
	}
	for path, was := range m.before {
		switch now, there := after[path]; {
		case !there:
			m.note(path + " is gone")
		case now != was:
			m.note(path + " was " + was + "\n  and is " + now)
		}
	}
	for path := range after {
		if _, was := m.before[path]; !was {
			m.note(path + " is new")
		}
	}
	if len(m.seen) == 0 {
		return nil
	}
	slices.Sort(m.seen)
	return errors.New("the command has touched the machine that it ran on:\n  " + strings.Join(m.seen, "\n  "))
}
