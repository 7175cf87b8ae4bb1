package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// manifests makes a directory of manifests.
func manifests(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.WriteText(t, filepath.Join(dir, name), text)
	}
	return dir
}

// staticCase is one pod beside the manifest of kube-system/etcd.
type staticCase struct {
	name      string
	uid       parsers.PodUID // default staticUID2
	namespace string
	pod       string
	uncertain bool
	manifests map[string]string
	args      []string
	running   map[policy.PodName][]policy.StaticSandbox
	btime     int64
	want      policy.Truth
	detail    string
}

func (c staticCase) run(t *testing.T) {
	t.Helper()
	dir := manifests(t, c.manifests)
	s := readStaticPods(told(t, "kubelet", append([]string{"--pod-manifest-path", dir}, c.args...)...))
	e := policy.Evidence{UID: testkit.StaticUID, Namespace: c.namespace, PodName: c.pod, ID: policy.DirID{Btime: c.btime}}
	if c.uid != "" {
		e.UID = c.uid
	}
	e.CertainName = c.pod != "" && !c.uncertain
	f := s.Fact(&e, c.running)
	if f.Truth != c.want || !strings.Contains(f.Detail, c.detail) || f.Truth == policy.Unknown && f.Detail == "" {
		t.Errorf("%+v, want %s with %q", f, c.want, c.detail)
	}
}

func TestStaticPod(t *testing.T) {
	etcd := map[string]string{"etcd.yaml": testkit.EtcdManifest}
	stated := map[string]string{"etcd.yaml": "kind: Pod\nmetadata:\n  name: etcd\n  uid: " + string(testkit.APIUID) + "\n"}
	for _, c := range []staticCase{
		{name: "no manifest", namespace: "kube-system", pod: "etcd-node-1", want: policy.No},
		{name: "no manifest and no name", want: policy.No},
		{name: "its manifest", namespace: "kube-system", pod: "etcd-node-1", manifests: etcd, want: policy.Yes, detail: "etcd.yaml is this pod's manifest"},
		{name: "its manifest without the node's name", namespace: "kube-system", pod: "etcd", manifests: etcd, want: policy.Yes},
		{name: "its manifest on a node of another name", namespace: "kube-system", pod: "etcd-renamed", manifests: etcd, want: policy.Yes},
		{name: "another name", namespace: "kube-system", pod: "etcdctl-node-1", manifests: etcd, want: policy.No},
		{name: "another namespace", namespace: "default", pod: "etcd-node-1", manifests: etcd, want: policy.No},
		{name: "the name is not known", manifests: etcd, want: policy.Unknown, detail: "the pod's name is not known"},
		{name: "a host name that fits", pod: "etcd-node-1", uncertain: true, manifests: etcd, want: policy.Yes},
		{name: "a host name that does not", pod: "db", uncertain: true, manifests: etcd, want: policy.Unknown},
		{
			name: "the default namespace", namespace: "default", pod: "web-node-1",
			manifests: map[string]string{"w": "kind: Pod\nmetadata: {name: web}\n"}, want: policy.Yes,
		},
		{
			name: "JSON with tabs", namespace: "default", pod: "web-node-1",
			manifests: map[string]string{"w.json": "{\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"web\"}\n}"}, want: policy.Yes,
		},
		{name: "any file name", namespace: "kube-system", pod: "etcd-node-1", manifests: map[string]string{"etcd.yaml.bak": testkit.EtcdManifest}, want: policy.Yes},
		{name: "a hidden file", namespace: "kube-system", pod: "etcd-node-1", manifests: map[string]string{".etcd.yaml": testkit.EtcdManifest}, want: policy.No},
		{name: "a hidden file that cannot be parsed", manifests: map[string]string{".etcd.yaml.swp": "\x00"}, want: policy.No},
		{name: "an API pod", uid: testkit.APIUID, namespace: "kube-system", pod: "etcd-node-1", manifests: etcd, want: policy.No},
		{name: "a stated UID", uid: testkit.APIUID, manifests: stated, want: policy.Yes, detail: "states this UID"},
		{name: "another stated UID", namespace: "default", pod: "etcd-node-1", manifests: stated, want: policy.No},
		{name: "another kind", manifests: map[string]string{"k.yaml": "kind: Kustomization\n"}, want: policy.No},
		{name: "no kind", manifests: map[string]string{"README": ""}, want: policy.Unknown, detail: "it names no kind"},
		{name: "no name", manifests: map[string]string{"a": "kind: Pod\n"}, want: policy.Unknown, detail: "no name"},
		{name: "no YAML", manifests: map[string]string{"a": "kind: [\n"}, want: policy.Unknown, detail: "cannot read the static pods' manifests"},
		{
			name: "not its own, and one that cannot be read", namespace: "kube-system", pod: "x-node-1",
			manifests: map[string]string{"a": "", "etcd": testkit.EtcdManifest}, want: policy.Unknown, detail: "it names no kind",
		},
		{
			name: "its own, and one that cannot be read", namespace: "kube-system", pod: "etcd-node-1",
			manifests: map[string]string{"a": "", "etcd": testkit.EtcdManifest}, want: policy.Yes,
		},
		{name: "an API pod, and one that cannot be read", uid: testkit.APIUID, manifests: map[string]string{"a": ""}, want: policy.No},
		{name: "too long", manifests: map[string]string{"a": strings.Repeat("#", maxConfig+1)}, want: policy.Unknown, detail: "longer than"},
		{name: "more from a URL", args: []string{"--manifest-url=http://x/"}, want: policy.Unknown, detail: "URL"},
		{
			name: "its own, more from a URL", namespace: "kube-system", pod: "etcd-node-1", manifests: etcd,
			args: []string{"--manifest-url=http://x/"}, want: policy.Yes,
		},
		{name: "an API pod, more from a URL", uid: testkit.APIUID, args: []string{"--manifest-url=http://x/"}, want: policy.No},
	} {
		t.Run(c.name, c.run)
	}
}

