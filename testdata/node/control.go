package main

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
)

type control struct {
	name, args string
	do         func(n *node, line, args string) error
}

func (c control) usage() string { return strings.TrimSpace(c.name + " " + c.args) }

// controls returns the commands of NODE_CTL with their arguments. Times are Go's durations.
func controls() []control {
	return []control{
		// adds a pod: a line of FILE
		{"pod", "NAME UID STATE [WORD…]", (*node).ctlPod},
		// ends its sandbox, containers, cgroup and place in the kubelet's list; the directory stays
		{"gone", "NAME", (*node).ctlGone},
		// starts it again in the kubelet's order: list, cgroup, emptyDir in what lies there, after the time the sandbox
		{"return", "NAME [TIME]", (*node).ctlReturn},
		// begins a NodePublish, which writes vol_data.json and after the time mounts the volume
		{"publish", "NAME TIME", (*node).ctlPublish},
		// ends the pod's mounts, also those elsewhere
		{"unmount", "NAME", (*node).ctlUnmount},
		// the kubelet: restart starts another process, v sets what /debug/flags/v sets
		{"kubelet", "stop|start|restart|v NUMBER", (*node).ctlKubelet},
		// starts another kubelet, with a root directory that is made if it is absent. It logs as the first does, with --log
		// journal to a unit of its own, and to kubelet2.log beside NODE_LOG
		{"kubelet2", "ROOT", (*node).ctlKubelet2},
		// starts a process in a pod's cgroup that looks as this kubelet and reports every pod in a file, fake-kubelet.log
		{"fake-kubelet", "", (*node).ctlFakeKubelet},
		// empty: it lists nothing; hang: it accepts connections and does not answer
		{"runtime", "stop|hang|empty|start", (*node).ctlRuntime},
		// starts another runtime without pods at another usual socket
		{"runtime2", "start|hang", (*node).ctlRuntime2},
		// off: there is no socket; initializing: the kubelet does not know all its sources yet
		{"podsapi", "off|hang|initializing|on", (*node).ctlPodsAPI},
		// another program writes a line into the kubelet's log
		{"log", "TEXT", func(n *node, _, text string) error { return n.other(text) }},
		// the kubelet prints an error with TEXT raw; \n in it is a newline and \0 a NUL (the echo of some shells replaces
		// these, so use printf '%s\n')
		{"quote", "TEXT", (*node).ctlQuote},
		// another boot ID and another /run, which is made now
		{"boot", "", (*node).ctlBoot},
		// sets the clock that the kubelet's lines have ahead of the machine's, or behind
		{"clock", "SECONDS", (*node).ctlClock},
	}
}

// watch carries out what is appended to NODE_CTL, until the node ends.
func (n *node) watch() error {
	for _, path := range []string{n.ctl, n.ctl + ".done"} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Open(n.ctl)
	if err != nil {
		return err
	}
	go func() {
		pending, number := "", 0
		for buffer := make([]byte, 64<<10); ; time.Sleep(poll) {
			count, _ := f.Read(buffer) // the end of the file is an error, too
			pending += string(buffer[:count])
			for {
				line, rest, whole := strings.Cut(pending, "\n")
				if !whole {
					break
				}
				pending = rest
				number++
				n.obey(number, strings.TrimSpace(line))
			}
		}
	}()
	return nil
}

// obey carries out one line and writes the result to NODE_CTL.done.
func (n *node) obey(number int, line string) {
	if line == "" || line[0] == '#' {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.control(line)
	if err == nil {
		n.done("ok " + line)
		return
	}
	n.done(fmt.Sprintf("error %s: %v", line, err))
	fmt.Fprintf(os.Stderr, "node: %s:%d: %v\n", n.ctl, number, err)
}

func (n *node) done(text string) {
	f, err := appendTo(n.ctl + ".done")
	if err == nil {
		_, _ = f.WriteString(text + "\n")
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
}

func (n *node) control(line string) error {
	name, args, _ := strings.Cut(line, " ")
	args = strings.TrimSpace(args)
	var names []string
	for _, c := range controls() {
		if names = append(names, c.name); c.name != name {
			continue
		}
		if (args == "") != (c.args == "") {
			return fmt.Errorf("want %s", c.usage())
		}
		n.pause()
		err := c.do(n, line, args)
		n.changed()
		if errors.Is(err, errArgs) {
			err = fmt.Errorf("want %s", c.usage())
		}
		return err
	}
	return fmt.Errorf("%q is no command: use one of %s", name, strings.Join(names, ", "))
}

var errArgs = errors.New("wrong arguments")

// later does something after the time and writes that to NODE_CTL.done.
func (n *node) later(after time.Duration, line string, do func() error) {
	time.AfterFunc(after, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.pause()
		err := do()
		n.changed()
		if err != nil {
			n.done(fmt.Sprintf("error %s: %v", line, err))
			return
		}
		n.done("ended " + line)
	})
}

// podAnd returns the pod that the first argument names, and the time that follows it.
func (n *node) podAnd(args string) (*pod, time.Duration, error) {
	name, after, timed := strings.Cut(args, " ")
	i := slices.IndexFunc(n.pods, func(p *pod) bool { return p.Name == name })
	if i < 0 {
		return nil, 0, fmt.Errorf("there is no pod %q", name)
	}
	if !timed {
		return n.pods[i], 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(after))
	if err != nil || d < 0 {
		return nil, 0, fmt.Errorf("%q is no time: use one such as 40s", after)
	}
	return n.pods[i], d, nil
}

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
		if err := n.kubelet.tell(message{Sweep: true}); err != nil {
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
	stderr, st, err := n.sink.open(n.logDir+"/kubelet2.log", nameKubelet, "kubelet2.service")
	if err != nil {
		return err
	}
	c := kubeletConfig{Version: n.Kubelet, JSON: n.Log == "json", Root: root, Every: n.Every}
	return n.addKubelet(c, n.cgroups.service("kubelet2.service"), stderr, st)
}

func (n *node) ctlFakeKubelet(string, string) error {
	i := slices.IndexFunc(n.pods, func(p *pod) bool { return p.cgroup })
	if i < 0 {
		return errors.New("no pod has a cgroup")
	}
	uid := n.pods[i].UID
	stderr, err := appendTo(n.logDir + "/fake-kubelet.log")
	if err != nil {
		return err
	}
	c := kubeletConfig{Version: n.Kubelet, JSON: n.Log == "json", Root: n.root, Every: n.Every, Forge: true}
	return n.addKubelet(c, n.cgroups.container(uid, hexID("container", uid, 0)), stderr, nil)
}

// addKubelet starts another kubelet.
func (n *node) addKubelet(c kubeletConfig, cgroup string, stderr *os.File, st *stream) error {
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
	if !slices.Contains([]string{podsAPIOff, podsAPIHang, podsAPIInitializing, podsAPIOn}, args) {
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
	return n.kubelet.tell(message{Quote: strings.NewReplacer(`\n`, "\n", `\0`, "\x00").Replace(text)})
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
	if err := n.replaceFile(bootIDFile, n.sink.reboot()); err != nil {
		return err
	}
	if n.Log == "journal" {
		if err := n.sink.receive(); err != nil {
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
	n.sink.setOffset(time.Duration(seconds * float64(time.Second)))
	return nil
}
