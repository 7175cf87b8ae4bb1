package podlists

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// newReader sets the tests' time limits.
func newReader(r Reader) *Reader {
	r.Now, r.Guard = func() time.Time { return testkit.Noon }, &bounded.Guard{}
	return &r
}

func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// podOf encodes a pod of the kubelet's response, with fields that are not read.
func podOf(uid string) []byte {
	meta := slices.Concat(field(1, []byte("web-0")), field(3, []byte("shop")), field(5, []byte(uid)), field(12, field(1, []byte("5"))))
	meta = protowire.AppendVarint(protowire.AppendTag(meta, 7, protowire.VarintType), 1)
	return field(1, slices.Concat(field(1, meta), field(2, field(5, []byte("no UID"))), field(3, nil)))
}

// serveAt serves a method on a socket below the kubelet's root directory.
func serveAt(t *testing.T, root, entry, service, method string, answer func(context.Context) ([]byte, error)) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socketBelow(t, root, entry))
	testkit.Must(t, err)
	s := grpc.NewServer(grpc.ForceServerCodec(wireCodec{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: method,
		Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return answer(ctx)
		},
	}}}, new(any))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

func servePods(t *testing.T, root, service string, answer func(context.Context) ([]byte, error)) {
	t.Helper()
	serveAt(t, root, podsAPIEntry, service, "ListPods", answer)
}

// socketBelow makes the directory of a kubelet's socket.
func socketBelow(t *testing.T, root, entry string) string {
	t.Helper()
	path := filepath.Join(root, entry)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	return path
}

// TestPodsAPI checks that a listed pod is kept in any case, and that a list that may lack a pod is doubtful.
func TestPodsAPI(t *testing.T) {
	here, quiet := string(testkit.UIDHere), string(testkit.UIDQuiet)
	good := slices.Concat(podOf(here), podOf(quiet))
	both := []parsers.PodUID{testkit.UIDHere, testkit.UIDQuiet}
	for _, c := range []struct {
		name          string
		text          []byte
		want          []parsers.PodUID
		silent, doubt string
	}{
		{"complete", good, both, "", ""},
		{"a pod twice", slices.Concat(good, good), both, "", ""},
		{"no pod", nil, nil, "", "lists no pod"},
		{"cut off", good[:len(good)-1], both[:1], "", "cannot read its answer"},
		{"no protobuf", bytes.Repeat([]byte{0xff}, 64), nil, "", "cannot read its answer"},
		{"a spoilt pod between two", slices.Concat(podOf(here), field(1, []byte{0xff}), podOf(quiet)), both, "", "cannot read a pod"},
		{"a pod without metadata", slices.Concat(good, field(1, field(3, nil))), both, "", "without a UID"},
		{"a pod without a UID", slices.Concat(good, podOf("")), both, "", "without a UID"},
		{"a UID that no directory has", slices.Concat(good, podOf(strings.Repeat("a", 256))), both, "", "without a UID"},
		{
			"a UID that is a number", slices.Concat(good, field(1, field(1, protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.VarintType), 7)))),
			both, "", "without a UID",
		},
		{"metadata in two parts", slices.Concat(podOf(here), field(1, slices.Concat(field(1, field(5, []byte(quiet))), field(1, nil)))), both, "", ""},
		{"it goes on elsewhere", slices.Concat(good, field(2, []byte("token"))), both, "", "an unknown field"},
		{"too many pods", bytes.Repeat(podOf(here), mostPods+1), both[:1], "", "more than 16384 pods"},
		{"too long", make([]byte, maxAnswer+1), nil, "larger than max", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.silent == "" && c.doubt == "" {
				testkit.NeedRoot(t) // a user's list is doubtful
			}
			root := t.TempDir()
			servePods(t, root, "v1alpha1.Pods", func(context.Context) ([]byte, error) { return c.text, nil })
			l := newReader(Reader{RootDir: root}).PodsAPI(t.Context(), os.Getpid())
			if got := slices.Sorted(maps.Keys(l.Pods)); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
				t.Errorf("listed %v, want %v", got, c.want)
			}
			if (l.Silent == "") != (c.silent == "") || !strings.Contains(l.Silent, c.silent) ||
				(l.Doubt == "") != (c.doubt == "") || !strings.Contains(l.Doubt, c.doubt) {
				t.Errorf("silent %q, doubt %q, want %q and %q", l.Silent, l.Doubt, c.silent, c.doubt)
			}
		})
	}
}

