package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
)

// What the commands of NODE_CTL do.

func (n *node) ctlPod(_, args string) error {
	spec, err := parsePod(args)
	if err != nil {
		return err
	}
	all := make([]podSpec, len(n.pods))
	for i, p := range n.pods {
		all[i] = p.podSpec
	}
	if err := isNew(all, spec); err != nil {
		return err
	}
	if err := n.addPod(spec); err != nil {
		return err
	}
	n.changed()
	if n.kubelet != nil {
		if err := n.kubelet.tell(kubelet.Message{Sweep: true}); err != nil {
			return err
		}
	}
	return setAges(n.pods[len(n.pods)-1:])
}

func (n *node) ctlGone(_, args string) error {
	p, _, err := n.podAnd(args)
	if err != nil {
		return err
	}
	return n.end(p)
}

func (n *node) ctlReturn(line, args string) error {
	p, after, err := n.podAnd(args)
	if err != nil {
		return err
	}
	if p.listed {
		return fmt.Errorf("the kubelet already lists %s", p.Name)
	}
	p.listed, p.inManager, p.sandbox, p.containers = true, false, noSandbox, nil
	n.changed()
	if err := n.cgroups.add(n.cgroups.pod(p.UID), 0); err != nil {
		return err
	}
	p.cgroup = true
	w := writer{dir: p.dir}
	w.mkdir("volumes")
	w.mkdir("plugins")
	w.emptyDir(p.addVolume("empty-dir", "cache"))
	if w.err != nil {
		return w.err
	}
	lives := p.lives + 1
	p.lives = lives
	n.later(after, line, func() error {
		if !p.listed || p.lives != lives {
			return errors.New("the pod is gone again")
		}
		return n.runPod(p)
	})
	return nil
}

// runPod starts the sandbox and the container of a pod.
func (n *node) runPod(p *pod) error {
	p.sandbox, p.sandboxID, p.created = sandboxReady, hexID("sandbox", p.UID, p.lives), time.Now()
	p.containers = []containerState{containerRunning}
	w := writer{dir: p.dir}
	w.file("etc-hosts", "127.0.0.1\tlocalhost\n")
	w.file("containers/app/"+p.sandboxID[:8], "")
	if w.err == nil {
		w.err = writeFile(n.containerLog(p), "", 0o640)
	}
	if w.err == nil && p.Network != "" {
		w.err = n.addNetworkFiles(p, false)
	}
	if w.err != nil {
		return w.err
	}
	return n.addProcess(p)
}

func (n *node) ctlPublish(line, args string) error {
	if !strings.Contains(args, " ") {
		return errArgs
	}
	p, after, err := n.podAnd(args)
	if err != nil {
		return err
	}
	var v volume
	if i := slices.IndexFunc(p.volumes, volume.isCSI); i >= 0 {
		v = p.volumes[i]
	} else {
		v = newCSI("pvc-" + p.Name)
		p.volumes = append(p.volumes, v)
	}
	w := writer{dir: p.dir}
	w.file(filepath.Dir(v.target)+"/vol_data.json", volData(v.name))
	n.later(after, line, func() error {
		w := writer{dir: p.dir} // the directory may have been moved
		w.mkdir(v.target)
		if w.err != nil {
			return w.err
		}
		return p.mountTmpfs(p.dir + "/" + v.target)
	})
	return w.err
}

func (n *node) ctlUnmount(_, args string) error {
	p, _, err := n.podAnd(args)
	if err != nil {
		return err
	}
	return p.unmount()
}

func (n *node) ctlKubelet(_, args string) error {
	if level, ok := strings.CutPrefix(args, "v "); ok {
		v, err := strconv.Atoi(strings.TrimSpace(level))
		if err != nil || v < 0 {
			return errArgs
		}
		n.level = v
		return nil
	}
	switch args {
	case "start":
		if n.kubelet != nil {
			return errors.New("the kubelet already runs")
		}
		return n.kubeletStart()
	case "stop", "restart":
		if n.kubelet != nil {
			n.kubelet.stop()
		}
		if n.kubelet = nil; args == "stop" {
			return nil
		}
		return n.kubeletStart()
	}
	return errArgs
}

