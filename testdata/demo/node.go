package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

// The pods, in the order in which a kubelet would name them.
const (
	safeUID     = "1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01"
	dataUID     = "4a90d1b7-03e2-4f0c-8a56-2b9be1f3d702"
	mountedUID  = "7c2e8f14-b6a9-4d38-a1c7-90d5e6b48f03"
	livingUID   = "a35b97e0-1f4d-4b62-9e83-c8d70a12f504"
	startingUID = "d8071c6a-e2b3-4795-b0f4-5e6a9c83d105"
	noUID       = "lost+found"
)

// The files whose loss would be a disaster, and what is in them.
var canaries = map[string]string{
	dataUID + "/volumes/kubernetes.io~csi/pvc-orders/mount/orders.csv": "4711;paid\n4712;open\n",
	livingUID + "/volumes/kubernetes.io~empty-dir/uploads/photo.jpg":   "not yet processed\n",
	startingUID + "/volumes/kubernetes.io~empty-dir/spool/mail-1":      "not yet sent\n",
	noUID + "/rescued": "somebody put this here\n",
}

// What lies on the volume that is mounted in reports-0, and where.
const (
	storedReport = "storage/pvc-reports/report.db"
	fiveYears    = "five years of reports\n"
)

// node is a Kubernetes node in a directory.
type node struct {
	dir     string
	plain   bool // no namespaces of its own: nothing is mounted
	runtime *fakecri.Server
	kubelet *exec.Cmd
}

func (n *node) path(names ...string) string {
	return filepath.Join(append([]string{n.dir}, names...)...)
}

func (n *node) pods(names ...string) string {
	return n.path(append([]string{"kubelet", "pods"}, names...)...)
}

func (n *node) log() string { return n.path("log", "messages") }

// make makes the directories, the mount, the cgroup and the configuration. Without
// namespaces there is no mount, and no pod that has one.
func (n *node) make(binary string) error {
	files := map[string]string{
		"node.yaml":    n.config(),
		"log/messages": "", storedReport: fiveYears,
		// A kubelet keeps the logs of a pod as long as it wants the pod.
		"var/log/pods/shop_web-0_" + livingUID + "/web/0.log": "",
		// The kubelet makes a pod's cgroup before anything else of it.
		"cgroup/kubepods/burstable/pod" + startingUID + "/cgroup.procs": "",
	}
	for path, text := range canaries {
		files["kubelet/pods/"+path] = text
	}
	n.kubeletFiles(files)
	for path, text := range files {
		if n.plain && strings.Contains(path, mountedUID) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(n.path(path)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(n.path(path), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir(n.path("bin"), 0o700), os.Symlink(binary, n.path("bin", "orphan-reaper"))); err != nil || n.plain {
		return err
	}
	return mountBind(n.path(filepath.Dir(storedReport)), n.pods(mountedUID, "volumes/kubernetes.io~csi/pvc-reports/mount"))
}

// env is the environment of a command on this node.
func (n *node) env() []string {
	return append(os.Environ(), "PATH="+n.path("bin")+":"+os.Getenv("PATH"))
}

// kubeletFiles adds what a kubelet itself writes into pod directories, as seen with 1.30.
func (n *node) kubeletFiles(files map[string]string) {
	for uid, name := range map[string]string{safeUID: "cart-0", dataUID: "orders-0", mountedUID: "reports-0", livingUID: "web-0"} {
		app, _, _ := strings.Cut(name, "-")
		files["kubelet/pods/"+uid+"/etc-hosts"] = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n" +
			"10.0.0.7\t" + name + "." + app + ".shop.svc.cluster.local\t" + name + "\n"
		files["kubelet/pods/"+uid+"/containers/"+app+"/5f2c9a10"] = ""
	}
	secret := "kubelet/pods/" + safeUID + "/volumes/kubernetes.io~secret/db-password/..2026_11_20_10_15_42.1803725113/"
	files[secret+"password"] = "hunter2"
	files["kubelet/pods/"+safeUID+"/plugins/kubernetes.io~empty-dir/wrapped_db-password/ready"] = ""
	files["kubelet/pods/"+safeUID+"/volumes/kubernetes.io~configmap/settings/shop.ini"] = "currency=EUR\n"
	for uid, volume := range map[string]string{dataUID: "pvc-orders", mountedUID: "pvc-reports"} {
		files["kubelet/pods/"+uid+"/volumes/kubernetes.io~csi/"+volume+"/vol_data.json"] = fmt.Sprintf(
			`{"driverName":"csi.example.com","specVolID":%q,"volumeHandle":"v1"}`, volume)
	}
}

// config is the node's configuration of orphan-reaper. The times are short so that a demo
// can be watched; the defaults are 5m each.
func (n *node) config() string {
	return `node_root: ` + n.dir + `
root_dir: ` + n.path("kubelet") + `
state_dir: ` + n.path("state") + `
log_sources: [file]
log_files: [` + n.log() + `]
log_format: text                # stderr, even where a journal is
runtime_endpoint: unix://` + n.path("cri.sock") + `
cgroup_root: ` + n.path("cgroup") + `
metrics_file: none
node_namespaces: self           # this directory and these processes are the node
hold: 3s                        # default 5m: how long evidence must stay good
settle: 1s                      # default 5m: how long the kubelet must have run
confirm: 3s                     # default 5m: how long a parked pod may be missed
`
}

// start starts the runtime and the kubelet.
func (n *node) start(ctx context.Context) error {
	line, err := recorded()
	if err != nil {
		return err
	}
	if n.runtime, err = fakecri.Start(ctx, n.path("cri.sock"), fakecri.Options{}); err != nil {
		return err
	}
	n.runtime.SetPods(fakecri.Pod{
		UID: livingUID, Namespace: "shop", Name: "web-0", Running: 1,
		Created: time.Now().Add(-26 * time.Hour).UnixNano(),
	})
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	// The kernel takes a process's name from the path that is executed, a link's own.
	if err := os.Symlink(exe, n.path("kubelet", "kubelet")); err != nil {
		return err
	}
	out, err := os.OpenFile(n.log(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the kubelet has its own
	n.kubelet = exec.Command(n.path("kubelet", "kubelet"),
		"--root-dir="+n.path("kubelet"), "--container-runtime-endpoint="+n.runtime.Endpoint())
	n.kubelet.Env = append(os.Environ(), "DEMO_LINE="+line, "DEMO_WANTED="+livingUID+" "+startingUID)
	n.kubelet.Stdout, n.kubelet.Stderr = out, os.Stderr
	n.kubelet.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return n.kubelet.Start()
}

// forge writes what anyone may write to a syslog: the kubelet's own words, with its PID,
// about a pod that lives.
func (n *node) forge() error {
	line, err := recorded()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(n.log(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(report(line, n.kubelet.Process.Pid, livingUID,
		n.pods(livingUID, "volumes/kubernetes.io~empty-dir/uploads"), 1, time.Now()))
	return errors.Join(err, f.Close())
}

// stop ends kubelet and runtime.
func (n *node) stop() {
	if n.kubelet != nil && n.kubelet.Process != nil {
		_ = n.kubelet.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = n.kubelet.Wait()
	}
	if n.runtime != nil {
		n.runtime.Close()
	}
}

// lines returns the log's lines so far.
func (n *node) lines() []string {
	b, err := os.ReadFile(n.log())
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}