// TestPodsAPIPeer checks that another process's list is doubtful.
func TestPodsAPIPeer(t *testing.T) {
	testkit.NeedRoot(t) // a user's list is doubtful
	root := t.TempDir()
	calls := 0
	servePods(t, root, "v1alpha1.Pods", func(context.Context) ([]byte, error) { calls++; return podOf(string(testkit.UIDHere)), nil })
	for pid, doubt := range map[int]string{os.Getpid(): "", os.Getpid() + 1: "not the running kubelet", 0: "not the running kubelet"} {
		l := newReader(Reader{RootDir: root}).PodsAPI(t.Context(), pid)
		if (l.Doubt == "") != (doubt == "") || !strings.Contains(l.Doubt, doubt) || !l.Pods[testkit.UIDHere] {
			t.Errorf("PID %d: %+v", pid, l)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls in three looks", calls)
	}
	us := unix.Ucred{Pid: 7}
	for name, c := range map[string]struct {
		by   peers
		good bool
	}{
		"root": {peers{us}, true}, "twice": {peers{us, us}, true}, "another at the second time": {peers{us, {Pid: 8}}, false},
		"a user": {peers{{Pid: 7, Uid: 1000}}, false}, "none": {nil, false}, "without credentials": {peers{{}}, false},
	} {
		if err := c.by.check(7); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPodsAPISilent checks that no response gives neither a list nor a doubt.
func TestPodsAPISilent(t *testing.T) {
	for name, c := range map[string]struct {
		setUp  func(*testing.T, *Reader)
		silent string
	}{
		"before 1.37": {func(*testing.T, *Reader) {}, "no such socket"},
		"a symlink": {func(t *testing.T, r *Reader) {
			t.Helper()
			testkit.Must(t, os.Symlink("/dev/null", socketBelow(t, r.RootDir, podsAPIEntry)))
		}, "is not a socket"},
		"dead": {func(t *testing.T, r *Reader) {
			t.Helper()
			testkit.Must(t, os.Rename(testkit.StaleSocket(t), socketBelow(t, r.RootDir, podsAPIEntry)))
		}, "refused"},
		"after its start": {func(t *testing.T, r *Reader) {
			t.Helper()
			servePods(t, r.RootDir, "v1alpha1.Pods", func(context.Context) ([]byte, error) {
				return nil, status.Error(codes.FailedPrecondition, "Kubelet is initializing")
			})
		}, "Kubelet is initializing"},
		"another service": {func(t *testing.T, r *Reader) {
			t.Helper()
			servePods(t, r.RootDir, "v2.Pods", func(context.Context) ([]byte, error) { return nil, nil })
		}, "no method ListPods"},
		"slow": {func(t *testing.T, r *Reader) {
			t.Helper()
			r.Guard.Patience = 200 * time.Millisecond
			servePods(t, r.RootDir, "v1alpha1.Pods", func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		}, "in time"},
		"waived": {func(_ *testing.T, r *Reader) { r.Waive = true }, "not asked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(Reader{RootDir: t.TempDir()})
			c.setUp(t, r)
			if l := r.PodsAPI(t.Context(), os.Getpid()); !strings.Contains(l.Silent, c.silent) || l.Pods != nil || l.Doubt != "" {
				t.Errorf("%+v, want %q", l, c.silent)
			}
		})
	}
}
