package removal

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	ephemeralCSI  = `{"driverName":"secrets-store.csi.k8s.io","volumeLifecycleMode":"Ephemeral"}`
	persistentCSI = `{"driverName":"ebs.csi.aws.com","volumeLifecycleMode":"Persistent"}`
	kubeletUserns = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
)

// ephemeralPod has an ephemeral CSI volume and a user's files that resemble one.
func ephemeralPod(t *testing.T, no bool, take contents.ClassSet) (*tree, *Remover, policy.Action) {
	t.Helper()
	const csi = "volumes/kubernetes.io~csi/"
	tr, r, a := quarantined(t, no, take,
		"file "+csi+"secrets/mount/deep/password 20", "dir "+csi+"hollow/mount", "file "+csi+"both/mount/password 20", "file "+csi+"both/notes 20",
		"file "+csi+"forged/mount/vol_data.json 20", "file "+csi+"linked/mount/data 20", "link "+csi+"linked/vol_data.json ../../../canary",
		"dir "+csi+"directory/vol_data.json", "file "+csi+"directory/mount/data 20", "file canary 1", "file big/userns 1", "link .77 userns")
	for name, text := range map[string]string{
		csi + "secrets/vol_data.json": ephemeralCSI, csi + "hollow/vol_data.json": ephemeralCSI, csi + "both/vol_data.json": ephemeralCSI,
		csi + "forged/vol_data.json": persistentCSI, csi + "forged/mount/vol_data.json": ephemeralCSI, "canary": ephemeralCSI,
		"userns": kubeletUserns, ".123": "", ".124": kubeletUserns, ".125": "mine", "big/userns": kubeletUserns,
	} {
		tr.Must(os.WriteFile(tr.Quar+"/"+entryA+"/"+name, []byte(text), 0o600))
	}
	return tr, r, a
}

// TestRemoveEphemeralCSI checks that the residue of an ephemeral CSI volume is removed like an emptyDir, and the file
// that identifies it as ephemeral last.
func TestRemoveEphemeralCSI(t *testing.T) {
	users := []string{".125", ".77", "big", "big/userns", "canary", "volumes", "volumes/kubernetes.io~csi"}
	for _, name := range []string{
		"both", "both/notes", "directory", "directory/mount", "directory/mount/data", "directory/vol_data.json", "forged", "forged/mount",
		"forged/mount/vol_data.json", "linked", "linked/mount", "linked/mount/data", "linked/vol_data.json",
	} {
		users = append(users, "volumes/kubernetes.io~csi/"+name)
	}
	// A directory without a file is skeleton, whatever its name.
	users = slices.DeleteFunc(users, func(name string) bool { return strings.HasSuffix(name, "directory/vol_data.json") })
	aged := append(slices.Clone(users), "volumes/kubernetes.io~csi/both/vol_data.json")
	strip := slices.Clone(aged)
	for _, name := range []string{
		"both/mount", "both/mount/password", "secrets", "secrets/vol_data.json", "secrets/mount", "secrets/mount/deep", "secrets/mount/deep/password",
	} {
		strip = append(strip, "volumes/kubernetes.io~csi/"+name)
	}
	for name, c := range map[string]struct {
		take      contents.ClassSet
		left      []string
		ephemeral []string
	}{
		"strip": {contents.TakeStrip, strip, []string{"both/mount", "both/vol_data.json", "secrets/mount", "secrets/vol_data.json"}},
		// A file that an operator added keeps the volume, and the walk ends.
		"aged": {contents.TakeAged, aged, nil},
	} {
		for way, no := range testkit.Ways {
			t.Run(name+" "+way, func(t *testing.T) {
				tr, r, a := ephemeralPod(t, no, c.take)
				for range 2 { // the second run is as after a crash
					o := run1(t, r, a)
					want(t, o, policy.Partly, "")
					left := testkit.Listing(t, tr.Quar+"/"+entryA)
					slices.Sort(left)
					slices.Sort(c.left)
					if !slices.Equal(left, c.left) {
						t.Fatalf("left %q\nwant %q", left, c.left)
					}
					var ephemeral []string
					for _, l := range o.Left {
						if l.Class == contents.ClassEphemeral {
							ephemeral = append(ephemeral, strings.TrimPrefix(l.Path, "volumes/kubernetes.io~csi/"))
						}
					}
					slices.Sort(ephemeral)
					if name == "strip" && !slices.Equal(ephemeral, c.ephemeral) {
						t.Fatalf("ephemeral %q, want %q", ephemeral, c.ephemeral)
					}
				}
			})
		}
	}
}

// TestEphemeralCSICutOff checks that after a kill at any step the rest of the volume is still recognized as
// ephemeral.
func TestEphemeralCSICutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		tr, r, a := quarantined(t, false, contents.TakeAged, "file volumes/kubernetes.io~csi/s/mount/a 9", "file volumes/kubernetes.io~csi/s/mount/b 9")
		volData := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~csi/s/vol_data.json"
		tr.Must(os.WriteFile(volData, []byte(ephemeralCSI), 0o600))
		steps, killed := 0, false
		ctx, cancel := context.WithCancel(t.Context())
		r.guards.before = func(string, string) {
			if steps++; steps == cut {
				killed = true
				cancel()
			}
		}
		r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a}})
		cancel()
		if !killed {
			break
		}
		r.guards.before = nil
		if o := run1(t, r, a); o.Result != policy.Done && o.Result != policy.Gone {
			t.Fatalf("cut at step %d: %s, %+v", cut, o.Result, o.Left)
		}
	}
}

// TestUsernsIsSkeleton checks that the same pod without a user's data is removed completely.
func TestUsernsIsSkeleton(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeStrip, "file etc-hosts 20", "dir volumes/kubernetes.io~csi/s/mount")
	for name, text := range map[string]string{"userns": kubeletUserns, "volumes/kubernetes.io~csi/s/vol_data.json": ephemeralCSI} {
		tr.Must(os.WriteFile(tr.Quar+"/"+entryA+"/"+name, []byte(text), 0o600))
	}
	o := run1(t, r, a)
	want(t, o, policy.Done, "")
	if !maps.Equal(o.VolData, map[string]string{"volumes/kubernetes.io~csi/s/vol_data.json": ephemeralCSI}) {
		t.Errorf("%v", o.VolData)
	}
}
