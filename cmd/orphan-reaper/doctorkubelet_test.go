package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestDoctorBesideKubelet: beside a kubelet that names an orphan, with a volume of another still mounted,
// the first goes by itself, and the command that is printed for the second takes the mount away.
func TestDoctorBesideKubelet(t *testing.T) {
	t.Parallel() // it listens for seconds
	n := newKubeletNode(t, "")
	n.pod(1, false)
	n.pod(2, false)
	volume := "root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~csi/it's a volume/mount"
	n.mkdir(volume)
	for _, flag := range []string{"--root-dir", "--runtime-endpoint"} { // the kubelet's
		at := slices.Index(n.args, flag)
		n.args = slices.Delete(n.args, at, at+2)
	}
	n.args = append(n.args, "--log-source", "file", "--log-file", n.path("log"))
	doctor := n.command("doctor").Args
	program, err := exec.LookPath(doctor[0])
	testkit.Must(t, err)
	doctor[0] = program
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
	cmd.Env = append(n.env, "POD="+wholeUID(1), "VOLUME="+n.path(volume), "SAID="+n.path("said"))
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
