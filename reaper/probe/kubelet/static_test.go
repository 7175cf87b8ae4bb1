package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// TestManifests checks which fields of a manifest are read. An unreadable manifest is an error beside the others.
func TestManifests(t *testing.T) {
	const etcd, unread = "etcd kube-system/etcd ", "a kube-system/a , c kube-system/c "
	for name, c := range map[string]struct {
		files     map[string]string
		want, err string // each manifest's file, namespace, name and UID
	}{
		"none":                     {},
		"one":                      {map[string]string{"etcd": testkit.EtcdManifest}, etcd, ""},
		"a stated UID":             {map[string]string{"a": "kind: Pod\nmetadata:\n  name: etcd\n  uid: U\n"}, "a default/etcd U", ""},
		"JSON with tabs":           {map[string]string{"a": "{\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"web\"}\n}"}, "a default/web ", ""},
		"any file name":            {map[string]string{"etcd.bak": testkit.EtcdManifest}, "etcd.bak kube-system/etcd ", ""},
		"hidden":                   {map[string]string{".etcd": testkit.EtcdManifest}, "", ""},
		"hidden, and not readable": {map[string]string{".etcd.swp": "\x00"}, "", ""},
		"another kind":             {map[string]string{"a": "kind: Kustomization\n"}, "", ""},
		"no kind":                  {map[string]string{"README": ""}, "", "README: it has no kind"},
		"no name":                  {map[string]string{"a": "kind: Pod\n"}, "", "no name"},
		"no YAML":                  {map[string]string{"a": "kind: [\n"}, "", "cannot read the static pods' manifests"},
		"too long":                 {map[string]string{"a": strings.Repeat("#", maxManifest+1)}, "", "longer than"},
		"long":                     {map[string]string{"a": testkit.EtcdManifest + strings.Repeat("#", maxConfig)}, "a kube-system/etcd ", ""},
		"one that cannot be read": {map[string]string{
			"a": "", "b": strings.Repeat("#", maxManifest+1), "c": strings.ReplaceAll(testkit.EtcdManifest, "etcd", "c"),
		}, "c kube-system/c ", "b: it is longer than"},
		"between two": {map[string]string{
			"a": strings.ReplaceAll(testkit.EtcdManifest, "etcd", "a"), "b": "", "c": strings.ReplaceAll(testkit.EtcdManifest, "etcd", "c"),
		}, unread, "b: it has no kind"},
	} {
		dir := manifests(t, c.files)
		for _, url := range []string{"", "http://x/"} {
			s := readStaticPods(configured(t, "kubelet", "--pod-manifest-path", dir, "--manifest-url="+url))
			var got []string
			for _, m := range s.Manifests {
				got = append(got, fmt.Sprintf("%s %s/%s %s", strings.TrimPrefix(m.File, dir+"/"), m.Namespace, m.Name, m.UID))
			}
			if strings.Join(got, ", ") != c.want || s.Node != "node-1" || (s.Unsure == "") != (url == "") {
				t.Errorf("%s: %q, %q, want %q", name, got, s.Unsure, c.want)
			}
			if (s.Err != nil) != (c.err != "") || c.err != "" && !strings.Contains(s.Err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, s.Err, c.err)
			}
			if broken := c.err != "" && name != "too long" && name != "one that cannot be read"; broken != (len(s.Broken) == 1) {
				t.Errorf("%s: %d are broken, %v", name, len(s.Broken), s.Err)
			}
		}
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
			s := readStaticPods(configured(t, c.comm, c.args...))
			f := s.Fact(&policy.Evidence{UID: testkit.StaticUID, Namespace: "kube-system", PodName: "etcd-node-1", CertainName: true}, nil)
			if f.Truth != c.want || f.Origin == "" {
				t.Errorf("%+v, want %s", f, c.want)
			}
		})
	}
}
