package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestStaticPods is one pod beside the manifest of kube-system/etcd on node-1.
func TestStaticPods(t *testing.T) {
	const api, other = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"), "541dfae681928ae5ecce3afd849bc260"
	etcd := Manifest{File: "etcd.yaml", Namespace: "kube-system", Name: "etcd"}
	stated := Manifest{File: "etcd.yaml", Namespace: "kube-system", Name: "etcd", UID: string(api)}
	for name, c := range map[string]struct {
		uid       parsers.PodUID // default staticUID
		namespace string
		pod       string
		certain   bool
		manifest  Manifest
		unsure    string
		err       error
		runs      string // a sandbox of that name, and of another UID
		created   int64  // of it; the directory was made at 10
		want      Truth
		detail    string
	}{
		"its manifest":         {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, want: Yes, detail: "is this pod's manifest"},
		"another node's name":  {namespace: "kube-system", pod: "etcd-renamed", certain: true, manifest: etcd, want: Yes},
		"another name":         {namespace: "kube-system", pod: "etcdctl-node-1", certain: true, manifest: etcd, want: No},
		"another namespace":    {namespace: "default", pod: "etcd-node-1", certain: true, manifest: etcd, want: No},
		"no name":              {manifest: etcd, want: Unknown, detail: "the pod's name is not known"},
		"a host name fits":     {pod: "etcd-node-1", manifest: etcd, want: Yes},
		"a host name does not": {pod: "db", manifest: etcd, want: Unknown},
		"an API pod":           {uid: api, namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, want: No},
		"a stated UID":         {uid: api, manifest: stated, want: Yes, detail: "states this UID"},
		"another stated UID":   {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: stated, want: No},
		"unread":               {namespace: "kube-system", pod: "x", certain: true, manifest: etcd, err: errors.New("no kind"), want: Unknown, detail: "no kind"},
		"its own, and unread":  {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, err: errors.New("no kind"), want: Yes},
		"an API pod, unread":   {uid: api, err: errors.New("no kind"), want: No},
		"from a URL":           {namespace: "kube-system", pod: "x", certain: true, manifest: etcd, unsure: "from a URL too", want: Unknown, detail: "URL"},
		"runs anew": {
			namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-node-1", created: 20,
			want: No, detail: "under another UID: " + other,
		},
		"runs anew, no name": {manifest: etcd, runs: "etcd-node-1", created: 20, want: No},
		"ran before":         {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-node-1", created: 5, want: Yes},
		"another runs":       {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-events-node-1", created: 20, want: Yes},
	} {
		s := StaticPods{Origin: "manifests", Node: "node-1", Manifests: []Manifest{c.manifest}, Unsure: c.unsure, Err: c.err}
		if c.manifest == (Manifest{}) {
			s.Manifests = nil
		}
		e := Evidence{UID: staticUID, Namespace: c.namespace, PodName: c.pod, CertainName: c.certain, ID: DirID{Btime: 10}}
		if c.uid != "" {
			e.UID = c.uid
		}
		running := map[PodName][]StaticSandbox{{"kube-system", c.runs}: {{UIDs: []string{other}, Created: c.created}}}
		f := s.Fact(&e, running)
		if f.Truth != c.want || !strings.Contains(f.Detail, c.detail) || f.Truth == Unknown && f.Detail == "" {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.detail)
		}
		if c.want == No && c.runs != "" { // a file system without birth times
			e.ID.Btime = 0
			if f := s.Fact(&e, running); f.Truth == No {
				t.Errorf("%s, without a birth time: %+v", name, f)
			}
		}
	}
}
