package probe

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	pluginsTest = "kubelet/plugins/kubernetes.io/"
	csiTest     = pluginsTest + "csi/"
	globalData  = `{"driverName":"ebs.csi.aws.com","volumeHandle":"vol-1"}`
)

// hashedAt is the directory of vol-1 in the layout since 1.24.
var hashedAt = csiTest + "ebs.csi.aws.com/" + fmt.Sprintf("%x", sha256.Sum256([]byte("vol-1")))

// TestUnnamed checks that a volume is listed if it is staged, mounted and named by no pod directory, and that nothing is
// listed where that is not known.
func TestUnnamed(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	const old = 10 * time.Minute
	staged := func(s volumeScene) {
		s.Write(hashedAt+"/vol_data.json", globalData)
		s.mount("", hashedAt+"/globalmount")
		s.aged(hashedAt+"/vol_data.json", old)
	}
	for name, c := range map[string]struct {
		make func(s volumeScene)
		want string // the handles, or a part of the error
	}{
		"no pod names it": {staged, "vol-1"},
		"only the directory": {func(s volumeScene) {
			s.Write(hashedAt+"/vol_data.json", globalData)
			s.Mkdir(hashedAt + "/globalmount")
			s.aged(hashedAt+"/vol_data.json", old)
		}, ""},
		"a pod starts": {func(s volumeScene) { staged(s); s.aged(hashedAt+"/vol_data.json", time.Minute) }, ""},
		"layout before 1.24": {func(s volumeScene) {
			s.Write(csiTest+"pv/pv-1/vol_data.json", globalData)
			s.mount("", csiTest+"pv/pv-1/globalmount")
			s.aged(csiTest+"pv/pv-1/vol_data.json", old)
		}, "vol-1"},
		"a pod names it": {func(s volumeScene) { staged(s); s.volume(s.orphan, "pv-1", goodVolData) }, ""},
		"a pod names its path": {func(s volumeScene) {
			s.mount("", hashedAt+"/globalmount")
			s.volume(s.orphan, "pv-1", goodVolData)
		}, ""},
		"without vol_data.json": {func(s volumeScene) { s.mount("", hashedAt+"/globalmount") }, "error: "},
		"a huge vol_data.json": {func(s volumeScene) {
			staged(s)
			testkit.Must(s.T, os.Truncate(s.Path(hashedAt+"/vol_data.json"), 1<<30))
			s.aged(hashedAt+"/vol_data.json", old)
		}, "error: longer than"},
		"a vol_data.json that is a link": {func(s volumeScene) {
			s.Write("secret", globalData)
			s.mount("", hashedAt+"/globalmount")
			s.Symlink(s.Path("secret"), hashedAt+"/vol_data.json")
			s.aged(hashedAt+"/vol_data.json", old)
		}, "error: "},
		"a pod whose volume has no name": {func(s volumeScene) { staged(s); s.volume(s.orphan, "pv-1", "") }, "error: cannot read the volumes of pod "},
		"what is no plugin's": {func(s volumeScene) {
			staged(s)
			s.Mkdir(pluginsTest+"x/y", "away")
			s.Write(pluginsTest+"csi/file", "")
			s.Symlink(s.Path("away"), csiTest+"link")
		}, "vol-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := volumeScene{newNode(t), newUID(), newUID(), newUID()}
			s.Mkdir(s.PodDir(s.orphan), s.PodDir(s.next))
			c.make(s)
			found, err := s.probe().Staged(t.Context())
			var got []string
			for _, v := range found {
				got = append(got, v.Handle)
			}
			if err != nil {
				got = append(got, "error: "+err.Error())
			}
			if text := strings.Join(got, " "); text != c.want && (err == nil || !strings.HasPrefix(c.want, "error: ") ||
				!strings.Contains(text, strings.TrimPrefix(c.want, "error: "))) {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

// aged sets how long ago the file was written, by the node's clock.
func (s volumeScene) aged(name string, ago time.Duration) {
	s.T.Helper()
	at := unix.NsecToTimespec(fixedClock{}.Now().Wall.Add(-ago).UnixNano())
	testkit.Must(s.T, unix.UtimesNanoAt(unix.AT_FDCWD, s.Path(name), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
}
