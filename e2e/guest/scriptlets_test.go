package guest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scriptletsScript has rpm and semodule at work.
//
//go:embed scriptlets.sh
var scriptletsScript string

// TestScriptlets checks that the module's RPM loads it with the real semodule, keeps it over an upgrade, and removes
// it on erasure. No kernel enforces it here.
func TestScriptlets(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	run(t, "cp", "-a", "--reflink=auto", need(t, "GUEST_TREE"), root)
	// A package has directories where the tree has symbolic links.
	run(t, "sh", "-c", `tar -C "$1" -c . | tar -C "$2" -x --keep-directory-symlink`, "sh", filepath.Join(cache, "guest", "semodule"), root)
	copyFile(t, "stubs.cil", filepath.Join(root, "guest", "stubs.cil"), 0o644)
	write(t, filepath.Join(root, "guest", "scriptlets.sh"), scriptletsScript, 0o755)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		dir := t.TempDir()
		run(t, "cp", "-r", "../../packaging/selinux/.", "../../LICENSE", dir)
		config, err := os.ReadFile(filepath.Join(dir, "nfpm.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("@VERSION@", version, "@MTIME@", "2026-01-02T03:04:05Z", "changelog: ../changelog.rpm.yaml\n", "").Replace(string(config))
		write(t, filepath.Join(dir, "nfpm.yaml"), text, 0o644)
		pack := exec.CommandContext(t.Context(), need(t, "GUEST_NFPM"), "package", "--packager", "rpm", "--target", filepath.Join(root, "guest", version+".rpm"))
		pack.Dir = dir
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run(t, "chroot", root, "sh", "/guest/scriptlets.sh")
}