func (n *node) ctlKubelet2(_, root string) error {
	if !filepath.IsAbs(root) {
		root = n.Dir + "/" + root
	}
	if err := os.MkdirAll(root+"/pods", 0o755); err != nil {
		return err
	}
	stderr, st, err := n.sink.Open(n.logDir+"/kubelet2.log", nameKubelet, "kubelet2.service")
	if err != nil {
		return err
	}
	c := kubelet.Config{Version: n.Kubelet, JSON: n.Log == "json", Root: root, Every: n.Every}
	return n.addKubelet(c, n.cgroups.service("kubelet2.service"), stderr, st)
}

func (n *node) ctlFakeKubelet(string, string) error {
	uid := "0fa4e000-5b1f-4c55-9d0a-6f1f1b7a2c01" // of a pod that only has a cgroup, where no other pod has one
	if i := slices.IndexFunc(n.pods, func(p *pod) bool { return p.cgroup }); i >= 0 {
		uid = n.pods[i].UID
	}
	stderr, err := journal.AppendTo(n.logDir + "/fake-kubelet.log")
	if err != nil {
		return err
	}
	cgroup := n.cgroups.container(uid, hexID("fake-kubelet", len(n.others)))
	c := kubelet.Config{Version: n.Kubelet, JSON: n.Log == "json", Root: n.root, Every: n.Every, Forge: true}
	if err := n.addKubelet(c, cgroup, stderr, nil); err != nil {
		return err
	}
	return n.cgroups.add(cgroup, n.others[len(n.others)-1].Pid)
}

// addKubelet starts another kubelet.
func (n *node) addKubelet(c kubelet.Config, cgroup string, stderr *os.File, st *journal.Stream) error {
	defer stderr.Close()
	k, err := n.startKubelet(c, cgroup, stderr, st)
	if err == nil {
		n.others = append(n.others, k)
	}
	return err
}

func (n *node) ctlRuntime(_, args string) error {
	mode, ok := map[string]runtimeMode{"start": runtimeRuns, "stop": runtimeStopped, "hang": runtimeHung, "empty": runtimeEmpty}[args]
	if !ok {
		return errArgs
	}
	return n.setRuntime(mode)
}

func (n *node) ctlRuntime2(_, args string) error {
	if args != "start" && args != "hang" {
		return errArgs
	}
	return n.setSecond(args == "hang")
}

func (n *node) ctlPodsAPI(_, args string) error {
	if !slices.Contains([]string{kubelet.PodsAPIOff, kubelet.PodsAPIHang, kubelet.PodsAPIInitializing, kubelet.PodsAPIOn}, args) {
		return errArgs
	}
	if n.Kubelet != "1.37" {
		return fmt.Errorf("the kubelet %s has no PodsAPI: use --kubelet 1.37", n.Kubelet)
	}
	n.podsAPI = args
	return nil
}

func (n *node) ctlQuote(_, text string) error {
	if n.kubelet == nil {
		return errors.New("the kubelet does not run")
	}
	return n.kubelet.tell(kubelet.Message{Quote: strings.NewReplacer(`\n`, "\n", `\0`, "\x00").Replace(text)})
}

// ctlBoot leaves processes and sandboxes as they are: a runtime such as CRI-O may list those of the last boot.
func (n *node) ctlBoot(string, string) error {
	if n.server != nil {
		n.server.Close()
		n.server = nil
	}
	second := n.second != nil
	if second {
		n.second.Close()
		n.second = nil
	}
	if err := unix.Unmount("/run", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot unmount /run: %w", err)
	}
	if err := mountTmpfs("/run"); err != nil {
		return err
	}
	if err := n.replaceFile(journal.BootIDFile, n.sink.Reboot()); err != nil {
		return err
	}
	if n.Log == "journal" {
		if err := n.sink.Receive(); err != nil {
			return err
		}
	}
	if second {
		if err := n.setSecond(n.secondHung); err != nil {
			return err
		}
	}
	return n.setRuntime(n.runtime)
}

func (n *node) ctlClock(_, args string) error {
	seconds, err := strconv.ParseFloat(args, 64)
	if err != nil {
		return errArgs
	}
	n.offset = seconds
	n.sink.SetOffset(time.Duration(seconds * float64(time.Second)))
	return nil
}
