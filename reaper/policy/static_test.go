package policy_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestStaticPods judges one pod beside the manifest of kube-system/etcd on node-1.
func TestStaticPods(t *testing.T) {
	const api, other = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"), "541dfae681928ae5ecce3afd849bc260"
	const static = "4d145df0c0ffee00decafbad4d145df0"
	etcd := policy.Manifest{File: "etcd.yaml", Namespace: "kube-system", Name: "etcd"}
	stated := policy.Manifest{File: "etcd.yaml", Namespace: "kube-system", Name: "etcd", UID: string(api)}
	for name, c := range map[string]struct {
		uid       parsers.PodUID // default: a static pod's
		namespace string
		pod       string
		certain   bool
		static    bool // an earlier look saw that it is one
		manifest  policy.Manifest
		unsure    string
		err       error
		broken    string // the text of a file that is no manifest
		runs      string // name of a sandbox
		as        string // its UID; default: another pod's
		created   int64  // its time; the directory was made at 10
		want      policy.Truth
		detail    string
	}{
		"its manifest":         {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, want: policy.Yes, detail: "is this pod's manifest"},
		"another node's name":  {namespace: "kube-system", pod: "etcd-renamed", certain: true, manifest: etcd, want: policy.Yes},
		"another name":         {namespace: "kube-system", pod: "etcdctl-node-1", certain: true, manifest: etcd, want: policy.No},
		"another namespace":    {namespace: "default", pod: "etcd-node-1", certain: true, manifest: etcd, want: policy.No},
		"no name":              {manifest: etcd, want: policy.Unknown, detail: "the pod's name is not known"},
		"a host name fits":     {pod: "etcd-node-1", manifest: etcd, want: policy.Yes},
		"a host name does not": {pod: "db", manifest: etcd, want: policy.Unknown},
		"an API pod":           {uid: api, namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, want: policy.No},
		"a stated UID":         {uid: api, manifest: stated, want: policy.Yes, detail: "states this UID"},
		"another stated UID":   {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: stated, want: policy.No},
		"unread": {
			namespace: "kube-system", pod: "x", certain: true,
			manifest: etcd, err: errors.New("no kind"), want: policy.Unknown, detail: "no kind",
		},
		"its own, and unread":  {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, err: errors.New("no kind"), want: policy.Yes},
		"an API pod, unread":   {uid: api, err: errors.New("permission denied"), want: policy.Unknown, detail: "permission denied"},
		"an API pod, broken":   {uid: api, err: errors.New("no kind"), broken: "README", want: policy.No},
		"its UID is in it":     {uid: api, err: errors.New("no kind"), broken: "uid: " + string(api), want: policy.Unknown, detail: "no kind"},
		"a stated UID, a URL":  {uid: api, static: true, unsure: "from a URL too", want: policy.No},
		"a stated UID, unread": {uid: api, static: true, err: errors.New("no kind"), want: policy.Unknown, detail: "no kind"},
		"from a URL":           {namespace: "kube-system", pod: "x", certain: true, manifest: etcd, unsure: "from a URL too", want: policy.Unknown, detail: "URL"},
		"runs anew": {
			namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-node-1", created: 20,
			want: policy.No, detail: "under another UID: " + other,
		},
		"runs anew, no name":                    {manifest: etcd, runs: "etcd-node-1", created: 20, want: policy.No},
		"runs anew, a node of another name":     {manifest: etcd, runs: "etcd-renamed", created: 20, want: policy.Unknown},
		"another runs, and the name is unknown": {manifest: etcd, runs: "etcd-events-node-1", created: 20, want: policy.Unknown, detail: "may be"},
		"runs under this UID": {
			namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-node-1", as: static, created: 20, want: policy.Yes,
		},
		"without the node's name": {namespace: "kube-system", pod: "etcd", certain: true, manifest: etcd, want: policy.Yes},
		"ran before":              {namespace: "kube-system", pod: "etcd-node-1", certain: true, manifest: etcd, runs: "etcd-node-1", created: 5, want: policy.Yes},
		"another runs": {
			namespace: "kube-system", pod: "etcd-node-1", certain: true,
			manifest: etcd, runs: "etcd-events-node-1", created: 20, want: policy.Yes,
		},
	} {
		s := policy.StaticPods{Origin: "manifests", Node: "node-1", Manifests: []policy.Manifest{c.manifest}, Unsure: c.unsure, Err: c.err}
		if c.broken != "" {
			s.Broken = []string{c.broken}
		}
		if c.manifest == (policy.Manifest{}) {
			s.Manifests = nil
		}
		e := policy.Evidence{UID: static, Namespace: c.namespace, PodName: c.pod, CertainName: c.certain, Static: c.static, ID: policy.DirID{Btime: 10}}
		if c.uid != "" {
			e.UID = c.uid
		}
		running := map[policy.PodName][]policy.StaticSandbox{{Namespace: "kube-system", Name: c.runs}: {{UIDs: []string{cmp.Or(c.as, other)}, Created: c.created}}}
		f := s.Fact(&e, running)
		if f.Truth != c.want || !strings.Contains(f.Detail, c.detail) || f.Truth == policy.Unknown && f.Detail == "" {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.detail)
		}
		if own := c.want == policy.Unknown && c.err == nil && c.unsure == ""; f.Own != own {
			t.Errorf("%s: a doubt about this pod alone is %v, want %v", name, f.Own, own)
		}
		if c.want == policy.No && c.runs != "" { // a file system without birth times
			e.ID.Btime = 0
			if f := s.Fact(&e, running); f.Truth == policy.No {
				t.Errorf("%s, without a birth time: %+v", name, f)
			}
		}
	}
}
