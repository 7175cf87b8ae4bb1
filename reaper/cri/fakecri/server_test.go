package fakecri_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

const uid = "02538aa4-66dd-4864-8b99-0107e22f160c"

func start(t *testing.T, o fakecri.Options) (*fakecri.Server, *grpc.ClientConn) {
	t.Helper()
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	conn, err := grpc.NewClient(s.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}

// TestServerThroughTheRealClient asks the fake with cri-api's own generated client, so
// that the descriptions written by hand cannot drift from CRI.
func TestServerThroughTheRealClient(t *testing.T) {
	s, conn := start(t, fakecri.Options{})
	client := runtimeapi.NewRuntimeServiceClient(conn)
	s.SetPods(fakecri.Pod{UID: uid, Namespace: "shop", Name: "db-0", Running: 1, Exited: 2, NotReady: true})

	sandboxes, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sandboxes.GetItems()) != 1 || sandboxes.GetItems()[0].GetMetadata().GetUid() != uid ||
		sandboxes.GetItems()[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("sandboxes %v", sandboxes)
	}
	containers, err := client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(containers.GetContainers()) != 3 || containers.GetContainers()[2].GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("containers %v", containers)
	}
	if s.Calls(fakecri.ListPodSandbox) != 1 || s.Calls(fakecri.ListContainers) != 1 || s.Filtered() {
		t.Errorf("%d and %d calls, filtered %v", s.Calls(fakecri.ListPodSandbox), s.Calls(fakecri.ListContainers), s.Filtered())
	}
	for _, why := range []string{"", "cni config uninitialized"} {
		s.SetNetwork(why)
		st, err := client.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil || st.GetStatus().GetConditions()[1].GetStatus() != (why == "") {
			t.Errorf("Status: %v, %v", st, err)
		}
	}
	if _, err := client.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown call: %v, want Unimplemented", err)
	}
	if v, err := client.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil || v.GetRuntimeName() != "fakecri" {
		t.Errorf("Version: %v, %v", v, err)
	}
	if _, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{}}); err != nil || !s.Filtered() {
		t.Errorf("a filter was not noticed: %v", err)
	}
}

func TestServerVersions(t *testing.T) {
	const v1, v1alpha2 = "/runtime.v1.RuntimeService/ListPodSandbox", "/runtime.v1alpha2.RuntimeService/ListPodSandbox"
	for _, c := range []struct {
		version  fakecri.Version
		v1, old  codes.Code
		readable string
	}{
		{fakecri.V1, codes.OK, codes.Unimplemented, "v1"},
		{fakecri.V1Alpha2, codes.Unimplemented, codes.OK, "v1alpha2"},
		{fakecri.NoCRI, codes.Unimplemented, codes.Unimplemented, "no CRI"},
	} {
		t.Run(c.readable, func(t *testing.T) {
			_, conn := start(t, fakecri.Options{Version: c.version})
			for method, want := range map[string]codes.Code{v1: c.v1, v1alpha2: c.old} {
				err := conn.Invoke(t.Context(), method, &runtimeapi.ListPodSandboxRequest{}, &runtimeapi.ListPodSandboxResponse{})
				if status.Code(err) != want {
					t.Errorf("%s: %v, want %s", method, err, want)
				}
			}
		})
	}
}

func TestServerFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     fakecri.Options
		fault fakecri.Fault
		limit time.Duration // how long the caller waits
		want  codes.Code
	}{
		{"error", fakecri.Options{}, fakecri.Fault{Err: status.Error(codes.Unavailable, "x")}, time.Minute, codes.Unavailable},
		{"hang", fakecri.Options{}, fakecri.Fault{Hang: true}, 50 * time.Millisecond, codes.DeadlineExceeded},
		{"delay past the limit", fakecri.Options{}, fakecri.Fault{Delay: time.Hour}, 50 * time.Millisecond, codes.DeadlineExceeded},
		{"delay within the limit", fakecri.Options{}, fakecri.Fault{Delay: time.Millisecond}, time.Minute, codes.OK},
		{"die", fakecri.Options{}, fakecri.Fault{Die: true}, time.Minute, codes.Unavailable},
		{"cut", fakecri.Options{CutAfter: 200}, fakecri.Fault{}, time.Minute, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, conn := start(t, c.o)
			s.SetPods(fakecri.Pod{UID: uid, Namespace: "shop", Name: "db-0"}, fakecri.Pod{UID: uid, Namespace: "shop", Name: "db-1"})
			s.SetFault(fakecri.ListPodSandbox, c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			_, err := runtimeapi.NewRuntimeServiceClient(conn).ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
			if status.Code(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestStartRefusesAPathInUse(t *testing.T) {
	s, _ := start(t, fakecri.Options{})
	if other, err := fakecri.Start(t.Context(), s.Endpoint()[len("unix://"):], fakecri.Options{}); err == nil {
		other.Close()
		t.Error("two servers on one socket")
	}
}
