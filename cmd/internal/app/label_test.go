package app

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestLabelHint: a label or profile that confines is named; unconfined, and a kernel without labels, are not.
func TestLabelHint(t *testing.T) {
	for label, want := range map[string]string{
		"system_u:system_r:container_t:s0:c12,c40\x00": "SELinux: this runs as container_t, which may not read /pods; set seLinuxOptions.type to spc_t",
		"cri-containerd.apparmor.d (enforce)\n": "AppArmor: this runs with the profile cri-containerd.apparmor.d, which may not read /pods; " +
			"set the pod's appArmorProfile to Unconfined",
		"unconfined\n": "",
		"":             "",
	} {
		if got := labelHint(testkit.File(t, "current", label), "/pods"); got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
	if got := refused("/proc/self/attr/current", t.TempDir(), "/nonexistent"); got != "" {
		t.Errorf("a place that is read, and one that is missing: %q", got)
	}
}
