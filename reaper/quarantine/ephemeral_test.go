package quarantine

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	ephemeralCSI  = `{"driverName":"secrets-store.csi.k8s.io","volumeLifecycleMode":"Ephemeral"}`
	persistentCSI = `{"driverName":"ebs.csi.aws.com","volumeLifecycleMode":"Persistent"}`
	kubeletUserns = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
)

// TestEphemeralCSI checks that the residue of an ephemeral CSI volume is removed like an emptyDir, and the file that
// identifies it as ephemeral last. The tree also has a user's files that resemble one.
func TestEphemeralCSI(t *testing.T) {
	testkit.OnTmpfs(t)
	const csi = "volumes/kubernetes.io~csi/"
	below := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, csi+n)
		}
		return out
	}
	users := slices.Concat([]string{".125", ".77", "big", "big/userns", "canary", "volumes", "volumes/kubernetes.io~csi"}, below(
		"both", "both/notes", "directory", "directory/mount", "directory/mount/data", "forged", "forged/mount",
		"forged/mount/vol_data.json", "linked", "linked/mount", "linked/mount/data", "linked/vol_data.json", "both/vol_data.json"))
	strip := slices.Concat(users, below("both/mount", "both/mount/password", "secrets", "secrets/vol_data.json", "secrets/mount",
		"secrets/mount/deep", "secrets/mount/deep/password"))
	for name, c := range map[string]struct {
		remove    content.Set
		left      []string
		ephemeral []string
	}{
		"payloads": {content.Payloads, strip, below("both/mount", "both/vol_data.json", "secrets/mount", "secrets/vol_data.json")},
		"aged":     {content.Aged, users, nil}, // a file that an operator added keeps the volume, and the walk ends
	} {
		for way, no := range testkit.Ways {
			t.Run(name+" "+way, func(t *testing.T) {
				tr, q, m := entryWith(t, no, c.remove,
					"file "+csi+"secrets/mount/deep/password 20", "dir "+csi+"hollow/mount", "file "+csi+"both/mount/password 20", "file "+csi+"both/notes 20",
					"file "+csi+"forged/mount/vol_data.json 20", "file "+csi+"linked/mount/data 20", "link "+csi+"linked/vol_data.json ../../../canary",
					"dir "+csi+"directory/vol_data.json", "file "+csi+"directory/mount/data 20", "file canary 1", "file big/userns 1", "link .77 userns")
				for name, text := range map[string]string{
					csi + "secrets/vol_data.json": ephemeralCSI, csi + "hollow/vol_data.json": ephemeralCSI, csi + "both/vol_data.json": ephemeralCSI,
					csi + "forged/vol_data.json": persistentCSI, csi + "forged/mount/vol_data.json": ephemeralCSI, "canary": ephemeralCSI,
					"userns": kubeletUserns, ".123": "", ".124": kubeletUserns, ".125": "mine", "big/userns": kubeletUserns,
				} {
					tr.Must(os.WriteFile(tr.entry()+"/"+name, []byte(text), 0o600))
				}
				for range 2 { // the second run is as after a crash
					o := run1(t, q, m)
					want(t, o, judge.Partly)
					wantListing(t, tr.entry(), slices.Clone(c.left)...)
					var ephemeral []string
					for _, l := range o.Left {
						if l.Class == content.Ephemeral {
							ephemeral = append(ephemeral, l.Path)
						}
					}
					slices.Sort(ephemeral)
					if c.ephemeral != nil && !slices.Equal(ephemeral, c.ephemeral) {
						t.Fatalf("ephemeral %q, want %q", ephemeral, c.ephemeral)
					}
				}
			})
		}
	}
}

// TestEphemeralCSIStopped checks that after an end at any step the rest of the volume is still recognized as ephemeral.
func TestEphemeralCSIStopped(t *testing.T) {
	testkit.OnTmpfs(t)
	for cut := 1; ; cut++ {
		tr, q, m := entryWith(t, false, content.Aged, "file volumes/kubernetes.io~csi/s/mount/a 9", "file volumes/kubernetes.io~csi/s/mount/b 9")
		tr.Must(os.WriteFile(tr.entry()+"/volumes/kubernetes.io~csi/s/vol_data.json", []byte(ephemeralCSI), 0o600))
		steps, stopped := 0, false
		ctx, cancel := context.WithCancel(t.Context())
		before(q, func(string, string) {
			if steps++; steps == cut {
				stopped = true
				cancel()
			}
		})
		q.Execute(ctx, granted, []judge.Move{m})
		cancel()
		if !stopped {
			break
		}
		q.disk = kernel{}
		if o := run1(t, q, m); o.Result != judge.Done && o.Result != judge.Gone {
			t.Fatalf("stopped at step %d: %s, %+v", cut, o.Result, o.Left)
		}
	}
}
