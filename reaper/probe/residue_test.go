package probe

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const goodVolData = `{"attachmentID":"csi-1","driverName":"ebs.csi.aws.com","nodeName":"n","specVolID":"pv-1","volumeHandle":"vol-1"}`

const goodUserns = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`

// rows returns the residue as "path class", in order.
func rows(e policy.Evidence) string {
	var out []string
	for _, r := range e.Residue {
		row := r.Path + " " + r.Class.String()
		if r.Partial {
			row += " partial"
		}
		out = append(out, row)
	}
	return strings.Join(out, ", ")
}

// TestResidue makes each kind of residue that real kubelets report or ignore.
func TestResidue(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	cases := []struct {
		name string
		make func(n *testNode, pod string)
		want facts
		rows string
	}{
		{"empty", func(*testNode, string) {}, dead(), ". skeleton"},
		{"csi vol_data.json, mount empty", func(n *testNode, pod string) {
			n.Write(pod+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
			n.Mkdir(pod + "/volumes/kubernetes.io~csi/pv-1/mount")
		}, dead(), ". skeleton, volumes/kubernetes.io~csi/pv-1 skeleton, volumes/kubernetes.io~csi/pv-1/mount skeleton"},
		{"csi with data in mount", func(n *testNode, pod string) {
			n.Write(pod+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
			n.Write(pod+"/volumes/kubernetes.io~csi/pv-1/mount/base/1/pg", "data")
		}, dead(), ". skeleton, volumes/kubernetes.io~csi/pv-1 skeleton, volumes/kubernetes.io~csi/pv-1/mount data"},
		{"ephemeral csi with secrets in mount, and a persistent one that holds such a file", func(n *testNode, pod string) {
			ephemeral := strings.Replace(goodVolData, "{", `{"volumeLifecycleMode":"Ephemeral",`, 1)
			n.Write(pod+"/volumes/kubernetes.io~csi/a/mount/password", "x")
			n.Write(pod+"/volumes/kubernetes.io~csi/a/vol_data.json", ephemeral)
			n.Write(pod+"/volumes/kubernetes.io~csi/b/mount/vol_data.json", ephemeral)
			n.Write(pod+"/volumes/kubernetes.io~csi/b/vol_data.json", goodVolData)
			n.Write(pod+"/volumes/kubernetes.io~csi/c/mount/f", "data")
		}, dead(), ". skeleton, volumes/kubernetes.io~csi/a skeleton, volumes/kubernetes.io~csi/a/mount ephemeral, volumes/kubernetes.io~csi/b skeleton, " +
			"volumes/kubernetes.io~csi/b/mount data, volumes/kubernetes.io~csi/c skeleton, volumes/kubernetes.io~csi/c/mount data"},
		{"userns", func(n *testNode, pod string) {
			n.Write(pod+"/userns", goodUserns)
			n.Write(pod+"/.123", "")
		}, dead(), ". skeleton, .123 skeleton, userns skeleton"},
		{"no userns of the kubelet's", func(n *testNode, pod string) {
			n.Write(pod+"/userns", "mine")
			n.Symlink("userns", pod+"/.123")
			n.Write(pod+"/other/userns", goodUserns)
		}, dead(), ". skeleton, .123 data, other data, userns data"},
		{"empty volume directories", func(n *testNode, pod string) {
			n.Mkdir(pod+"/volumes/kubernetes.io~nfs/a/b/c", pod+"/volumes/kubernetes.io~empty-dir/tmp")
		}, dead(), ". skeleton, volumes/kubernetes.io~empty-dir/tmp skeleton, volumes/kubernetes.io~nfs/a skeleton"},
		{"data in a volume directory", func(n *testNode, pod string) {
			n.Write(pod+"/volumes/kubernetes.io~local-volume/pv-2/f", "data")
			n.Write(pod+"/volumes/kubernetes.io~empty-dir/tmp/f", "data")
			n.Write(pod+"/volumes/kubernetes.io~secret/token/..data/token", "x")
		}, dead(), ". skeleton, volumes/kubernetes.io~empty-dir/tmp ephemeral, " +
			"volumes/kubernetes.io~local-volume/pv-2 data, volumes/kubernetes.io~secret/token projected"},
		{"tmpfs mounted", func(n *testNode, pod string) {
			n.mount("", pod+"/volumes/kubernetes.io~empty-dir/tmp")
		}, but(facts{policy.FactMounted: policy.Yes}), ". skeleton"},
		{"bind of the same file system", func(n *testNode, pod string) {
			n.Mkdir("elsewhere", pod+"/containers/c")
			n.mount("elsewhere", pod+"/containers/c")
		}, but(facts{policy.FactMounted: policy.Yes}), ". skeleton, containers skeleton"},
		{"subpath: file and empty directory", func(n *testNode, pod string) {
			n.Write(pod+"/volume-subpaths/v/c/0", "")
			n.Mkdir(pod + "/volume-subpaths/v/c/1")
		}, dead(), ". skeleton, volume-subpaths/v skeleton, volume-subpaths/v/c/1 skeleton"},
		{"subpath: a bound file", func(n *testNode, pod string) {
			n.Write("elsewhere-file", "data")
			n.Write(pod+"/volume-subpaths/v/c/0", "")
			n.mount("elsewhere-file", pod+"/volume-subpaths/v/c/0")
		}, but(facts{policy.FactMounted: policy.Yes}), ". skeleton, volume-subpaths/v skeleton"},
		{"file and symlink as volumes", func(n *testNode, pod string) {
			n.Write(pod+"/volumes/kubernetes.io~nfs/f", "data")
			n.Symlink("/etc", pod+"/volumes/kubernetes.io~nfs/l")
		}, dead(), ". skeleton, volumes/kubernetes.io~nfs/f data, volumes/kubernetes.io~nfs/l data"},
		{"containers, plugins, etc-hosts", func(n *testNode, pod string) {
			n.Write(pod+"/containers/c/0123abcd", "message")
			n.Write(pod+"/plugins/kubernetes.io~empty-dir/wrapped_x/ready", "")
			n.Write(pod+"/etc-hosts", "# Kubernetes-managed hosts file.\n")
		}, dead(), ". skeleton, containers skeleton, etc-hosts skeleton, plugins skeleton"},
		{"what is not known", func(n *testNode, pod string) {
			n.Write(pod+"/new\nthing/f", "x")
			n.Mkdir(pod + "/bad\xff")
			must(n.T, unix.Mkfifo(n.Path(pod+"/fifo"), 0o600))
			n.Mkdir(pod + "/volumes/kubernetes.io~csi/pv-1")
			must(n.T, unix.Mkfifo(n.Path(pod+"/volumes/kubernetes.io~csi/pv-1/vol_data.json"), 0o600))
		}, dead(), `"bad\xff" skeleton, "new\nthing" data, . skeleton, fifo data, ` +
			"volumes/kubernetes.io~csi/pv-1 skeleton, volumes/kubernetes.io~csi/pv-1/vol_data.json data"},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					uid := newUID()
					n := &testNode{Node: testkit.Node{T: t, Base: n.Base}, cfg: n.cfg, fallback: n.fallback, patience: n.patience}
					n.Mkdir(n.PodDir(uid))
					c.make(n, n.PodDir(uid))
					want, wantRows := c.want, c.rows
					if n.fallback && want[policy.FactMounted] == policy.Yes {
						// The mount is known from mountinfo, so the pod is not walked.
						want, wantRows = but(facts{
							policy.FactMounted: policy.Yes, policy.FactContent: policy.Unknown, policy.FactStaged: policy.Unknown,
						}), ""
					}
					e := n.one(uid)
					check(t, e, want)
					if got := rows(e); got != wantRows {
						t.Errorf("residue is\n%s, want\n%s", got, wantRows)
					}
					if e.ID.Ino == 0 || e.ID.Dev == 0 || e.Changed.IsZero() {
						t.Errorf("the directory has no identity: %+v, %v", e.ID, e.Changed)
					}
				})
			}
		})
	}
}

func TestNamesThatAreNoPodDirectory(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			file, link, static := newUID(), newUID(), newStaticUID()
			n.Write(n.PodDir(file), "x")
			n.Symlink("/etc", n.PodDir(link))
			n.Mkdir(n.PodDir(static), "kubelet/pods/lost+found", "kubelet/pods/a\nb\xff", "kubelet/pods/"+strings.ToUpper(string(newUID())))
			must(t, unix.Mkfifo(n.Path("kubelet/pods/fifo"), 0o600))
			look := n.look()
			notDir := facts{policy.FactDirectory: policy.No, policy.FactOwnMount: policy.No, policy.FactMounted: policy.No, policy.FactStaged: policy.No}
			check(t, find(t, look, file), notDir)
			check(t, find(t, look, link), notDir)
			check(t, find(t, look, static), dead())
			wantDetail(t, find(t, look, file).Facts[policy.FactDirectory], "a regular file")
			wantDetail(t, find(t, look, link).Facts[policy.FactDirectory], "a symlink")
			strange := 0
			for i, e := range look.Pods {
				if i > 0 && look.Pods[i-1].Name >= e.Name {
					t.Errorf("%q comes before %q", look.Pods[i-1].Name, e.Name)
				}
				if e.UID == "" {
					strange++
					if e.Facts != (policy.Facts{}) || e.Residue != nil {
						t.Errorf("%q is not a pod and was read", e.Name)
					}
				}
			}
			if strange != 3 { // the file system's own directory does not count
				t.Errorf("%d strange names, want 3", strange)
			}
		})
	}
}

func TestOwnMount(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid := newUID()
			n.mount("", n.PodDir(uid))
			e := n.one(uid)
			check(t, e, facts{policy.FactOwnMount: policy.Yes, policy.FactDirectory: policy.Yes, policy.FactMounted: policy.Yes, policy.FactContent: policy.Unknown})
		})
	}
}

func TestOnly(t *testing.T) {
	n, a, b := newNode(t), newUID(), newUID()
	n.Mkdir(n.PodDir(a), n.PodDir(b), "kubelet/pods/junk")
	look, err := n.probe().Look(t.Context(), nil, []parsers.PodUID{a, newUID()})
	must(t, err)
	if len(look.Pods) != 1 || look.Pods[0].UID != a {
		t.Fatalf("the look has %d pods, want the selected one", len(look.Pods))
	}
	check(t, look.Pods[0], dead())
}

// TestLookChangesNothing compares every time stamp of a tree before and after a look.
func TestLookChangesNothing(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid := newUID()
			n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
			n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~csi/pv-1/mount/f", "data")
			n.Write(n.PodDir(uid)+"/etc-hosts", "x")
			old := unix.NsecToTimespec(1e18)
			stamp := func() map[string]unix.Stat_t {
				all := map[string]unix.Stat_t{}
				for p := range strings.FieldsSeq(walkAll(t, n.Path(n.PodDir(uid)))) {
					var st unix.Stat_t
					must(t, unix.Lstat(p, &st))
					all[p] = st
				}
				return all
			}
			for p := range stamp() {
				must(t, unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{old, old}, 0))
			}
			before := stamp()
			n.look()
			for p, st := range stamp() {
				if st != before[p] {
					t.Errorf("%s: %+v, want %+v", p, st, before[p])
				}
			}
		})
	}
}

// walkAll lists a tree by names, which does not change the access times in it.
func walkAll(t *testing.T, dir string) string {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	must(t, err)
	f := os.NewFile(uintptr(fd), dir)
	defer func() { must(t, f.Close()) }()
	entries, err := f.ReadDir(-1)
	must(t, err)
	var out strings.Builder
	out.WriteString(dir)
	for _, e := range entries {
		if p := dir + "/" + e.Name(); e.IsDir() {
			out.WriteString("\n" + walkAll(t, p))
		} else {
			out.WriteString("\n" + p)
		}
	}
	return out.String()
}
