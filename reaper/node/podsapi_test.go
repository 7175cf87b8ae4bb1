package node

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

type podsServer struct {
	podsv1alpha1.UnimplementedPodsServer
	list [][]byte
	err  error
	hang bool
}

func (s *podsServer) ListPods(ctx context.Context, _ *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	if s.hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &podsv1alpha1.ListPodsResponse{Pods: s.list}, s.err
}

// podsAPI serves the kubelet's list from this process.
func (n *testNode) podsAPI(server podsv1alpha1.PodsServer) {
	n.t.Helper()
	n.mkdir("kubelet/pods-api")
	l, err := new(net.ListenConfig).Listen(n.t.Context(), "unix", n.cfg.RootDir+"/pods-api/pods-api.sock")
	must(n.t, err)
	s := grpc.NewServer()
	if server != nil {
		podsv1alpha1.RegisterPodsServer(s, server)
	}
	go func() { _ = s.Serve(l) }() // until Stop
	n.t.Cleanup(s.Stop)
}

// listed encodes a v1.Pod with a UID and annotations.
func listed(uid string, annotations ...string) []byte {
	field := func(b []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
	}
	meta := field(nil, 1, []byte("name"))
	if uid != "" {
		meta = field(meta, 5, []byte(uid))
	}
	meta = protowire.AppendVarint(protowire.AppendTag(meta, 7, protowire.VarintType), 1) // its generation
	for i := 0; i < len(annotations); i += 2 {
		meta = field(meta, 12, field(field(nil, 1, []byte(annotations[i])), 2, []byte(annotations[i+1])))
	}
	return field(field(nil, 1, meta), 2, []byte("spec"))
}

func TestPodsAPI(t *testing.T) {
	testkit.NeedRoot(t)
	for name, c := range map[string]struct {
		server func(uid string) podsv1alpha1.PodsServer
		peer   int
		truth  judge.Truth
		static bool
		detail string
	}{
		"listed":         {func(uid string) podsv1alpha1.PodsServer { return &podsServer{list: [][]byte{listed(uid)}} }, 0, judge.Yes, false, "lists the pod"},
		"not listed":     {func(string) podsv1alpha1.PodsServer { return &podsServer{list: [][]byte{listed("x")}} }, 0, judge.No, false, ""},
		"empty":          {func(string) podsv1alpha1.PodsServer { return &podsServer{} }, 0, judge.No, false, ""},
		"no such method": {func(string) podsv1alpha1.PodsServer { return nil }, 0, judge.No, false, "no PodsAPI"},
		"starting": {func(string) podsv1alpha1.PodsServer {
			return &podsServer{err: status.Error(codes.FailedPrecondition, "initializing")}
		}, 0, judge.Unknown, false, "initializing"},
		"hung":            {func(string) podsv1alpha1.PodsServer { return &podsServer{hang: true} }, 0, judge.Unknown, false, "no answer in time"},
		"another process": {func(string) podsv1alpha1.PodsServer { return &podsServer{} }, 1, judge.Unknown, false, "not the running kubelet"},
		"not a pod":       {func(string) podsv1alpha1.PodsServer { return &podsServer{list: [][]byte{{0xff}}} }, 0, judge.Unknown, false, "cannot read a pod"},
		"without a UID":   {func(string) podsv1alpha1.PodsServer { return &podsServer{list: [][]byte{listed("")}} }, 0, judge.Unknown, false, "it has no UID"},
		"static": {func(uid string) podsv1alpha1.PodsServer {
			return &podsServer{list: [][]byte{listed("mirror", cri.AnnotationHash, uid, cri.AnnotationSource, "file")}}
		}, 0, judge.Yes, true, ""},
		"static, from a URL": {func(uid string) podsv1alpha1.PodsServer {
			return &podsServer{list: [][]byte{listed("mirror", cri.AnnotationHash, uid, cri.AnnotationSource, "http")}}
		}, 0, judge.Yes, true, ""},
		"claimed by another pod": {func(uid string) podsv1alpha1.PodsServer {
			return &podsServer{list: [][]byte{listed("other", cri.AnnotationHash, uid, cri.AnnotationSource, "api")}}
		}, 0, judge.No, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := n.pod()
			n.podsAPI(c.server(string(uid)))
			s := n.scanner()
			s.limit = forever
			if name == "hung" {
				s.limit = time.Second
			}
			peer := c.peer
			if peer == 0 {
				peer = os.Getpid()
			}
			l, err := s.askPodsAPI(t.Context(), peer)
			f := doubt{err: err}.fact(l.fact(uid))
			wantFact(t, f, c.truth, c.truth == judge.Yes, c.detail)
			if l.pods[uid].static != c.static {
				t.Errorf("static is %v", l.pods[uid].static)
			}
		})
	}
}

// TestPodsAPIAbsent: a kubelet without the socket, or one that has ended, is no fact.
func TestPodsAPIAbsent(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	wantFact(t, n.fact(uid, judge.Listed), judge.No, false, "no PodsAPI")
	n.mkdir("kubelet/pods-api")
	must(t, os.Rename(testkit.StaleSocket(t), n.cfg.RootDir+"/pods-api/pods-api.sock"))
	wantFact(t, n.fact(uid, judge.Listed), judge.No, false, "no PodsAPI")
}