// TestStaticPodOfAnOlderKubelet: the manifest runs under another UID since the directory
// was made, so the directory's is one that the manifest had before.
func TestStaticPodOfAnOlderKubelet(t *testing.T) {
	etcd := map[string]string{"etcd.yaml": testkit.EtcdManifest}
	two := map[string]string{"etcd.yaml": testkit.EtcdManifest, "events.yaml": "kind: Pod\nmetadata: {name: etcd-events, namespace: kube-system}\n"}
	runs := func(name string, created int64, uids ...string) map[policy.PodName][]policy.StaticSandbox {
		return map[policy.PodName][]policy.StaticSandbox{{Namespace: "kube-system", Name: name}: {{UIDs: uids, Created: created}}}
	}
	for _, c := range []staticCase{
		{name: "runs under another UID", running: runs("etcd-node-1", 20, testkit.OtherStatic), want: policy.No, detail: "under another UID: " + testkit.OtherStatic},
		{
			name: "runs under another UID, the name not known", uncertain: true, running: runs("etcd-node-1", 20, testkit.OtherStatic),
			want: policy.No, detail: "etcd.yaml is the manifest of etcd-node-1",
		},
		{name: "a node of another name, the name not known", uncertain: true, running: runs("etcd-renamed", 20, testkit.OtherStatic), want: policy.Unknown},
		{name: "runs under this UID", running: runs("etcd-node-1", 20, string(testkit.StaticUID)), want: policy.Yes},
		{name: "runs under this UID by its annotation", running: runs("etcd-node-1", 20, string(testkit.APIUID), string(testkit.StaticUID)), want: policy.Yes},
		{name: "the sandbox is older than the directory", running: runs("etcd-node-1", 5, testkit.OtherStatic), want: policy.Yes},
		{name: "another pod's sandbox", running: runs("etcd-events-node-1", 20, testkit.OtherStatic), want: policy.Yes},
		{
			name: "one of two runs, the name not known", uncertain: true, manifests: two,
			running: runs("etcd-events-node-1", 20, testkit.OtherStatic), want: policy.Unknown, detail: "etcd.yaml may be",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.btime = 10
			if c.manifests == nil {
				c.manifests = etcd
			}
			if !c.uncertain {
				c.namespace, c.pod = "kube-system", "etcd-node-1"
			}
			c.run(t)
			if c.want == policy.No {
				c.btime, c.want, c.detail = 0, policy.Yes, "" // a file system without birth times
				if c.uncertain {
					c.want = policy.Unknown
				}
				c.run(t)
			}
		})
	}
}

