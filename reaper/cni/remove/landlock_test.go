package remove

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// needLandlock fails if the kernel has no Landlock: the refusals would be untested, and a skip would hide that.
func needLandlock(t *testing.T, r *Remover) {
	t.Helper()
	if f := r.run.Landlock(); f.Truth != policy.Yes {
		testkit.Skip(t, "Landlock is hidden here: ", f.Detail)
	}
}

// TestConfineFails checks that a Landlock error stops the batch before its first change, with a reason.
func TestConfineFails(t *testing.T) {
	x := newCNI(t, false)
	testkit.Set(x.r.run, "handled", uint64(1<<63))
	c := x.cache(1)
	ended(t, x.take(c), policy.Refused, "Landlock")
	testkit.There(t, c.Dir+"/"+c.Name, true)
}

// TestConfinedCNI checks that files may be made and removed in CNI's directories only, and that directories may not.
func TestConfinedCNI(t *testing.T) {
	x := newCNI(t, false)
	needLandlock(t, x.r)
	c := x.cache(1)
	x.Must(os.WriteFile(x.network+"/lock", nil, 0o600))
	away := x.Elsewhere("elsewhere")
	defer away.Close()
	tried := false
	x.r.guards.before = func(op, _ string) {
		if op != "renameat2" {
			return
		}
		tried = true
		for what, err := range map[string]error{
			"mkdir":           unix.Mkdir(x.results+"/new", 0o700),
			"mknod":           unix.Mknod(x.results+"/new", unix.S_IFIFO|0o600, 0),
			"unlink away":     unix.Unlink(away.Dir + "/f"),
			"rename away":     unix.Rename(x.results+"/"+c.Name, away.Dir+"/g"),
			"unlink in pods":  unix.Unlink(x.Pods + "/" + string(testkit.PodB) + "/volumes/kubernetes.io~csi/db/mount/beside"),
			"another CNI dir": unix.Unlink(x.network + "/lock"),
		} {
			if !change.Is(err, unix.EACCES, unix.EXDEV) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	ended(t, x.take(c), policy.Done)
	if what := away.Changed(); !tried || what != "" {
		t.Errorf("tried %v: %s", tried, what)
	}
}
