package guest

import (
	_ "embed"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// appArmorScript is what the guest does.
//
//go:embed apparmor.sh
var appArmorScript string

// TestAppArmor checks that under containerd's container profile, which is RuntimeDefault, the daemon keeps everything
// and doctor shows the profile and the setting. Unconfined it removes the same orphan.
func TestAppArmor(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	for _, empty := range []string{"proc", "sys", "dev", "run", "tmp", "var/log", "sbin", "usr/bin"} {
		run(t, "mkdir", "-p", filepath.Join(root, empty))
	}
	run(t, "cp", "-a", filepath.Join(cache, "guest", "apparmor")+"/.", root)
	libraries(t, root, "/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr", "/usr/bin/runc")
	played(t, root)
	pause := filepath.Join(root, "programs", "pause")
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", absolute(t, pause), "../pause")
	if err := image.Write(filepath.Join(root, "pause.tar"), pause); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc", "passwd"), "root:x:0:0::/:/bin/sh\n", 0o644)
	write(t, filepath.Join(root, "sbin", "init"), appArmorScript, 0o755)
	busybox := run(t, "sh", "-c", "command -v busybox")
	copyFile(t, busybox[:len(busybox)-1], filepath.Join(root, "bin", "busybox"), 0o755)
	m := &machine{t: t}
	m.passed(userMode(t, debianUserMode, root, "security=apparmor"),
		"doctor: AppArmor: this runs with the profile cri-containerd.apparmor.d, which may not read /proc/1/root; set the pod's appArmorProfile to Unconfined",
		"without the profile the orphan was removed", "done")
}
