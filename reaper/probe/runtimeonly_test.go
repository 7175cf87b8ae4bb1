package probe

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	uidLive parsers.PodUID = "02538aa4-66dd-4864-8b99-0107e22f160c"
	uidDone parsers.PodUID = "1f0e8b6a-1111-4222-8333-944445555666"
)

// atNoon is a clock that does not advance.
type atNoon struct{}

func (atNoon) Now() policy.Instant { return policy.Instant{Wall: testkit.Noon} }

func startCRI(t *testing.T) *fakecri.Server {
	t.Helper()
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), fakecri.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	s.SetPods(
		fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0", Running: 1, Exited: 1, Created: testkit.Noon.Add(-3 * time.Hour).UnixNano()},
		fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job", NotReady: true, Exited: 1},
	)
	return s
}
