package app

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHolder checks that only a process started as "run" counts as a daemon, and that one without a visible command
// is uncertain.
func TestHolder(t *testing.T) {
	file := testkit.File(t, "config.yaml", "mode: enforce\n")
	store, err := state.Open(t.TempDir(), state.Options{})
	testkit.Must(t, err)
	defer closeQuietly(store)
	for args, want := range map[string]summary.Daemon{
		"orphan-reaper run --mode observe --config " + file:              {Runs: policy.Yes, Mode: "observe"},
		"orphan-reaper --mode=observe -o json --config " + file + " run": {Runs: policy.Yes, Mode: "observe"},
		"orphan-reaper run --newer-than-this 1 --config " + file:         {Runs: policy.Yes, Mode: "enforce"},
		"orphan-reaper run --config /nonexistent":                        {Runs: policy.Yes},
		"orphan-reaper run --config " + file:                             {Runs: policy.Yes, Mode: "enforce"},
		"orphan-reaper sweep":                                            {Runs: policy.No},
		"orphan-reaper sweep --mode enforce":                             {Runs: policy.No},
		"orphan-reaper --state-dir run sweep":                            {Runs: policy.No},
		"orphan-reaper sweep run":                                        {Runs: policy.No},
		"orphan-reaper quarantine restore --state-dir /run run":          {Runs: policy.No},
		"orphan-reaper --help":                                           {Problem: "cannot be read"},
		"orphan-reaper":                                                  {Problem: "shows no command"},
		"":                                                               {Problem: "shows no command"},
	} {
		var d summary.Daemon
		describeHolder(t.Context(), &d, strings.Fields(args))
		if d.Runs != want.Runs || d.Mode != want.Mode ||
			(d.Problem != "") != (want.Problem != "") || !strings.Contains(d.Problem, want.Problem) {
			t.Errorf("%s: %+v, want %+v", args, d, want)
		}
	}
}

// TestMissingLog checks that a configured file that is missing is reported, unlike a default one.
func TestMissingLog(t *testing.T) {
	missing := source.State{Err: fs.ErrNotExist}
	for _, s := range logsRead(map[string]source.State{"/var/log/syslog": missing, "/var/log/kubelet.log": missing}, time.Time{}) {
		if s.Read || s.Absent != (s.Name == "/var/log/syslog") {
			t.Errorf("%+v", s)
		}
	}
}

// TestLabelHint checks that a confining label or profile is reported, and that an unconfined one is not.
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
	if got := deniedBy("/proc/self/attr/current", t.TempDir(), "/nonexistent"); got != "" {
		t.Errorf("one readable and one missing directory: %q", got)
	}
}
