package probe

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// BenchmarkAskRuntime asks a runtime with 500 pods of three containers each.
func BenchmarkAskRuntime(b *testing.B) {
	s, err := fakecri.Start(b.Context(), filepath.Join(b.TempDir(), "s"), fakecri.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var pods []fakecri.Pod
	for i := range 500 {
		pods = append(pods, fakecri.Pod{UID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i), Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Running: 2, Exited: 1})
	}
	s.SetPods(pods...)
	p, err := New(Config{NodeRoot: b.TempDir(), RuntimeEndpoint: s.Endpoint(), Clock: atNoon{}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if a := p.askRuntime(b.Context()); a.Lists.Truth != policy.Yes {
			b.Fatal(a.Err)
		}
	}
}
