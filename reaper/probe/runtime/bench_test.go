package runtime

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// BenchmarkAskRuntime asks a runtime with 500 pods of three containers each.
func BenchmarkAskRuntime(b *testing.B) {
	s, err := fakecri.Start(b.Context(), filepath.Join(b.TempDir(), "s"), fakecri.Options{})
	testkit.Must(b, err)
	defer s.Close()
	var pods []fakecri.Pod
	for i := range 500 {
		pods = append(pods, fakecri.Pod{
			UID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i), Namespace: "shop", Name: fmt.Sprintf("web-%d", i),
			Running: 2, Exited: 1,
		})
	}
	s.SetPods(pods...)
	find := func([]string) cri.Sockets { return cri.NamedSocket(s.Endpoint(), "the benchmark") }
	r := &Reader{Find: find, Now: time.Now, Guard: &bounded.Guard{}}
	for b.Loop() {
		if a := r.Ask(b.Context()); a.Lists.Truth != policy.Yes {
			b.Fatal(a.Err)
		}
	}
}
