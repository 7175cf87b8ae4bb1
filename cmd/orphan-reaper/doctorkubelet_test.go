package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestDoctorBesideKubelet: beside a kubelet that names an orphan, with a volume of another still mounted,
// the first goes by itself, and the command that is printed for the second takes the mount away.
func TestDoctorBesideKubelet(t *testing.T) {
	needNamespaces(t)
	t.Parallel() // it listens for seconds
	n := newNode(t)
	n.pod(1, false)
	n.pod(2, false)
	volume := "root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~csi/it's a volume/mount"
	n.mkdir(volume)
	const living = "77777777-0000-4000-8000-000000000077"
	n.mkdir("cgroup/kubepods/besteffort/pod" + living)
	runtime, err := fakecri.Start(t.Context(), n.path("cri"), fakecri.Options{})
	testkit.Must(t, err)
	defer runtime.Close()
	runtime.SetPods(fakecri.Pod{UID: living, Namespace: "shop", Name: "db-0", Running: 1})
	n.args = slices.DeleteFunc(n.args, func(a string) bool { return a == "--root-dir" || a == n.path("root") }) // the kubelet tells
	n.args = append(n.args, "--settle", "0s", "--log-source", "file", "--log-file", n.path("log"))
	doctor := n.command("doctor").Args
	doctor[0], err = exec.LookPath(doctor[0])
	testkit.Must(t, err)
	cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", nodeScript + `
mount -t tmpfs tmpfs "$VOLUME"
kubelet --container-runtime-endpoint=unix://$CRI; name $pid
"$@" -o json || [ $? = 3 ]
"$@" >"$SAID" || [ $? = 3 ]
eval "$(grep '^    umount ' "$SAID")"
"$@" -o json || [ $? = 3 ]
`, "sh"}, doctor...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "ROOT="+n.path("root"), "LOG="+n.path("log"), "POD="+wholeUID(1), "CRI="+n.path("cri"),
		"VOLUME="+n.path(volume), "SAID="+n.path("said"))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	type view struct {
		Complaints struct{ Now bool }
		Pods       []struct {
			UID, Fate, Command string
			Reasons            []policy.Reason
		}
		Missing []string
	}
	all := json.NewDecoder(&out)
	var before, after view
	testkit.Must(t, all.Decode(&before))
	testkit.Must(t, all.Decode(&after))
	if !before.Complaints.Now || len(before.Missing) > 0 || len(before.Pods) != 2 || len(after.Pods) != 2 {
		t.Fatalf("%+v\n%+v", before, after)
	}
	first, second := before.Pods[0], before.Pods[1]
	if first.UID != wholeUID(1) || first.Fate != "goes" || first.Command != "" {
		t.Errorf("the named one: %+v", first)
	}
	if second.Fate != "person" || !slices.Contains(second.Reasons, policy.ReasonMounted) || !strings.HasPrefix(second.Command, "umount ") {
		t.Errorf("the mounted one: %+v", second)
	}
	if second = after.Pods[1]; second.UID != wholeUID(2) || slices.Contains(second.Reasons, policy.ReasonMounted) || second.Command != "" {
		t.Errorf("after the command: %+v", second)
	}
}
