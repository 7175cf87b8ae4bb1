package guest

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// cache is the directory in which prepare.sh and the other suites keep slow downloads and builds.
const cache = "../../.cache"

// initScript is PID 1 of a guest. It loads the disk's driver and continues there.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /root /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_blk; do modprobe $module; done
while [ ! -e /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /root || poweroff -f
exec switch_root /root /sbin/init
`

// machine is one guest: its boot parameters and its console output.
type machine struct {
	t         *testing.T
	dir       string
	memory    string // in qemu's notation
	arguments string // the kernel's command line
	disk      string
}

// kernel returns the path of the kernel and the directory of its modules.
func kernel(t *testing.T) (image, modules string) {
	t.Helper()
	images, err := filepath.Glob(filepath.Join(cache, "guest", "kernel", "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		t.Fatalf("no kernel in .cache/guest: run make test-guest (%v)", err)
	}
	modules = filepath.Join(cache, "guest", "kernel", "lib", "modules", strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-"))
	return images[0], modules
}

// copyModules copies the given modules of a kernel and their dependencies, with modprobe's list.
func copyModules(t *testing.T, root, from string, names ...string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(from, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(root, "lib", "modules", filepath.Base(from))
	for line := range strings.Lines(string(list)) {
		module, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, _, _ := strings.Cut(filepath.Base(module), ".ko"); !slices.Contains(names, name) {
			continue
		}
		for _, file := range append(strings.Fields(needs), module) {
			copyFile(t, filepath.Join(from, file), filepath.Join(to, file), 0o644)
		}
	}
	copyFile(t, filepath.Join(from, "modules.dep"), filepath.Join(to, "modules.dep"), 0o644)
}

// boot starts the guest with the initramfs of that directory and returns its output after it has powered itself off.
// A guest that does not within the time has failed.
func (m *machine) boot(initramfs string, within time.Duration) string {
	m.t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		m.t.Fatal(err)
	}
	copyFile(m.t, busybox, filepath.Join(initramfs, "bin", "busybox"), 0o755)
	write(m.t, filepath.Join(initramfs, "init"), initScript, 0o755)
	archive, console := filepath.Join(m.dir, "initramfs"), filepath.Join(m.dir, "console")
	run(m.t, "sh", "-c", `cd "$1" && find . | cpio --quiet -o -H newc >"$2"`, "sh", initramfs, archive)
	image, _ := kernel(m.t)
	args := []string{
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", m.memory, "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:" + console, "-kernel", image, "-initrd", archive, "-append", "console=ttyS0 quiet panic=-1 " + m.arguments,
		"-drive", "file=" + m.disk + ",if=virtio,format=raw,cache=unsafe",
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), within)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", args...).CombinedOutput()
	text, readErr := os.ReadFile(console)
	if err != nil || readErr != nil {
		m.keep(text)
		m.t.Fatalf("the guest did not power itself off within %s: %v, %v\n%s\n%s", within, err, readErr, out, tail(text))
	}
	m.t.Logf("the guest ran for %s", time.Since(began).Round(time.Second))
	return string(bytes.ReplaceAll(text, []byte("\r"), nil))
}

// keep saves the console of a failed guest for the developer.
func (m *machine) keep(text []byte) {
	path := filepath.Join(cache, "guest", strings.ReplaceAll(m.t.Name(), "/", "-")+".log")
	if err := os.WriteFile(path, text, 0o600); err == nil {
		m.t.Logf("its console is in %s", path)
	}
}

// passed checks that the guest reported each step, and no failure.
func (m *machine) passed(text string, steps ...string) {
	m.t.Helper()
	var reported []string
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		if line, ok := strings.CutPrefix(scanner.Text(), "guest: "); ok {
			m.t.Log(line)
			reported = append(reported, line)
		}
	}
	for _, step := range steps {
		if !slices.ContainsFunc(reported, func(line string) bool { return strings.HasPrefix(line, step) }) {
			m.keep([]byte(text))
			m.t.Fatalf("the guest did not report %q:\n%s", step, tail([]byte(text)))
		}
	}
}

func tail(text []byte) string {
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(b), mode)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func libraries(t *testing.T, root string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		copyFile(t, program, filepath.Join(root, program), 0o755)
		out, err := exec.CommandContext(t.Context(), "ldd", program).CombinedOutput()
		if err != nil {
			continue // statically linked
		}
		for line := range strings.Lines(string(out)) {
			for word := range strings.FieldsSeq(line) {
				// The tree has its own C library of the same release.
				if to := filepath.Join(root, word); strings.HasPrefix(word, "/") && !kit.Exists(to) {
					copyFile(t, word, to, 0o755)
				}
			}
		}
	}
}
