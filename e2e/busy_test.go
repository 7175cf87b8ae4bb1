package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// busy is kubernetes#135698: a pod with a subPath of a hostPath is force-deleted while its kubelet is down. The next
// kubelet ends its containers, has no record of the mount, and reports it as busy forever. unmount refuses each mount
// of a living pod, unmounts that of the dead one, and loses nothing of the host's directory.
func busy(t *testing.T, n *node) {
	host := mkdir(t, filepath.Join(n.dir, "busy"))
	part := mkdir(t, filepath.Join(host, "part"))
	plantCanaries(t, part)
	p := pod{
		uid: n.uid("5a11fe00-0000-4000-8000-0000000000d_"), name: "busy", spec: "volumes: [{name: host, hostPath: {path: " + host + "}}]",
		mounts: "[{name: host, mountPath: /sub, subPath: part}]", dirs: "/sub", files: []string{"volume-subpaths/host/app/0"},
	}
	tasks := len(n.tasks())
	n.run(t, p)
	eventually(t, 60*time.Second, func() string { return n.beating(p) })
	d := n.reap(t)
	if out, code := d.try("unmount", "--yes", p.uid); code != 1 || !strings.Contains(out, "not proved dead") {
		t.Errorf("unmount of a living pod: %d\n%s", code, out)
	}
	throughout(t, 2*time.Second, func() string { return n.beating(p) })

	n.restartKubelet(t, func() {
		if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
			t.Fatal(err)
		}
	})
	mark := n.kubelet.size()
	eventually(t, 90*time.Second, func() string {
		return missing(len(n.tasks()) == tasks && strings.Contains(n.messagesOf(p.uid, mark), "device or resource busy"),
			"the kubelet logged %q, %d tasks", n.messagesOf(p.uid, mark), len(n.tasks()))
	})
	d.waitRecord(t, 60*time.Second, p.uid, "it is mounted, and how to end that", func(r policy.Record) bool {
		return keptFor(policy.ReasonMounted)(r) && strings.Contains(policy.WhyWords(r.Why), "orphan-reaper unmount "+p.uid)
	})
	t.Log(d.command(t, "unmount", "--dry-run", p.uid))
	eventually(t, 3*time.Minute, func() string { // the kubelet may just have started, or its garbage collection is pending
		out, code := d.try("unmount", "--yes", p.uid)
		return missing(code == 0 && strings.Contains(out, "unmounted"), "unmount ended with %d\n%s", code, out)
	})
	eventually(t, 2*time.Minute, func() string {
		return missing(!exists(filepath.Join(n.pods, p.uid)), "%s still exists: %s", p.uid, n.messagesOf(p.uid, mark))
	})
	checkCanaries(t, part)
	quiet := n.kubelet.size()
	throughout(t, 10*time.Second, func() string { return n.messagesOf(p.uid, quiet) })
	if out, code := d.try("unmount", "--yes", p.uid); code != 0 || !strings.Contains(out, "unmounted already") {
		t.Errorf("second run: %d\n%s", code, out)
	}
}

// try is command for one that may fail. It returns its output and exit code.
func (d *daemon) try(args ...string) (string, int) {
	out, err := exec.Command(d.binary(), append(args, d.flags...)...).CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), e.ExitCode()
	} else if err != nil {
		return err.Error(), -1
	}
	return string(out), 0
}

// lost is containerd#13784: the runtime has lost a pod whose processes still run. The kubelet reports it as an orphan
// and no list contains it, but its cgroup and processes show that it lives.
func lost(t *testing.T, n *node) {
	p := pod{
		uid: n.uid("5a11fe00-0000-4000-8000-0000000000e_"), name: "lost", spec: "hostNetwork: true, volumes: [{name: data, emptyDir: {}}]",
		mounts: "[{name: data, mountPath: /data}]", dirs: "/data", files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
	n.run(t, p)
	eventually(t, 60*time.Second, func() string { return n.beating(p) })
	n.kubelet.signal(stopSignal) // a running kubelet would end the processes in the cgroup
	ids := n.forgetContainers(t, p.uid)
	t.Cleanup(func() { n.killProcesses(ids) })
	if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
		t.Fatal(err)
	}
	d := n.reap(t)
	eventually(t, 60*time.Second, func() string {
		n.forge(t, p.uid)
		time.Sleep(time.Second)
		return missing(len(d.of(p.uid)) > 0, "no record about it")
	})
	d.waitRecord(t, 60*time.Second, p.uid, "its cgroup shows that it lives", keptFor(policy.ReasonCgroup))
	throughout(t, hold+10*time.Second, func() string {
		for _, r := range d.of(p.uid) {
			if r.Kind != policy.KindKept || keptFor(policy.ReasonSandbox)(r) || keptFor(policy.ReasonContainer)(r) {
				return string(r.Kind) + ": " + policy.WhyWords(r.Why)
			}
		}
		return n.beating(p)
	})
	n.kubelet.signal(contSignal)
	n.killProcesses(ids)
	eventually(t, 2*time.Minute, func() string {
		return missing(!exists(filepath.Join(n.pods, p.uid)), "%s still exists: %s", p.uid, n.kubelet.Tail(2))
	})
}

// forgetContainers makes the runtime lose the pod's sandbox and containers, whose processes keep running: while it is
// down, its records of their shims are moved away; then they are removed from its database.
func (n *node) forgetContainers(t *testing.T, uid string) []string {
	t.Helper()
	ctr := []string{"ctr", "-a", n.socket(engine), "-n", "k8s.io", "containers"}
	out, err := runQuietly(append(ctr, "ls", "-q", `labels."io.kubernetes.pod.uid"==`+uid)...)
	ids := strings.Fields(out)
	if err != nil || len(ids) < 2 {
		t.Fatalf("containers %q: %v", ids, err)
	}
	n.runtime.Kill()
	away := mkdir(t, filepath.Join(n.dir, "lost"))
	for _, id := range ids {
		rename(t, filepath.Join(n.dir, "containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", id), filepath.Join(away, id))
	}
	n.runtime = n.startRuntime(t, engine)
	must(t, append(append(ctr, "rm"), ids...)...)
	n.runtime.Kill() // it lists its containers until it is restarted
	n.runtime = n.startRuntime(t, engine)
	return ids
}

// killProcesses ends the processes of containers that no runtime lists, and their shims.
func (n *node) killProcesses(ids []string) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	for _, dir := range names {
		var text strings.Builder
		for _, file := range []string{"cmdline", "cgroup"} {
			if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				text.WriteString(string(b))
			}
		}
		for _, id := range ids {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && strings.Contains(text.String(), id) && pid != os.Getpid() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}
