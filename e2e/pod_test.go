package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

func runQuietly(args ...string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).Output()
	return string(out), err
}

// pod is one static pod with an application that fails if its files disappear.
type pod struct {
	uid, name string
	image     string // "": the image of the suite
	spec      string // of the pod, in YAML flow style, besides its containers
	mounts    string // of the container: volumeMounts
	dirs      string // where the application keeps files, as arguments in YAML
	files     []string
}

// livingPods run beside every scenario: one on the host's network with data in an emptyDir and in a directory of the
// host, one on the bridge with data in memory and behind a subPath. Their UIDs sort between those of the orphans.
func (n *node) livingPods(t *testing.T) []pod {
	t.Helper()
	hostPath := mkdir(t, filepath.Join(n.dir, "host-path"))
	return []pod{
		{
			uid: n.uid("5a11fe00-0000-4000-8000-00000000001_"), name: "steady",
			spec:   `hostNetwork: true, volumes: [{name: data, emptyDir: {}}, {name: host, hostPath: {path: ` + hostPath + `}}]`,
			mounts: `[{name: data, mountPath: /data}, {name: host, mountPath: /host}]`, dirs: `/data, /host`,
			files: []string{"volumes/kubernetes.io~empty-dir/data"},
		},
		{
			uid: n.uid("5a11fe00-0000-4000-8000-00000000002_"), name: "networked",
			spec:   `volumes: [{name: mem, emptyDir: {medium: Memory}}, {name: data, emptyDir: {}}]`,
			mounts: `[{name: mem, mountPath: /mem}, {name: data, mountPath: /sub, subPath: part}]`, dirs: `/mem, /sub`,
			files: []string{"volumes/kubernetes.io~empty-dir/mem", "volumes/kubernetes.io~empty-dir/data/part"},
		},
	}
}

// parts returns metadata and spec in YAML. A manifest must not begin with a brace: the kubelet would parse it as
// JSON.
func (p pod) parts() (metadata, spec string) {
	return fmt.Sprintf("{name: %s, namespace: e2e, uid: %s}", p.name, p.uid),
		fmt.Sprintf("{%s, terminationGracePeriodSeconds: 2, containers: [{name: app, image: %s, imagePullPolicy: Never, "+
			"command: [/pause, %s], volumeMounts: %s}]}", p.spec, cmp.Or(p.image, image.Name), p.dirs, p.mounts)
}

// serve makes the kubelet run exactly these pods from its other source of static pods: a URL, without a manifest on
// the node.
func (n *node) serve(pods ...pod) {
	items := make([]string, 0, len(pods))
	for _, p := range pods {
		metadata, spec := p.parts()
		items = append(items, "{metadata: "+metadata+", spec: "+spec+"}")
	}
	n.served.Store("apiVersion: v1\nkind: PodList\nitems: [" + strings.Join(items, ", ") + "]\n")
}

// run gives the kubelet the pod's manifest.
func (n *node) run(t *testing.T, p pod) {
	t.Helper()
	// Written by a rename: the kubelet must never see a partial manifest.
	path := filepath.Join(n.dir, "manifests", p.name+".yaml")
	metadata, spec := p.parts()
	write(t, filepath.Join(n.dir, p.name+".new"), "apiVersion: v1\nkind: Pod\nmetadata: "+metadata+"\nspec: "+spec+"\n")
	if err := os.Rename(filepath.Join(n.dir, p.name+".new"), path); err != nil {
		t.Fatal(err)
	}
}

// beating returns what is missing for the pod to work with all its files, or "".
func (n *node) beating(p pod) string {
	for _, dir := range p.files {
		path := filepath.Join(n.pods, p.uid, dir)
		if !exists(filepath.Join(path, "born")) {
			return p.name + ": there is no born in " + path
		}
		st, err := os.Stat(filepath.Join(path, "beat"))
		if err != nil || time.Since(st.ModTime()) > 5*time.Second {
			return p.name + ": no fresh beat in " + path
		}
	}
	return ""
}

// census lists what runs on a node at one time, for a later comparison.
type census struct {
	tasks []string
	born  map[string]string
}

func (n *node) census(pods []pod) census {
	c := census{tasks: n.tasks(), born: map[string]string{}}
	slices.Sort(c.tasks)
	for _, p := range pods {
		for _, dir := range p.files {
			path := filepath.Join(n.pods, p.uid, dir, "born")
			b, err := os.ReadFile(path)
			if err != nil {
				b = []byte(err.Error())
			}
			c.born[path] = string(b)
		}
	}
	return c
}

// sameLife fails if any container has ended or started since the census, or if a pod's files have changed.
func (n *node) sameLife(t *testing.T, before census, pods []pod) {
	t.Helper()
	eventually(t, 10*time.Second, func() string {
		for _, p := range pods {
			if m := n.beating(p); m != "" {
				return m
			}
		}
		return ""
	})
	now := n.census(pods)
	if !slices.Equal(now.tasks, before.tasks) {
		t.Errorf("the containers changed:\n%s\nwant\n%s", strings.Join(now.tasks, "\n"), strings.Join(before.tasks, "\n"))
	}
	for path, was := range before.born {
		if now.born[path] != was {
			t.Errorf("%s contains %q, want %q", path, now.born[path], was)
		}
	}
}
