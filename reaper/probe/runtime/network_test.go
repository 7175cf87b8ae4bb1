package runtime

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNetworkReady checks the state of the pods' network in each version of CRI. It is unknown if the runtime has no
// such condition.
func TestNetworkReady(t *testing.T) {
	for name, version := range map[string]fakecri.Version{"v1": fakecri.V1, "v1alpha2": fakecri.V1Alpha2} {
		path := filepath.Join(t.TempDir(), "s")
		s, err := fakecri.Start(t.Context(), path, fakecri.Options{Version: version})
		testkit.Must(t, err)
		t.Cleanup(s.Close)
		ask := func() policy.Fact {
			a := cri.List(t.Context(), path, 20*time.Second, cri.MaxAnswer)
			if a.SandboxErr != nil || a.ContainerErr != nil {
				t.Fatal(a.SandboxErr, a.ContainerErr)
			}
			return merge([]cri.Lists{a}, cri.Sockets{Paths: []string{path}}, time.Now()).Network
		}
		if f := ask(); f.Truth != policy.Yes || f.Origin == "" {
			t.Errorf("%s: %+v", name, f)
		}
		s.SetNetwork("cni config uninitialized")
		if f := ask(); f.Truth != policy.No || f.Detail != "NetworkPluginNotReady: cni config uninitialized" {
			t.Errorf("%s, down: %+v", name, f)
		}
		s.SetNetwork("")
		s.SetFault(fakecri.GetStatus, fakecri.Fault{Err: status.Error(codes.Unavailable, "x")})
		if f := ask(); f.Truth != policy.Unknown || f.Detail == "" {
			t.Errorf("%s, no response: %+v", name, f)
		}
	}
}

// TestListDeaf checks that a stopped runtime (SIGSTOP), whose connections the kernel accepts, is asked only once.
func TestListDeaf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	a := cri.List(t.Context(), path, 100*time.Millisecond, cri.MaxAnswer)
	for _, err := range []error{a.ContainerErr, a.SandboxErr, a.StatusErr} {
		if err == nil || err.Error() != "ListContainers: no answer in time" {
			t.Errorf("%v", err)
		}
	}
}
