package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	if out, stderr, code := d.try("unmount", "--yes", p.uid); code == 0 {
		t.Errorf("unmount of a living pod: %d\n%s%s", code, out, stderr)
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
	if status := d.awaitReason(t, p.uid, "mounted"); !status.Operator {
		t.Errorf("no operator is asked: %+v", status)
	}
	if out, _, code := d.try("doctor"); code != 3 || !strings.Contains(out, "orphan-reaper unmount "+p.uid) {
		t.Errorf("doctor: %d\n%s", code, out)
	}
	out, _, _ := d.try("unmount", "--dry-run", p.uid)
	t.Log(out)
	eventually(t, 3*time.Minute, func() string { // the kubelet may just have started, or its garbage collection is pending
		out, stderr, code := d.try("unmount", "--yes", p.uid)
		return missing(code == 0, "unmount ended with %d\n%s%s", code, out, stderr)
	})
	d.look()
	eventually(t, 2*time.Minute, func() string {
		return missing(!exists(filepath.Join(n.pods, p.uid)), "%s still exists: %s", p.uid, n.messagesOf(p.uid, mark))
	})
	checkCanaries(t, part)
	quiet := n.kubelet.size()
	throughout(t, 10*time.Second, func() string { return n.messagesOf(p.uid, quiet) })
	d.calm(t)
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
	t.Cleanup(func() { n.kubelet.signal(contSignal) })
	n.kubelet.signal(stopSignal) // a running kubelet would end the processes in the cgroup
	ids := n.forgetContainers(t, p.uid)
	t.Cleanup(func() { n.killProcesses(ids) })
	if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
		t.Fatal(err)
	}
	d := n.reap(t)
	d.await(t, 60*time.Second, "its cgroup shows that it lives", func(s status) bool {
		n.forge(t, p.uid)
		p := s.pod(p.uid)
		return p.has("cgroup") && p.Verdict == "alive"
	})
	throughout(t, hold+10*time.Second, func() string {
		n.forge(t, p.uid)
		if s := d.scan(t); s.pod(p.uid).Verdict != "alive" || s.pod(p.uid).Words == "" {
			return fmt.Sprintf("%+v", s.pod(p.uid))
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
