package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// churnInit is PID 1 on the guest's disk: a node without systemd, whose cgroup v2 has all controllers.
const churnInit = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
for controller in cpuset cpu io memory pids; do
	grep -q "\b$controller\b" /sys/fs/cgroup/cgroup.controllers && echo +$controller >/sys/fs/cgroup/cgroup.subtree_control
done
modprobe dummy 2>/dev/null # it may be built in
ip link set lo up
ip link add node type dummy
ip address add 192.0.2.1/24 dev node
ip link set node up
ip route add default via 192.0.2.2
hostname guest
grep -q MHz /proc/cpuinfo || { (cat /proc/cpuinfo; echo 'cpu MHz : 2000.000') >/run/cpuinfo; mount --bind /run/cpuinfo /proc/cpuinfo; }
cd /e2e
export E2E_BUILT=/built E2E_RUNTIME=/runtime
. /settings
/e2e.test -test.v -test.timeout 12h -test.run '^TestChurn$' && echo "guest: done"
tail -n 100 /.cache/e2e/logs/*.log
sync
poweroff -f
`

// TestChurn runs the churn of the suite above on cgroup v2 in user mode Linux, which takes a fifth of the time of qemu
// without KVM. Kubelet, daemon, the pods' cgroups, volumes and mounts are real; the runtime, a stand-in of ./runtime,
// and the hardware are not. It needs a core of its own: with a tenth of one the daemon's reads time out, and it keeps
// all orphans. Debian's kernel has no cpuset and no Landlock. CHURN_KERNEL names one that has, Linux 6.19 or later with
// CONFIG_SMP, what Debian's has as modules built in, and without CONFIG_MUTEX_SPIN_ON_OWNER: it takes half the time.
func TestChurn(t *testing.T) {
	if os.Getenv("CHURN_PODS") == "" {
		t.Fatal("CHURN_PODS is not set: run make churn-guest; make test-guest skips the churn")
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, empty := range []string{"proc", "sys", "dev", "run", "tmp", "etc", "var/tmp", "var/log", "var/lib", "e2e"} {
		run(t, "mkdir", "-p", filepath.Join(root, empty))
	}
	for _, p := range []struct{ out, in string }{
		{"built/orphan-reaper", "../../cmd/orphan-reaper"}, {"built/pause", "../pause"}, {"built/toggle", "../toggle"}, {"runtime", "./runtime"},
	} {
		run(t, "env", "CGO_ENABLED=0", "go", "-C", filepath.Dir(p.in), "build", "-trimpath", "-tags=grpcnotrace,nethttpomithttp2",
			"-o", filepath.Join(root, p.out), "./"+filepath.Base(p.in))
	}
	run(t, "env", "CGO_ENABLED=0", "go", "test", "-trimpath", "-c", "-o", filepath.Join(root, "e2e.test"), "..")
	kubelet := need(t, "GUEST_KUBELET")
	version := filepath.Base(filepath.Dir(kubelet))
	copyFile(t, kubelet, filepath.Join(root, ".cache", "e2e", version, "kubelet"), 0o755)
	var settings strings.Builder
	settings.WriteString("export E2E_VERSIONS=" + version)
	for _, name := range []string{"CHURN_PODS", "CHURN_ALIVE", "CHURN_SECONDS", "CHURN_SLOW", "CHURN_MINUTES"} {
		settings.WriteString(" " + name + "=" + os.Getenv(name))
	}
	write(t, filepath.Join(root, "settings"), settings.String()+"\n", 0o644)
	busybox := run(t, "sh", "-c", "command -v busybox")
	copyFile(t, busybox[:len(busybox)-1], filepath.Join(root, "bin", "busybox"), 0o755)
	write(t, filepath.Join(root, "sbin", "init"), churnInit, 0o755)
	for name, text := range map[string]string{"passwd": "root:x:0:0::/:/bin/sh\n", "resolv.conf": "", "hosts": "127.0.0.1 localhost\n", "machine-id": "0123456789abcdef0123456789abcdef\n"} {
		write(t, filepath.Join(root, "etc", name), text, 0o644)
	}

	m := &machine{t: t}
	kernel, arguments := os.Getenv("CHURN_KERNEL"), []string{"seccomp=on", "ncpus=2"}
	if kernel == "" {
		kernel, arguments = debianUserMode, nil
		copyModules(t, root, userModules(t), "dummy")
	}
	m.passed(userMode(t, kernel, root, arguments...), "done")
}
