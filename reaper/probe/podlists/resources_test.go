package podlists

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// podResourcesOf encodes a response: each pod has a field that is not read.
func podResourcesOf(pods ...policy.PodName) []byte {
	var all []byte
	for _, p := range pods {
		var pod []byte
		pod = protowire.AppendString(protowire.AppendTag(pod, 1, protowire.BytesType), p.Name)
		pod = protowire.AppendVarint(protowire.AppendTag(pod, 9, protowire.VarintType), 7)
		pod = protowire.AppendString(protowire.AppendTag(pod, 3, protowire.BytesType), "containers")
		pod = protowire.AppendString(protowire.AppendTag(pod, 2, protowire.BytesType), p.Namespace)
		all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), pod)
	}
	return all
}

// TestPodResources checks the socket's response in both versions, and its absence.
func TestPodResources(t *testing.T) {
	web, etcd := policy.PodName{Namespace: "shop", Name: "web-0"}, policy.PodName{Namespace: "kube-system", Name: "etcd-node-1"}
	good := podResourcesOf(web, etcd)
	tests := []struct {
		name, version string
		answer        []byte
		silent        string
	}{
		{"version 1", "v1", good, ""},
		{"before 1.20", "v1alpha1", good, ""},
		{"another service", "v2", good, "no method List"},
		{"cut off", "v1", good[:len(good)-1], "cannot read"},
		{"no protobuf", "v1", bytes.Repeat([]byte{0xff}, 64), "cannot read"},
		{"an invalid name", "v1", podResourcesOf(policy.PodName{Namespace: "shop", Name: "\x1b[2J"}), "an invalid name"},
		{"a pod without a name", "v1", podResourcesOf(policy.PodName{Namespace: "shop"}), "an invalid name"},
		{"a long name", "v1", podResourcesOf(policy.PodName{Namespace: "shop", Name: strings.Repeat("a", 1<<20)}), "an invalid name"},
		{"too long", "v1", make([]byte, maxAnswer+1), "larger than max"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			serveAt(t, root, podResourcesEntry, tt.version+".PodResourcesLister", "List", func(context.Context) ([]byte, error) { return tt.answer, nil })
			r := newReader(Reader{RootDir: root}).Resources(t.Context())
			if tt.silent != "" {
				if !strings.Contains(r.Silent, tt.silent) || r.Names != nil {
					t.Errorf("silent for %q, lists %v, want %q and nothing", r.Silent, r.Names, tt.silent)
				}
			} else if want := map[policy.PodName]bool{web: true, etcd: true}; r.Silent != "" || !maps.Equal(r.Names, want) {
				t.Errorf("lists %v, %s, want %v", r.Names, r.Silent, want)
			}
		})
	}
	t.Run("waived", func(t *testing.T) {
		if r := newReader(Reader{RootDir: t.TempDir(), Waive: true}).Resources(t.Context()); !strings.Contains(r.Silent, "not asked") {
			t.Errorf("silent for %q", r.Silent)
		}
	})
	t.Run("more pods than any node has", func(t *testing.T) {
		pods := make([]policy.PodName, 0, mostPods+1)
		for i := range mostPods + 1 {
			pods = append(pods, policy.PodName{Namespace: "shop", Name: "p" + strings.Repeat("a", i%50) + strings.Repeat("b", i/50%50) + strings.Repeat("c", i/2500)})
		}
		if names, err := readPodResources(podResourcesOf(pods...)); err == nil || names != nil {
			t.Errorf("lists %d pods, %v", len(names), err)
		}
	})
}
