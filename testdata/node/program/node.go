package program

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
)

// node is the node. Its methods that change it need mu.
type node struct {
	config
	root, cni, cniConf, logDir string
	own                        string // a tmpfs with what only the node itself uses
	log, ctl                   string
	cgroups                    cgroups

	mu         sync.Mutex
	pods       []*pod
	kubelet    *kubeletProcess // nil if it does not run
	others     []*kubeletProcess
	level      int // the kubelet's -v
	podsAPI    string
	offset     float64 // seconds that the node's clock is ahead of the machine's
	runtime    runtimeMode
	server     *fakecri.Server
	second     *fakecri.Server
	secondHung bool
	sink       *journal.Sink
	networks   map[string]*network
}

func runControl() int {
	var c config
	if err := json.NewDecoder(os.NewFile(3, "config")).Decode(&c); err != nil {
		return fail(fmt.Errorf("cannot read the configuration: %w", err))
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	n := newNode(c)
	if err := n.make(); err != nil {
		return fail(fmt.Errorf("cannot make the node: %w", err))
	}
	return n.run(signals)
}

func newNode(c config) *node {
	n := &node{
		config: c, root: c.Dir + "/kubelet", cni: c.Dir + "/cni", cniConf: c.Dir + "/net.d", logDir: c.Dir + "/log",
		own: c.Dir + "/node", ctl: c.Dir + "/ctl", level: 2, podsAPI: kubelet.PodsAPIOn, networks: map[string]*network{},
	}
	n.log = n.logDir + "/kubelet.log"
	if c.Log == "syslog" {
		n.log = n.logDir + "/messages"
	}
	n.cgroups = cgroups{v1: c.Cgroup == "v1"}
	return n
}

// make makes the node, with the pods and the first sweep of its kubelet.
func (n *node) make() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, step := range []func() error{n.mounts, n.links, n.cgroups.make, n.startLog, n.makePods, n.startRuntime} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := n.kubeletStart(); err != nil {
		return err
	}
	if err := setAges(n.pods); err != nil {
		return err
	}
	return n.watch()
}

func (n *node) startLog() (err error) {
	n.sink, err = journal.New(n.Log, n.log, n.logDir)
	return err
}

func (n *node) links() error {
	names := []string{nameKubelet, namePause, nameAgent, nameRmdir}
	if n.Log == "journal" {
		names = append(names, nameJournalctl)
	}
	for _, name := range names {
		if err := n.link(name); err != nil {
			return err
		}
	}
	return nil
}

// run runs COMMAND and returns its exit code.
func (n *node) run(signals <-chan os.Signal) int {
	path := n.bin() + ":" + os.Getenv("PATH")
	_ = os.Setenv("PATH", path) // for LookPath, too; its only error is an invalid name
	cmd := exec.Command(n.Command[0], n.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"OR_FLAGS="+n.flags(), "NODE_PODS="+n.root+"/pods", "NODE_CNI="+n.cni, "NODE_CNI_CONF="+n.cniConf,
		"NODE_LOG="+n.log, "NODE_CTL="+n.ctl)
	if err := cmd.Start(); err != nil {
		fail(fmt.Errorf("cannot run COMMAND: %w", err))
		return 127
	}
	go forward(signals, cmd.Process)
	return exitCode(cmd.Wait())
}

// flags are the same for the program in cmd/orphan-reaper.
func (n *node) flags() string {
	return "--config=/dev/null --root-dir=" + n.root + " --state-dir=" + n.Dir + "/state --cni-dir=" + n.cni + " --cni-conf-dir=" + n.cniConf +
		" --metrics-file=" + n.Dir + "/metrics.prom"
}

// kubeletStart starts the kubelet, which makes its first sweep before this returns.
func (n *node) kubeletStart() error {
	stderr, st, err := n.sink.Open(n.log, nameKubelet, "kubelet.service")
	if err != nil {
		return err
	}
	defer stderr.Close()
	c := kubelet.Config{Version: n.Kubelet, JSON: n.Log == "json", Root: n.root, Every: n.Every, PodsAPI: n.Kubelet == "1.37"}
	n.kubelet, err = n.startKubelet(c, n.cgroups.service("kubelet.service"), stderr, st)
	return err
}

// kubeletState returns what the kubelet with the root directory learns from its sources and its runtime.
func (n *node) kubeletState(root string) kubelet.State {
	s := kubelet.State{Level: n.level, PodsAPI: n.podsAPI, Offset: n.offset, NoRuntime: n.runtime == runtimeStopped || n.runtime == runtimeHung}
	if root != n.root {
		return s // another kubelet has no pods
	}
	for _, p := range n.pods {
		if p.listed {
			s.Listed = append(s.Listed, kubelet.Listed{UID: p.UID, Name: p.Name, Namespace: namespace, Annotations: p.annotations()})
		}
		if p.inManager {
			s.Manager = append(s.Manager, p.managed(n.Kubelet))
		}
		if p.running() && n.runtime == runtimeRuns {
			s.Running = append(s.Running, p.UID)
		}
		if p.cgroup {
			s.Cgroups = append(s.Cgroups, p.UID)
		}
	}
	return s
}

// pause keeps the kubelet from removing empty directories that the node fills, until changed.
func (n *node) pause() {
	if n.kubelet != nil && n.kubelet.tell(kubelet.Message{Pause: true}) != nil {
		n.kubelet = nil
	}
}

// changed gives the kubelets and the runtime the state of the node. COMMAND may have killed a kubelet.
func (n *node) changed() {
	n.setLists()
	if n.kubelet != nil && n.kubelet.tell(kubelet.Message{State: new(n.kubeletState(n.root))}) != nil {
		n.kubelet = nil
	}
	n.others = slices.DeleteFunc(n.others, func(k *kubeletProcess) bool {
		return k.tell(kubelet.Message{State: new(n.kubeletState(k.root))}) != nil
	})
}

// writeFile writes a file and makes its parents.
func writeFile(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

// removeTree removes a directory that the node has made.
func removeTree(dir string) error {
	var all []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			all = append(all, path)
		}
		return nil // it may be absent
	})
	for _, path := range slices.Backward(all) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
