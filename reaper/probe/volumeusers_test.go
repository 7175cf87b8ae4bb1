package probe

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// volumeScene has two orphans and the pod that succeeded them.
type volumeScene struct {
	*testNode
	orphan, second, next parsers.PodUID
}

func (s volumeScene) volume(uid parsers.PodUID, name, text string) string {
	dir := s.PodDir(uid) + "/volumes/kubernetes.io~csi/" + name
	s.Write(dir+"/vol_data.json", text)
	return dir + "/mount"
}

func (s volumeScene) runs(uid parsers.PodUID, populated int) {
	s.Write("cgroup/kubepods.slice/pod"+string(uid)+"/cgroup.events", fmt.Sprintf("populated %d\n", populated))
}

// TestStagedForSuccessor checks that a staged volume belongs to the living pod that has it mounted, and does not keep
// dead pods of the same volume.
func TestStagedForSuccessor(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	const csi = "kubelet/plugins/kubernetes.io/csi/"
	hashed := csi + "ebs.csi.aws.com/" + fmt.Sprintf("%x", sha256.Sum256([]byte("vol-1"))) + "/globalmount"
	const old = csi + "pv/pv-1/globalmount"
	with := func(from, to string) string { return strings.Replace(goodVolData, from, to, 1) }
	const published, mapped = csi + "volumeDevices/publish/pv-1/", csi + "volumeDevices/pv-1/dev/"
	block := func(s volumeScene, dir string) {
		s.Write("device", "")
		for _, uid := range []parsers.PodUID{s.orphan, s.second, s.next} {
			s.Write(dir+string(uid), "")
		}
		s.runs(s.next, 1)
	}
	for name, c := range map[string]struct {
		make func(s volumeScene)
		want policy.Truth
	}{
		"mounted by the successor": {func(s volumeScene) {
			s.mount("", hashed)
			s.mount("", s.volume(s.next, "pv-1", goodVolData))
			s.runs(s.next, 1)
		}, policy.No},
		"by no pod": {func(s volumeScene) { s.mount("", hashed) }, policy.Yes},
		"of the layout before 1.24": {func(s volumeScene) {
			s.mount("", old)
			s.mount("", s.volume(s.next, "pv-1", goodVolData))
			s.runs(s.next, 1)
		}, policy.No},
		"the successor waits for its mount": {func(s volumeScene) {
			s.mount("", hashed)
			s.Mkdir(s.volume(s.next, "pv-1", goodVolData))
			s.runs(s.next, 1)
		}, policy.Yes},
		"it has mounted something below": {func(s volumeScene) {
			s.mount("", hashed)
			s.mount("", s.volume(s.next, "pv-1", goodVolData)+"/sub")
			s.runs(s.next, 1)
		}, policy.Yes},
		"the successor is dead, too": {func(s volumeScene) {
			s.mount("", hashed)
			s.mount("", s.volume(s.next, "pv-1", goodVolData))
			s.runs(s.next, 0)
		}, policy.Yes},
		"the old layout's name is another": {func(s volumeScene) {
			s.mount("", old)
			s.mount("", s.volume(s.next, "pv-2", with("pv-1", "pv-2")))
			s.runs(s.next, 1)
		}, policy.Yes},
		"the successor has it inside its mount": {func(s volumeScene) {
			s.mount("", hashed)
			mount := s.PodDir(s.next) + "/volumes/kubernetes.io~csi/pv-1/mount"
			s.mount("", mount)
			s.Write(mount+"/vol_data.json", goodVolData)
			s.runs(s.next, 1)
		}, policy.Yes},
		"a block volume published for the successor": {func(s volumeScene) {
			block(s, published)
			s.mount("device", published+string(s.next))
		}, policy.No},
		"a block volume mapped for it": {func(s volumeScene) {
			block(s, mapped)
			s.mount("device", mapped+string(s.next))
		}, policy.No},
		"a block volume not mapped": {func(s volumeScene) { block(s, published) }, policy.Yes},
		"a block volume of another name": {func(s volumeScene) {
			block(s, published)
			s.Write(csi+"volumeDevices/publish/pv-2/"+string(s.next), "")
			s.mount("device", csi+"volumeDevices/publish/pv-2/"+string(s.next))
		}, policy.Yes},
	} {
		for way, mode := range modes {
			t.Run(name+" "+way, func(t *testing.T) {
				s := volumeScene{mode(t), newUID(), newUID(), newUID()}
				s.Mkdir(s.volume(s.orphan, "pv-1", goodVolData), s.volume(s.second, "pv-1", goodVolData), s.PodDir(s.next))
				c.make(s)
				look := s.look()
				for _, uid := range []parsers.PodUID{s.orphan, s.second} {
					e := find(t, look, uid)
					check(t, e, but(facts{policy.FactStaged: c.want}))
					if c.want == policy.No {
						wantDetail(t, e.Facts[policy.FactStaged], "pod "+string(s.next))
					}
				}
				one, err := s.probe().Look(t.Context(), nil, []parsers.PodUID{s.orphan})
				must(t, err)
				check(t, find(t, one, s.orphan), facts{policy.FactStaged: c.want})
			})
		}
	}
}
