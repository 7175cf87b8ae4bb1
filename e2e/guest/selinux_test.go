package guest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// selinuxScript is what the guest does under SELinux.
//
//go:embed selinux.sh
var selinuxScript string

// base returns Debian's policy as converted by prepare.sh.
func base() []string {
	return []string{filepath.Join(cache, "guest", "selinux", "base.cil"), filepath.Join(cache, "guest", "selinux", "unconfined.cil"), "stubs.cil"}
}

// module is the module of the package.
const module = "../../packaging/selinux/orphan-reaper.cil"

// compile makes a binary policy for the guest's kernel.
func compile(t *testing.T, out string, more ...string) (string, error) {
	t.Helper()
	args := append([]string{"-c", "33", "-o", out, "-f", "/dev/null"}, append(base(), more...)...)
	text, err := exec.CommandContext(t.Context(), "secilc", args...).CombinedOutput()
	return string(text), err
}

// TestNever checks that the module allows nothing of never.cil, and that the compiler refuses a rule that would.
func TestNever(t *testing.T) {
	out := filepath.Join(t.TempDir(), "policy")
	if text, err := compile(t, out, module, "never.cil"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, rule := range []string{
		"(allow orphan_reaper_t domain (process (ptrace)))",
		"(allow orphan_reaper_t self (capability (sys_admin)))",
		"(allow orphan_reaper_t etc_t (file (write)))",
		"(typeattributeset files_unconfined_type (orphan_reaper_t))",
	} {
		planted := filepath.Join(t.TempDir(), "planted.cil")
		write(t, planted, rule, 0o644)
		if text, err := compile(t, out, module, "never.cil", planted); err == nil || !strings.Contains(text, "neverallow check failed") {
			t.Errorf("%s was not refused: %v\n%s", rule, err, text)
		}
	}
}

// TestSELinux checks on a kernel that enforces the policy that the tests of beneath and removal and the program
// itself run in the module's domain, and that forbidden actions are refused.
func TestSELinux(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), memory: "1024M",
		arguments: "lsm=landlock,selinux,bpf security=selinux enforcing=1 audit=1 audit_backlog_limit=8192"}
	root := filepath.Join(m.dir, "initrd")
	if text, err := compile(t, filepath.Join(m.dir, "policy"), module, "never.cil"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	copyFile(t, filepath.Join(m.dir, "policy"), filepath.Join(root, "policy"), 0o644)
	if text, err := compile(t, filepath.Join(m.dir, "fixtures"), module, "fixtures.cil"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	copyFile(t, filepath.Join(m.dir, "fixtures"), filepath.Join(root, "fixtures"), 0o644)
	programs := filepath.Join(root, "programs")
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", filepath.Join(root, "bin", "domain"), "./domain")
	copyFile(t, filepath.Join(root, "bin", "domain"), filepath.Join(programs, "domain"), 0o755)
	for _, room := range []string{"beneath", "removal"} {
		run(t, "env", "CGO_ENABLED=0", "go", "-C", "../..", "test", "-trimpath", "-c", "-o", absolute(t, filepath.Join(programs, room+".test")), "./reaper/"+room)
	}
	played(t, root)
	write(t, filepath.Join(root, "task"), selinuxScript, 0o644)
	write(t, filepath.Join(root, "node", "here"), "", 0o644)
	text := m.boot(root, 5*time.Minute)
	m.passed(text, "enforcing", "the domain is refused what it must not do",
		"the daemon ran as system_u:system_r:orphan_reaper_t:s0", "beneath: ", "removal: ", "done")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// played adds the program, the demo's kubelet and runtime, and a line of a real kubelet.
func played(t *testing.T, root string) {
	t.Helper()
	run(t, "env", "CGO_ENABLED=0", "go", "-C", "../..", "build", "-trimpath", "-o", absolute(t, filepath.Join(root, "programs", "orphan-reaper")), "./cmd/orphan-reaper")
	run(t, "env", "CGO_ENABLED=0", "go", "-C", "../..", "build", "-trimpath", "-o", absolute(t, filepath.Join(root, "programs", "kubelet")), "./testdata/demo")
	line, err := os.ReadFile("../../testdata/recorded/kubelet-1.30.log")
	if err != nil {
		t.Fatal(err)
	}
	report := regexp.MustCompile(`(?m)^E.*failed to rmdir\(\) volume.*: directory not empty`).Find(line)
	write(t, filepath.Join(root, "line"), string(report)+"\n", 0o644)
}
