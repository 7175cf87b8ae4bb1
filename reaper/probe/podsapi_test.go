package probe

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// podsAPI makes the test binary a kubelet that lists UIDHere at its socket.
const podsAPI = "pods-api"

func init() {
	if os.Getenv(testkit.EnvProcess) != podsAPI {
		return
	}
	root := os.Args[slices.Index(os.Args, "--root-dir")+1]
	if err := servePodsAPI(context.Background(), root+"/pods-api/pods-api.sock"); err != nil {
		panic(err)
	}
	testkit.WaitToEnd()
}

func servePodsAPI(ctx context.Context, path string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	pods := protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), string(testkit.UIDHere))
	for range 2 { // ObjectMeta in a pod, a pod in the answer
		pods = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), pods)
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "v1alpha1.Pods", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "ListPods",
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			answer := &emptypb.Empty{}
			answer.ProtoReflect().SetUnknown(pods)
			return answer, nil
		},
	}}}, new(any))
	go func() { _ = s.Serve(l) }()
	return nil
}

// TestPodsAPIInALook has real processes: one that listens at the socket and is not the kubelet that runs, whose list only keeps, and
// then the kubelet itself, whose list lets a pod go once its gauge shows that it took in its pods.
func TestPodsAPIInALook(t *testing.T) {
	needRoot(t)
	n := newNode(t)
	n.Mkdir(n.PodDir(testkit.UIDHere), n.PodDir(testkit.UIDAway), "kubelet/pods-api")
	gauge := ""
	port := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{
		"/pods":    testkit.Refuse(403, "forbidden"),
		"/metrics": func(w http.ResponseWriter, r *http.Request) { testkit.Answer(gauge)(w, r) },
	}))
	n.cfg.Waive, n.cfg.RootDirSet, n.cfg.KubeletTokenFile = false, true, testkit.File(t, "token", "x")
	args := []string{
		"--hostname-override=n1",
		"--port=" + testkit.PortOf(t, port), "--tls-cert-file=" + testkit.File(t, "kubelet.crt", testkit.CertOf(port)),
	}
	look := func(name string, away, released, unlisted policy.Truth) {
		t.Helper()
		l := n.look()
		check(t, find(t, l, testkit.UIDHere), facts{policy.FactKubeletLists: policy.Yes, policy.FactReleased: policy.No})
		e := find(t, l, testkit.UIDAway)
		check(t, e, facts{policy.FactKubeletLists: away, policy.FactReleased: released})
		if e.Unlisted.Truth != unlisted || e.Omitted != (released == policy.Yes) {
			t.Errorf("%s: unlisted %+v, omitted %t", name, e.Unlisted, e.Omitted)
		}
	}
	testkit.Must(t, servePodsAPI(t.Context(), n.Path("kubelet/pods-api/pods-api.sock")))
	gauge = `kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"
	idle := n.kubelet("idle", args...)
	look("another process", policy.Unknown, policy.Unknown, policy.Unknown)
	testkit.Must(t, idle.Process.Kill())
	_, _ = idle.Process.Wait()
	testkit.Must(t, os.Remove(n.Path("kubelet/pods-api/pods-api.sock")))
	n.kubelet(podsAPI, args...)
	look("the kubelet", policy.No, policy.Yes, policy.Yes)
	gauge = "kubelet_orphan_pod_cleaned_volumes_errors 0\n"
	look("no gauge yet", policy.No, policy.Unknown, policy.Yes)
}
