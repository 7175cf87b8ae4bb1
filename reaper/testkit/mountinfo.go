package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// ProcMounts makes a /proc of which each process has a text of mountinfo and no more.
func ProcMounts(t *testing.T, mountinfo map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for pid, text := range mountinfo {
		Must(t, os.MkdirAll(filepath.Join(dir, pid), 0o755))
		WriteText(t, filepath.Join(dir, pid, "mountinfo"), text)
	}
	return dir
}

// MountLine is a line of mountinfo.
func MountLine(id int, root, target string) string {
	return fmt.Sprintf("%d 1 8:1 %s %s rw,relatime shared:1 - ext4 /dev/sda1 rw\n", id, root, target)
}
