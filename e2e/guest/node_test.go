package guest

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// nodeScript makes the guest a node, and checks it.
//
//go:embed node.sh
var nodeScript string

const nodeUnit = `[Unit]
Description=What the test does
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /guest/node.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStopPost=/usr/bin/systemctl --force --force poweroff
[Install]
WantedBy=multi-user.target
`

// TestNode checks the DEB on a Debian with systemd and cgroup v2, beside containerd and the newest kubelet with
// either cgroup driver. Pods that ran and were deleted, and a backlog, are removed; a living pod keeps its directory;
// the kubelet's messages stop.
func TestNode(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	run(t, "cp", "-a", "--reflink=auto", need(t, "GUEST_TREE"), root)
	libraries(t, root, "/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr", "/usr/bin/runc")
	for _, plugin := range []string{"bridge", "host-local", "loopback"} {
		libraries(t, root, "/usr/lib/cni/"+plugin)
	}
	_, modules := kernel(t)
	run(t, "mkdir", "-p", filepath.Join(root, "lib", "modules"))
	run(t, "cp", "-a", modules, filepath.Join(root, "lib", "modules"))
	busybox := run(t, "sh", "-c", "command -v busybox")
	copyFile(t, busybox[:len(busybox)-1], filepath.Join(root, "guest", "busybox"), 0o755)
	if !kit.Exists(filepath.Join(root, "usr", "sbin", "modprobe")) {
		if err := os.Symlink("/guest/busybox", filepath.Join(root, "usr", "sbin", "modprobe")); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, need(t, "GUEST_KUBELET"), filepath.Join(root, "usr", "bin", "kubelet"), 0o755)
	copyFile(t, need(t, "GUEST_DEB"), filepath.Join(root, "guest", "orphan-reaper.deb"), 0o644)
	pause := filepath.Join(dir, "pause")
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", pause, "../pause")
	if err := image.Write(filepath.Join(root, "guest", "pause.tar"), pause); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "guest", "node.sh"), nodeScript, 0o755)
	write(t, filepath.Join(root, "etc", "systemd", "system", "guest.service"), nodeUnit, 0o644)
	run(t, "ln", "-s", "../guest.service", filepath.Join(root, "etc", "systemd", "system", "multi-user.target.wants", "guest.service"))
	write(t, filepath.Join(root, "etc", "fstab"), "/dev/vda / ext4 rw 0 0\n", 0o644)

	m := &machine{t: t, dir: dir, memory: "2048M", disk: filepath.Join(dir, "disk"), arguments: "root=/dev/vda systemd.show_status=0 init_on_alloc=0 mitigations=off"}
	run(t, "truncate", "-s", "2G", m.disk)
	run(t, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", root, m.disk)
	initramfs := filepath.Join(dir, "initrd")
	copyModules(t, initramfs, modules, "virtio_pci", "virtio_blk")
	text := m.boot(initramfs, 35*time.Minute)
	m.passed(text,
		"systemd: the DEB is installed", "systemd: all orphans are gone", "systemd: the pod lives", "systemd: the kubelet is silent",
		"cgroupfs: all orphans are gone", "cgroupfs: the pod lives", "cgroupfs: the kubelet is silent",
		"done")
}

// need returns a setting from make test-guest.
func need(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run make test-guest", name)
	}
	return value
}
