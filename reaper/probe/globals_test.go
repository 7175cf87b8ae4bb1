package probe

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	pluginsTest = "kubelet/plugins/kubernetes.io/"
	csiTest     = pluginsTest + "csi/"
	globalData  = `{"driverName":"ebs.csi.aws.com","volumeHandle":"vol-1"}`
)

// hashedAt is the directory of vol-1 in the layout since 1.24.
var hashedAt = csiTest + "ebs.csi.aws.com/" + fmt.Sprintf("%x", sha256.Sum256([]byte("vol-1")))

// TestGlobalMounts checks that the list of staged volumes has each one's volume, mount and pod directory, omits those
// of living pods, and has unknown fields where something cannot be read.
func TestGlobalMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	staged := func(s volumeScene) {
		s.Write(hashedAt+"/vol_data.json", globalData)
		s.mount("", hashedAt+"/globalmount")
	}
	const yes, no, unknown = policy.Yes, policy.No, policy.Unknown
	const handle, state = "vol-1", "mounted"
	const inTree = "of the kubelet's own tree" // has no time
	for name, c := range map[string]struct {
		make            func(s volumeScene)
		mounted, wanted policy.Truth
		handle, state   string
		detail          string // detail of wanted
	}{
		"no pod has it": {staged, yes, no, handle, state, "no pod directory"},
		"only the directory": {func(s volumeScene) {
			s.Write(hashedAt+"/vol_data.json", globalData)
			s.Mkdir(hashedAt + "/globalmount")
		}, no, no, handle, "left", ""},
		"mounted in another namespace": {func(s volumeScene) {
			s.Write(hashedAt+"/vol_data.json", globalData)
			s.Mkdir(hashedAt + "/globalmount")
			child(s.T, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "", "mount -t tmpfs t '"+s.Path(hashedAt)+"/globalmount'")
		}, yes, no, handle, state, ""},
		"layout before 1.24": {func(s volumeScene) {
			s.Write(csiTest+"pv/pv-1/vol_data.json", globalData)
			s.mount("", csiTest+"pv/pv-1/globalmount")
		}, yes, no, handle, state, ""},
		"a dead pod has it": {func(s volumeScene) {
			staged(s)
			s.volume(s.orphan, "pv-1", goodVolData)
		}, yes, yes, handle, "", "pod "},
		"a dead pod has it by its name alone": {func(s volumeScene) {
			s.mount("", hashedAt+"/globalmount")
			s.volume(s.orphan, "pv-1", goodVolData)
		}, yes, yes, "", "", ""},
		"a living pod has it": {func(s volumeScene) {
			staged(s)
			s.volume(s.next, "pv-1", goodVolData)
			s.runs(s.next, 1)
		}, yes, yes, handle, "", "living"},
		"a living pod has a bind of it": {func(s volumeScene) {
			staged(s)
			s.Mkdir(s.PodDir(s.next)+"/volumes/x/y", hashedAt+"/globalmount/sub")
			s.mount(hashedAt+"/globalmount/sub", s.PodDir(s.next)+"/volumes/x/y")
			s.runs(s.next, 1)
		}, yes, yes, handle, "", "living"},
		"a pod has another part of the same device": {func(s volumeScene) {
			s.Mkdir("data/a", "data/b", hashedAt+"/globalmount", s.PodDir(s.next)+"/volumes/x/y")
			s.Write(hashedAt+"/vol_data.json", globalData)
			s.mount("data/a", hashedAt+"/globalmount")
			s.mount("data/b", s.PodDir(s.next)+"/volumes/x/y")
		}, yes, no, handle, state, ""},
		"without vol_data.json": {func(s volumeScene) { s.mount("", hashedAt+"/globalmount") }, yes, unknown, "", "unknown", "vol_data.json"},
		"a huge vol_data.json": {func(s volumeScene) {
			staged(s)
			testkit.Must(s.T, os.Truncate(s.Path(hashedAt+"/vol_data.json"), 1<<30))
		}, yes, unknown, "", "unknown", "longer than"},
		"a vol_data.json that is a link": {func(s volumeScene) {
			s.Write("secret", globalData)
			s.mount("", hashedAt+"/globalmount")
			s.Symlink(s.Path("secret"), hashedAt+"/vol_data.json")
		}, yes, unknown, "", "unknown", "symlink"},
		"a huge handle": {func(s volumeScene) {
			s.Write(hashedAt+"/vol_data.json", strings.Replace(globalData, "vol-1", strings.Repeat("v", 5000), 1))
			s.mount("", hashedAt+"/globalmount")
		}, yes, unknown, "", "unknown", "does not name"},
		"a pod whose volume has no name": {func(s volumeScene) {
			staged(s)
			s.volume(s.orphan, "pv-1", "")
		}, yes, unknown, handle, "unknown", "does not name"},
		"a block volume": {func(s volumeScene) {
			s.Write(csiTest+"volumeDevices/pv-1/data/vol_data.json", goodVolData)
			s.Write("device", "")
			s.Write(csiTest+"volumeDevices/staging/pv-1/disk", "")
			s.mount("device", csiTest+"volumeDevices/staging/pv-1/disk")
		}, yes, no, handle, state, ""},
		"a block volume of a pod without a directory": {func(s volumeScene) {
			s.Write(csiTest+"volumeDevices/pv-1/data/vol_data.json", goodVolData)
			s.Write(csiTest+"volumeDevices/publish/pv-1/"+string(newUID()), "")
		}, no, no, handle, "left", "published for pod"},
		"a block volume of a living pod": {func(s volumeScene) {
			s.Mkdir(csiTest+"volumeDevices/staging/pv-1", csiTest+"volumeDevices/pv-1/data")
			s.Write(csiTest+"volumeDevices/publish/pv-1/"+string(s.next), "")
			s.runs(s.next, 1)
		}, no, yes, "", "", "living"},
		inTree: {func(s volumeScene) {
			s.mount("", pluginsTest+"aws-ebs/mounts/aws/eu-1/vol-1")
		}, yes, no, "aws/eu-1/vol-1", state, ""},
		"what is no plugin's": {func(s volumeScene) {
			s.Mkdir(pluginsTest+"x/y", "away/"+handle)
			s.Write(pluginsTest+"file", "")
			s.Symlink(s.Path("away"), csiTest+"link")
			s.Mkdir(hashedAt + "/globalmount")
			s.mount("away", hashedAt+"/globalmount")
			s.Write(hashedAt+"/vol_data.json", globalData)
		}, yes, no, handle, state, ""},
	} {
		for way, mode := range modes {
			t.Run(name+", "+way, func(t *testing.T) {
				s := volumeScene{mode(t), newUID(), newUID(), newUID()}
				s.Mkdir(s.PodDir(s.orphan), s.PodDir(s.next))
				c.make(s)
				look := s.look()
				if !look.Globals.Read || len(look.Globals.All) != 1 {
					t.Fatalf("%+v, %v", look.Globals, look.Errors)
				}
				g := look.Globals.All[0]
				if g.Mounted.Truth != c.mounted || g.Wanted.Truth != c.wanted ||
					g.Handle != c.handle || summary.GlobalState(&g) != c.state || g.Since.IsZero() == (name != inTree) {
					t.Errorf("%+v", g)
				}
				lives := c.detail == "living"
				if g.Lives != lives || len(summary.GlobalMounts(&look)) == 1 == lives {
					t.Errorf("volume of a living pod: %+v", g)
				}
				if !lives {
					wantDetail(t, g.Wanted, c.detail)
				}
			})
		}
	}
}
