package podlists

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// podResourcesOf is an answer on the wire: each pod with a field that nobody here reads.
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

// servePodResources answers at the node's socket, by the service of that version.
func servePodResources(t *testing.T, root, version string, answer func(context.Context) []byte) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socketBelow(t, root))
	testkit.Must(t, err)
	s := grpc.NewServer(grpc.ForceServerCodec(wireCodec{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: version + ".PodResourcesLister", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "List",
		Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return answer(ctx), nil
		},
	}}}, new(any))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

// socketBelow is where the kubelet of a root directory listens.
func socketBelow(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, podResourcesEntry)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

// TestPodResources: the socket's answer in both versions, and what is none.
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
		{"another service", "v2", good, "has no List"},
		{"cut off", "v1", good[:len(good)-1], "cannot read"},
		{"no protobuf", "v1", bytes.Repeat([]byte{0xff}, 64), "cannot read"},
		{"a name that is none", "v1", podResourcesOf(policy.PodName{Namespace: "shop", Name: "\x1b[2J"}), "name is none"},
		{"a pod without a name", "v1", podResourcesOf(policy.PodName{Namespace: "shop"}), "name is none"},
		{"a long name", "v1", podResourcesOf(policy.PodName{Namespace: "shop", Name: strings.Repeat("a", 1<<20)}), "name is none"},
		{"too long", "v1", make([]byte, maxAnswer+1), "larger than max"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			servePodResources(t, root, tt.version, func(context.Context) []byte { return tt.answer })
			r := newReader(Reader{RootDir: root}).Resources(t.Context())
			if tt.silent != "" {
				if !strings.Contains(r.Silent, tt.silent) || r.Names != nil {
					t.Errorf("it says %q and lists %v, want %q and nothing", r.Silent, r.Names, tt.silent)
				}
			} else if want := map[policy.PodName]bool{web: true, etcd: true}; r.Silent != "" || !maps.Equal(r.Names, want) {
				t.Errorf("it lists %v, %s, want %v", r.Names, r.Silent, want)
			}
		})
	}
	t.Run("more pods than any node has", func(t *testing.T) {
		pods := make([]policy.PodName, 0, mostPods+1)
		for i := range mostPods + 1 {
			pods = append(pods, policy.PodName{Namespace: "shop", Name: "p" + strings.Repeat("a", i%50) + strings.Repeat("b", i/50%50) + strings.Repeat("c", i/2500)})
		}
		if names, err := readPodResources(podResourcesOf(pods...)); err == nil || names != nil {
			t.Errorf("it lists %d pods, %v", len(names), err)
		}
	})
}

// TestPodResourcesSilent: a socket that is not there, is none, is dead or does not answer holds up
// nobody, and is silent.
func TestPodResourcesSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		setUp  func(t *testing.T, r *Reader)
		silent string
	}{
		"not there": {func(*testing.T, *Reader) {}, "no such socket"},
		"a file": {func(t *testing.T, r *Reader) {
			t.Helper()
			testkit.WriteText(t, socketBelow(t, r.RootDir), "")
		}, "is no socket"},
		"a symlink": {func(t *testing.T, r *Reader) {
			t.Helper()
			testkit.Must(t, os.Symlink("/dev/null", socketBelow(t, r.RootDir)))
		}, "is no socket"},
		"dead": {func(t *testing.T, r *Reader) {
			t.Helper()
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketBelow(t, r.RootDir), Net: "unix"})
			testkit.Must(t, err)
			l.SetUnlinkOnClose(false)
			testkit.Must(t, l.Close())
		}, "refused"},
		"slow": {func(t *testing.T, r *Reader) {
			t.Helper()
			r.Guard.Patience = 200 * time.Millisecond
			servePodResources(t, r.RootDir, "v1", func(ctx context.Context) []byte { <-ctx.Done(); return nil })
		}, "in time"},
		"waived": {func(_ *testing.T, r *Reader) { r.Waive = true }, "not asked"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := newReader(Reader{RootDir: t.TempDir()})
			tt.setUp(t, reader)
			if r := reader.Resources(t.Context()); !strings.Contains(r.Silent, tt.silent) || r.Names != nil {
				t.Errorf("it says %q and lists %v, want %q", r.Silent, r.Names, tt.silent)
			}
		})
	}
}