func TestStaticPodPaths(t *testing.T) {
	dir := manifests(t, map[string]string{"etcd.yaml": testkit.EtcdManifest})
	config := t.TempDir()
	file := func(name, text string) string { return testkit.WriteText(t, filepath.Join(config, name), text) }
	testkit.Must(t, os.Mkdir(filepath.Join(config, "bad"), 0o700))
	file("bad/10.conf", "staticPodPath: manifests\n")
	testkit.Must(t, os.Symlink(dir, filepath.Join(config, "manifests")))
	testkit.Must(t, os.Symlink("missing", filepath.Join(config, "dangling")))
	testkit.Must(t, os.MkdirAll(filepath.Join(config, "k3s", "agent"), 0o700))
	testkit.Must(t, os.Symlink(dir, filepath.Join(config, "k3s", "agent", "pod-manifests")))
	fifo := t.TempDir()
	testkit.Must(t, unix.Mkfifo(filepath.Join(fifo, "pipe"), 0o600))
	testkit.Must(t, os.Mkdir(filepath.Join(fifo, "directory"), 0o700))
	linked := t.TempDir()
	testkit.Must(t, os.Symlink(filepath.Join(dir, "etcd.yaml"), filepath.Join(linked, "e")))
	dangling := t.TempDir()
	testkit.Must(t, os.Symlink("missing", filepath.Join(dangling, "e")))
	crowd := t.TempDir()
	for i := range mostFiles + 1 {
		testkit.WriteText(t, filepath.Join(crowd, fmt.Sprint(i)), "kind: List\n")
	}
	for _, c := range []struct {
		name string
		comm string
		args []string
		want policy.Truth
	}{
		{"none", "kubelet", nil, policy.No},
		{"flag", "kubelet", []string{"--pod-manifest-path=" + dir}, policy.Yes},
		{"one file", "kubelet", []string{"--pod-manifest-path=" + dir + "/etcd.yaml"}, policy.Yes},
		{"file", "kubelet", []string{"--config=" + file("a", "kind: KubeletConfiguration\nstaticPodPath: "+dir+"\n")}, policy.Yes},
		{"relative to the file, by a symlink", "kubelet", []string{"--config=" + file("b", "staticPodPath: manifests\n")}, policy.Yes},
		{"URL in the file", "kubelet", []string{"--config=" + file("u", "staticPodURL: http://x\n")}, policy.Unknown},
		{"neither FIFO nor directory is one", "kubelet", []string{"--pod-manifest-path=" + fifo}, policy.No},
		{"a symlink to one", "kubelet", []string{"--pod-manifest-path=" + linked}, policy.Yes},
		{"a symlink to nothing", "kubelet", []string{"--pod-manifest-path=" + dangling}, policy.Unknown},
		{"missing", "kubelet", []string{"--pod-manifest-path=/nonexistent/m"}, policy.No},
		{"below a file", "kubelet", []string{"--pod-manifest-path=" + dir + "/etcd.yaml/x"}, policy.Unknown},
		{"too many", "kubelet", []string{"--pod-manifest-path=" + crowd}, policy.Unknown},
		{"relative flag", "kubelet", []string{"--pod-manifest-path=m"}, policy.Unknown},
		{"relative drop-in", "kubelet", []string{"--config-dir=" + config + "/bad"}, policy.Unknown},
		{"broken configuration", "kubelet", []string{"--config=" + file("f", "staticPodPath: [\n")}, policy.Unknown},
		{"k3s in its data directory", "k3s", []string{"server", "--data-dir=" + config + "/k3s"}, policy.Yes},
		{"k3s with another path", "k3s", []string{"agent", "--data-dir=" + config + "/d", "--kubelet-arg=pod-manifest-path=" + dir}, policy.Yes},
		{"k3s whose directory is not where it should be", "k3s", []string{"agent", "--data-dir=" + config + "/d"}, policy.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := readStaticPods(told(t, c.comm, c.args...))
			f := s.Fact(&policy.Evidence{UID: testkit.StaticUID, Namespace: "kube-system", PodName: "etcd-node-1", CertainName: true}, nil)
			if f.Truth != c.want || f.Origin == "" {
				t.Errorf("%+v, want %s", f, c.want)
			}
		})
	}
}
