package quarantine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// attackers change one directory of a pod's tree during the removal. Each call of attack's result makes the change and
// reverses it.
var attackers = []struct {
	name   string
	attack func(tr *tree) func(target string) bool
}{
	{"bind", bindToggler},
	{"tmpfs", tmpfsToggler},
	{"bound file", bindFileToggler},
	{"symlink", symlinkToggler},
	{"directory", directoryToggler},
}

// bindToggler bind-mounts a directory of canaries on the target, which may be held open.
func bindToggler(tr *tree) func(string) bool { return mountToggler(tr.CanaryDir(), "") }

// tmpfsToggler mounts the root of a tmpfs with a canary there.
func tmpfsToggler(tr *tree) func(string) bool {
	home := tr.Outside + "/tmpfs"
	tr.Mount("tmpfs", home)
	return mountToggler(home, "")
}

// bindFileToggler bind-mounts a canary on a file of the target.
func bindFileToggler(tr *tree) func(string) bool {
	return mountToggler(tr.CanaryDir()+"/canary", "/f")
}

func mountToggler(source, below string) func(string) bool {
	return func(target string) bool {
		if unix.Mount(source, target+below, "", unix.MS_BIND, "") != nil {
			return false
		}
		return unix.Unmount(target+below, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil
	}
}

func symlinkToggler(tr *tree) func(string) bool {
	canaries := tr.CanaryDir()
	return exchanger(tr.Outside+"/link", func(mine string) { tr.Must(os.Symlink(canaries, mine)) })
}

// directoryToggler exchanges the target with the attacker's directory.
func directoryToggler(tr *tree) func(string) bool {
	return exchanger(tr.Outside+"/dir", func(mine string) { tr.Mkdir(mine + "/own") })
}

func exchanger(mine string, build func(string)) func(string) bool {
	build(mine)
	return func(target string) bool {
		swap := func() bool {
			return unix.Renameat2(unix.AT_FDCWD, target, unix.AT_FDCWD, mine, unix.RENAME_EXCHANGE) == nil
		}
		if !swap() {
			return false
		}
		if !swap() {
			// The walk may have removed the attacker's link, since a link is only a name.
			_ = os.RemoveAll(mine)
			build(mine)
		}
		return true
	}
}

// TestAttackers checks that no canary is lost and that only allowed outcomes occur.
func TestAttackers(t *testing.T) {
	toggles := 1000
	if testkit.Long() {
		toggles = 20_000
	}
	for way, no := range testkit.Ways {
		for _, at := range attackers {
			t.Run(way+" "+at.name, func(t *testing.T) {
				testkit.OnTmpfs(t)
				tr, q, m := entryWith(t, no, content.All)
				results := map[judge.Result]int{}
				n := underAttack(tr, at.attack, toggles/len(attackers), func() bool {
					m.ID = idAt(t, tr.entry())
					o := run1(t, q, m)
					results[o.Result]++
					switch o.Result {
					case judge.Done, judge.Refused, judge.Failed:
					case judge.Gone, judge.Partly, judge.Conflict:
						t.Errorf("%+v", o)
					}
					return !t.Failed()
				})
				if results[judge.Done] == 0 { // on a busy machine each round may meet the attacker
					want(t, run1(t, q, m), judge.Done)
				}
				tr.Check()
				t.Logf("%d toggles, outcomes %v", n, results)
			})
		}
	}
}

// TestAttackersBeatRemoveAll runs the same attackers against os.RemoveAll, which does lose files. An attacker that destroys
// nothing here would prove nothing above.
func TestAttackersBeatRemoveAll(t *testing.T) {
	for _, at := range attackers[:2] {
		t.Run(at.name, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, _, _ := entryWith(t, false, content.All)
			underAttack(tr, at.attack, 100_000, func() bool {
				_ = os.RemoveAll(tr.entry())
				return len(tr.Lost()) == 0
			})
			if len(tr.Lost()) == 0 {
				t.Fatal("os.RemoveAll lost nothing, so these attackers prove nothing")
			}
			tr.Canaries = nil
		})
	}
}

// targets is the number of directories of a tree from which the attacker chooses.
const targets = 32

// underAttack calls remove repeatedly on a new tree while the attacker changes it, until the attacker has made that many
// changes, or 200 rounds have passed, or remove returns false. Only changes while remove runs count.
func underAttack(tr *tree, attack func(*tree) func(string) bool, toggles int, remove func() bool) int {
	tr.T.Helper()
	dir := tr.entry() + "/" + emptyDirE
	toggle := attack(tr)
	n := 0
	for rounds, goOn := 0, true; goOn && (n < toggles && rounds < toggles || rounds < 20); rounds++ {
		for i := range targets {
			_ = os.MkdirAll(fmt.Sprintf("%s/%d/x/y", dir, i), 0o755)
			_ = os.WriteFile(fmt.Sprintf("%s/%d/f", dir, i), nil, 0o600)
		}
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if toggle(fmt.Sprintf("%s/%d", dir, i*7%targets)) {
					n++
				}
			}
		})
		goOn = remove()
		stop.Store(true)
		wg.Wait()
	}
	return n
}

// TestAttackedMove exchanges the pod directory with a link and a living pod's directory while it is moved and restored. No
// content is lost, whatever has the name.
func TestAttackedMove(t *testing.T) {
	rounds := 100
	if testkit.Long() {
		rounds = 5000
	}
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr := newTree(t, "file mine 1")
			q := tr.open(no)
			living := tr.Base + "/living"
			tr.Canary(living + "/canary")
			tr.Canaries = tr.Canaries[:len(tr.Canaries)-1]
			tr.Must(os.Symlink(tr.CanaryDir(), tr.Base+"/link"))
			m := tr.move(uidA)
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() {
				swap := func(with string) bool {
					return unix.Renameat2(unix.AT_FDCWD, tr.pod(), unix.AT_FDCWD, with, unix.RENAME_EXCHANGE) == nil
				}
				for ctx.Err() == nil {
					for _, with := range []string{living, tr.Base + "/link"} {
						for back := swap(with); back && ctx.Err() == nil && !swap(with); {
							continue
						}
					}
				}
			})
			results := map[judge.Result]int{}
			for range rounds {
				o := run1(t, q, m)
				results[o.Result]++
				if o.Result == judge.Done {
					testkit.There(t, tr.entry()+"/mine", true)
					back := m
					back.Action = judge.Restore
					if o := run1(t, q, back); o.Result == judge.Failed {
						t.Fatalf("%+v", o)
					}
				}
			}
			cancel()
			wg.Wait()
			t.Log(results)
			mine, canaries := 0, 0
			for _, p := range testkit.Listing(t, tr.Base) {
				switch filepath.Base(p) {
				case "mine":
					mine++
				case "canary":
					canaries++
				}
			}
			if mine != 1 || canaries != 3 {
				t.Errorf("%d of 1 own file and %d of 3 canaries remain", mine, canaries)
			}
		})
	}
}
