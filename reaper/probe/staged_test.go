package probe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// mostInVolData is the largest vol_data.json that poddir reads.
const mostInVolData = 1 << 20

func TestStaged(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	const csi = "kubelet/plugins/kubernetes.io/csi/"
	global := csi + "ebs.csi.aws.com/" + fmt.Sprintf("%x", sha256.Sum256([]byte("vol-1"))) + "/globalmount"
	volume := func(n *testNode, pod, text string) {
		n.Write(pod+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", text)
	}
	cases := []struct {
		name   string
		make   func(n *testNode, pod, uid string)
		want   policy.Truth
		detail string
	}{
		{"nothing is there", func(n *testNode, pod, _ string) { volume(n, pod, goodVolData) }, policy.No, ""},
		{"globalmount, mounted", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.mount("", global)
		}, policy.Yes, "globalmount"},
		{"globalmount, not mounted", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.Mkdir(global)
		}, policy.No, "nothing is mounted at kubernetes.io/csi/ebs"},
		{"mounted below globalmount", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.mount("", global+"/sub")
		}, policy.Yes, "globalmount/sub"},
		{"mounted in another namespace", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.Mkdir(global)
			child(n.T, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}, "", "mount -t tmpfs t '"+n.Path(global)+"'")
		}, policy.Yes, "PID"},
		{"layout before 1.24", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.mount("", csi+"pv/pv-1/globalmount")
		}, policy.Yes, "pv/pv-1"},
		{"another volume's", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData)
			n.mount("", csi+"pv/pv-10/globalmount")
		}, policy.No, ""},
		{"empty vol_data.json, CSI in use", func(n *testNode, pod, _ string) {
			volume(n, pod, "")
			n.mount("", csi+"d/0123/globalmount")
		}, policy.Unknown, "does not name its volume"},
		{"empty vol_data.json, no CSI mounts", func(n *testNode, pod, _ string) { volume(n, pod, "") }, policy.No, ""},
		{"huge vol_data.json, CSI in use", func(n *testNode, pod, _ string) {
			volume(n, pod, goodVolData+strings.Repeat(" ", mostInVolData))
			n.mount("", csi+"d/0123/globalmount")
		}, policy.Unknown, "longer than"},
		{"no vol_data.json, old layout by its name", func(n *testNode, pod, _ string) {
			n.Mkdir(pod + "/volumes/kubernetes.io~csi/pv-1")
			n.mount("", csi+"pv/pv-1/globalmount")
		}, policy.Yes, ""},
		{"a driver name that leads elsewhere", func(n *testNode, pod, _ string) {
			volume(n, pod, `{"driverName":"../../..","volumeHandle":"v","specVolID":"../x/y"}`)
			n.Mkdir(csi)
		}, policy.No, ""},
		{"in-tree plugin", func(n *testNode, pod, _ string) {
			n.Mkdir(pod + "/volumes/kubernetes.io~gce-pd/disk-1")
			n.mount("", "kubelet/plugins/kubernetes.io/gce-pd/mounts/disk-1")
		}, policy.Yes, "gce-pd/mounts/disk-1"},
		{"in-tree plugin, same name with another", func(n *testNode, pod, _ string) {
			n.Mkdir(pod + "/volumes/kubernetes.io~gce-pd/disk-1")
			n.mount("", "kubelet/plugins/kubernetes.io/rbd/mounts/disk-1")
		}, policy.No, ""},
		{"flexvolume", func(n *testNode, pod, _ string) {
			n.Mkdir(pod + "/volumes/acme~disk/data")
			n.mount("", "kubelet/plugins/kubernetes.io/flexvolume/acme/disk/mounts/data")
		}, policy.Yes, ""},
		{"block: publish", func(n *testNode, _, uid string) { n.Write(csi+"volumeDevices/publish/pv-1/"+uid, "") }, policy.Yes, "publish/pv-1"},
		{"block: only staged for others", func(n *testNode, _, _ string) {
			n.Write(csi+"volumeDevices/publish/pv-1/"+string(newUID()), "")
			n.Mkdir(csi + "volumeDevices/staging/pv-1/" + strings.Repeat("d/", 20))
		}, policy.No, ""},
		{"block: another's mount is in the way", func(n *testNode, _, uid string) {
			n.Write(csi+"volumeDevices/pv-1/dev/"+uid, "")
			n.mount("", csi+"volumeDevices/publish/pv-2")
		}, policy.Yes, ""},
		{"plugins is a file", func(n *testNode, _, _ string) { n.Write("kubelet/plugins", "") }, policy.Unknown, "not a directory"},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			first := mode(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					n, uid := newNode(t), newUID()
					n.fallback = first.fallback
					n.Mkdir(n.PodDir(uid))
					c.make(n, n.PodDir(uid), string(uid))
					e := n.one(uid)
					check(t, e, but(facts{policy.FactStaged: c.want}))
					wantDetail(t, e.Facts[policy.FactStaged], c.detail)
				})
			}
		})
	}
}

// TestStagedSeenOnlyByTheWalk checks that a staging path that openat2 refuses to cross is mounted, even if mountinfo
// did not have it a moment before.
func TestStagedSeenOnlyByTheWalk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n, uid := mode(t), newUID()
			n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
			n.mount("", "kubelet/plugins/kubernetes.io/csi/pv/pv-1/globalmount")
			n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(1, "/", "/")})
			check(t, n.one(uid), facts{policy.FactMounted: policy.No, policy.FactStaged: policy.Yes})
		})
	}
}

// TestStagedFromTheRecord checks that the volumes of a stripped, parked pod are still known.
func TestStagedFromTheRecord(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Mkdir("kubelet/orphan-reaper/" + string(uid) + ".1")
	n.mount("", "kubelet/plugins/kubernetes.io/csi/pv/pv-1/globalmount")
	s := policy.EntryState{Entry: string(uid) + ".1", UID: uid, VolData: map[string]string{"v": goodVolData}}
	check(t, n.look(s).Parked[0], facts{policy.FactStaged: policy.Yes})
	s.VolData = nil
	check(t, n.look(s).Parked[0], facts{policy.FactStaged: policy.No})
}

// TestVolumesUnlisted checks that a pod whose volumes were not all read may have a staged one, whatever the reason.
func TestVolumesUnlisted(t *testing.T) {
	l := &gathering{Dirs: &poddir.Dirs{}, mounts: &mounts.Answer{}, blocks: &poddir.Blocks{}}
	for words, r := range map[string]*poddir.Answer{
		"":                      {Content: &poddir.Content{}},
		"volumes are not known": {},
		"it lives":              {Alive: "it lives"},
		"cannot read it":        {Err: errors.New("cannot read it"), Content: &poddir.Content{}},
		"has: too many":         {Content: &poddir.Content{Unlisted: errors.New("too many")}},
	} {
		want := policy.Unknown
		if words == "" {
			want = policy.No
		}
		f := l.volumesOf(newUID(), r).Staged("/plugins", &l.volumeUsers)
		if wantDetail(t, f, words); f.Truth != want {
			t.Errorf("%q: %+v, want %s", words, f, want)
		}
	}
}
