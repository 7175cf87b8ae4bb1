package packages

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestARM64 checks that the program of the other architecture's package starts on an emulated processor and parses
// kubelet logs like this one. The emulator implements the system calls, so mounts are not tested.
func TestARM64(t *testing.T) {
	dir := t.TempDir()
	command := func(arg ...string) string {
		t.Helper()
		out, err := exec.Command(arg[0], arg[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(arg, " "), err)
		}
		return string(out)
	}
	program := func(arch string) []string {
		t.Helper()
		debs, err := filepath.Glob(filepath.Join(dist, "*_"+arch+".deb"))
		if err != nil || len(debs) != 1 {
			t.Fatal(arch, debs, err)
		}
		command("dpkg-deb", "-x", debs[0], filepath.Join(dir, arch))
		return []string{filepath.Join(dir, arch, "usr/sbin/orphan-reaper")}
	}
	ours, other := program("amd64"), append([]string{"qemu-aarch64"}, program("arm64")...)
	if got := command(append(other, "version")...); !strings.Contains(got, "linux/arm64") {
		t.Errorf("version\n%s", got)
	}
	logs, err := filepath.Glob("../../testdata/recorded/*.log")
	if err != nil {
		t.Fatal(err)
	}
	parse := append([]string{"parse"}, logs...)
	got, want := command(append(other, parse...)...), command(append(ours, parse...)...)
	if got != want || strings.Count(want, "\n") < 50 {
		t.Errorf("it prints %d lines, want\n%s", strings.Count(got, "\n"), want)
	}
}
