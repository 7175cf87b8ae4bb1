package quarantine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The tests of this file carry moves out on a real tree and record each change and each sync. Then they cut the power after
// each of them, on a disk that keeps only what it must: a name that was changed in a directory is on disk once this
// directory was synced, and not before; of the other names any may be there. A rename of which neither directory was synced
// is there as a whole, or not at all. An exchange is always there as a whole or not at all: only file systems with a journal
// have it. (ext4, xfs and btrfs keep more: their journals are in order.)

// powerCase is a run whose power is cut.
type powerCase struct {
	before names
	root   uint64
	events []event
	outs   []judge.Outcome
	tr     *tree
	moves  []judge.Move
	made   map[uint64]bool   // directories that were made
	keep   map[uint64]string // what may not be lost, by inode
	gone   map[uint64]string // files that were removed, by inode
}

// record carries the moves out.
func record(t *testing.T, build func(t *testing.T) (*tree, []judge.Move)) *powerCase {
	t.Helper()
	tr, moves := build(t)
	c := &powerCase{tr: tr, moves: moves, keep: map[uint64]string{}, gone: map[uint64]string{}}
	c.before, c.root = readNames(t, tr.Root)
	q := tr.open(false)
	r := &recorder{disk: kernel{}, t: t, made: map[uint64]bool{}}
	q.disk = r
	c.outs = run(t, q, moves...)
	c.events, c.made = r.events, r.made
	after, _ := readNames(t, tr.Root)
	now := map[uint64]bool{}
	for _, ino := range after.paths(c.root) {
		now[ino] = true
	}
	for p, ino := range c.before.paths(c.root) {
		_, dir := c.before[ino]
		switch {
		case strings.HasSuffix(p, manifestSuffix) && strings.Count(p, "/") == 1:
		case now[ino]:
			c.keep[ino] = p
		case !dir:
			c.gone[ino] = p
		}
	}
	return c
}

// cut returns an error if a power cut after the first n events loses something, or if after all of them it undoes what was
// reported.
func (c *powerCase) cut(n int, lost func() bool) (names, error) {
	state := c.before.afterPowerCut(c.events[:n], lost)
	there := map[uint64]string{}
	for p, ino := range state.paths(c.root) {
		there[ino] = p
	}
	for ino, p := range c.keep {
		if there[ino] == "" {
			return nil, fmt.Errorf("%s is lost", p)
		}
	}
	if n < len(c.events) {
		return state, nil
	}
	for ino, p := range c.gone {
		if there[ino] != "" {
			return nil, fmt.Errorf("%s was reported as removed and is back", p)
		}
	}
	after := c.before.afterPowerCut(c.events, func() bool { return false })
	if got, want := topNames(state, c.root), topNames(after, c.root); got != want {
		return nil, fmt.Errorf("reported: %s; after a power cut: %s", want, got)
	}
	return state, nil
}

// topNames returns the names of the root, the pods directory and the quarantine, but for manifests.
func topNames(n names, root uint64) string {
	var top []string
	for p := range n.paths(root) {
		if strings.Count(p, "/") < 2 && !strings.HasSuffix(p, manifestSuffix) {
			top = append(top, p)
		}
	}
	slices.Sort(top)
	return strings.Join(top, " ")
}

// cuts calls check for each event after which the power may be cut, and for many ways in which that may end.
func (c *powerCase) cuts(check func(n int, lost func() bool) error) error {
	for n := range len(c.events) + 1 {
		for seed := range 40 {
			rnd := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			share := []int{0, 1, 2, 4}[seed%4] // of four changes that may be lost
			if err := check(n, func() bool { return rnd.IntN(4) < share }); err != nil {
				return fmt.Errorf("cut after change %d of %d, seed %d: %w", n, len(c.events), seed, err)
			}
		}
	}
	return nil
}

var powerCases = map[string]func(t *testing.T) (*tree, []judge.Move){
	"the first moves": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr := newTree(t, fullPod...)
		return tr, []judge.Move{tr.move(uidA), tr.move(uidB)}
	},
	"restore": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10")
		return tr, []judge.Move{tr.quarantined(tr.open(false), judge.Restore)}
	},
	"exchange": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10")
		m := tr.quarantined(tr.open(false), judge.Exchange)
		m.Replace = true
		tr.Pod(uidA, "file volumes/kubernetes.io~csi/db/mount/new 10")
		return tr, []judge.Move{m}
	},
	"both ways": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10")
		return tr, []judge.Move{tr.quarantined(tr.open(false), judge.Restore), tr.move(uidB)}
	},
	"clean": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr, _, m := entryWith(t, false, content.Payloads, fullPod...)
		return tr, []judge.Move{m}
	},
	"purge of what was moved by a killed run": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr, _, m := entryWith(t, false, content.All, fullPod...)
		tr.Must(os.Remove(tr.entry() + manifestSuffix))
		return tr, []judge.Move{m}
	},
	"purge": func(t *testing.T) (*tree, []judge.Move) {
		t.Helper()
		tr, _, m := entryWith(t, false, content.All, fullPod...)
		return tr, []judge.Move{m}
	},
}

// TestPowerCut cuts the power after each change: nothing is lost that is kept, what Execute has reported stays so, and the
// same moves have the same end afterwards.
func TestPowerCut(t *testing.T) {
	testkit.OnTmpfs(t)
	for name, build := range powerCases {
		t.Run(name, func(t *testing.T) {
			c := record(t, build)
			defer c.tr.movedB()
			for _, o := range c.outs {
				if o.Result != judge.Done && o.Result != judge.Partly {
					t.Fatalf("%+v", o)
				}
			}
			if len(c.keep) < 3 || len(c.events) < 4 {
				t.Fatalf("%d files, %d changes", len(c.keep), len(c.events))
			}
			end := c.before.afterPowerCut(c.events, func() bool { return false })
			tried := map[string]bool{}
			err := c.cuts(func(n int, lost func() bool) error {
				state, err := c.cut(n, lost)
				if err != nil {
					return err
				}
				return c.goOn(t, state, end, tried)
			})
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d changes and syncs, %d trees on which the moves were carried out again", len(c.events), len(tried))
		})
	}
}

// goOn makes the tree of a state, unless a directory of it has two names, and carries the moves out again.
func (c *powerCase) goOn(t *testing.T, state, end names, tried map[string]bool) error {
	t.Helper()
	paths := state.paths(c.root)
	sorted := slices.Sorted(maps.Keys(paths))
	seen := map[uint64]bool{}
	for _, p := range sorted {
		if c.before[paths[p]] != nil && seen[paths[p]] {
			return nil // a file system check removes one of them
		}
		seen[paths[p]] = true
	}
	key := strings.Join(sorted, "|")
	if tried[key] {
		return nil
	}
	tried[key] = true
	root := t.TempDir()
	made := map[uint64]judge.FileID{}
	for _, p := range sorted {
		ino := paths[p]
		if c.before[ino] == nil && !c.made[ino] {
			testkit.Must(t, os.WriteFile(root+"/"+p, nil, 0o600))
			continue
		}
		testkit.Must(t, os.MkdirAll(root+"/"+p, 0o700))
		made[ino] = idAt(t, root+"/"+p)
	}
	q, err := Open(Config{PodsDir: root + "/pods", Dir: root + "/orphan-reaper"})
	testkit.Must(t, err)
	moves := slices.Clone(c.moves)
	for i, m := range moves {
		if moves[i].ID = made[m.ID.Ino]; moves[i].ID == (judge.FileID{}) {
			moves[i].ID = m.ID // it is gone
		}
	}
	for _, o := range run(t, q, recovered(t, q, moves)...) {
		if o.Result == judge.Failed || o.Result == judge.Conflict || o.Result == judge.Refused && !strings.Contains(o.Err, "no such file") {
			return fmt.Errorf("%s again: %s: %s, in\n%s", o.Move.Action, o.Result, o.Err, strings.Join(sorted, "\n"))
		}
	}
	got, at := readNames(t, root)
	if g, w := topNames(got, at), topNames(end, c.root); g != w {
		return fmt.Errorf("the same moves end in %s, want %s", g, w)
	}
	return nil
}

// TestPowerCutGuards shows what is lost without a sync, and with syncs in the wrong order.
func TestPowerCutGuards(t *testing.T) {
	testkit.OnTmpfs(t)
	dirOf := func(c *powerCase, name string) uint64 {
		after := c.before.afterPowerCut(c.events, func() bool { return false })
		return after.paths(c.root)[name]
	}
	without := func(names ...string) func(c *powerCase) {
		return func(c *powerCase) {
			var dirs []uint64
			for _, name := range names {
				dirs = append(dirs, dirOf(c, name))
			}
			c.events = slices.DeleteFunc(c.events, func(e event) bool {
				return e.halves == nil && (names == nil || slices.Contains(dirs, e.sync))
			})
		}
	}
	reversed := func(c *powerCase) {
		var syncs []int
		for i, e := range c.events {
			if e.halves == nil && e.sync != c.root {
				syncs = append(syncs, i)
			}
		}
		n := len(syncs)
		c.events[syncs[n-2]], c.events[syncs[n-1]] = c.events[syncs[n-1]], c.events[syncs[n-2]]
	}
	root := func(c *powerCase) {
		c.events = slices.DeleteFunc(c.events, func(e event) bool { return e.halves == nil && e.sync == c.root })
	}
	early := func(c *powerCase) { // leaves the last two
		n := len(c.events)
		c.events = append(slices.DeleteFunc(slices.Clone(c.events[:n-2]), func(e event) bool { return e.halves == nil }), c.events[n-2:]...)
	}
	for name, test := range map[string]struct {
		of    string
		wrong func(c *powerCase)
		words string
	}{
		"a move without syncs":                      {"the first moves", without(), "is lost"},
		"a move without the sync of pods":           {"the first moves", without("pods"), "after a power cut"},
		"a move without the sync of the quarantine": {"the first moves", without("orphan-reaper"), "is lost"},
		"a move that syncs its source first":        {"the first moves", reversed, "is lost"},
		"a quarantine whose own name is not synced": {"the first moves", root, "is lost"},
		"a restore that syncs its source first":     {"restore", reversed, "is lost"},
		"a restore without syncs":                   {"restore", without(), "after a power cut"},
		"an exchange without syncs":                 {"exchange", without(), "is lost"},
		"both ways that sync only at the end":       {"both ways", early, "is lost"},
		"a clean without syncs":                     {"clean", without(), "is back"},
		"a purge without the sync of quarantine":    {"purge", without("orphan-reaper"), "is back"},
	} {
		t.Run(name, func(t *testing.T) {
			c := record(t, powerCases[test.of])
			defer c.tr.movedB()
			test.wrong(c)
			err := c.cuts(func(n int, lost func() bool) error {
				_, err := c.cut(n, lost)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%v, want: %s", err, test.words)
			}
		})
	}
}

// TestPowerCutRecovery kills a run right after its last rename, before it has synced, and cuts the power while Where looks for
// the directories or after it: nothing is lost, and what Where has returned stays so. The same holds for a restore that is
// carried out once more since Where has failed.
func TestPowerCutRecovery(t *testing.T) {
	testkit.OnTmpfs(t)
	for _, of := range []string{"the first moves", "restore"} {
		for guard, words := range map[string]string{"": "", "once more": "", "no sync": "after a power cut", "the source first": "is lost"} {
			if guard == "once more" && of != "restore" {
				continue
			}
			t.Run(of+" "+guard, func(t *testing.T) {
				c := record(t, powerCases[of])
				defer c.tr.movedB()
				for c.events[len(c.events)-1].halves == nil || len(c.events[len(c.events)-1].halves) < 2 {
					c.events = c.events[:len(c.events)-1]
				}
				q := c.tr.open(false)
				r := &recorder{disk: kernel{}, t: t}
				q.disk = r
				for _, m := range c.moves {
					if guard == "once more" {
						want(t, run1(t, q, m), judge.Done)
						continue
					}
					_, _, err := q.Where(m.UID, m.Entry)
					testkit.Must(t, err)
				}
				switch guard {
				case "no sync":
					r.events = nil
				case "the source first":
					for i := 0; i+1 < len(r.events); i += 2 {
						r.events[i], r.events[i+1] = r.events[i+1], r.events[i]
					}
				}
				c.events = append(c.events, r.events...)
				err := c.cuts(func(n int, lost func() bool) error {
					_, err := c.cut(n, lost)
					return err
				})
				if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
					t.Errorf("%v, want: %s", err, words)
				}
			})
		}
	}
}

// failing fails the syncs of one directory.
type failing struct {
	disk
	dir uint64
}

func (f failing) sync(dir *fdpath.Dir) error {
	if id, err := dir.ID(); err != nil || id.Ino == f.dir {
		return errors.Join(err, unix.EIO)
	}
	return f.disk.sync(dir)
}

// TestSyncFails checks that no outcome is reported as done that a power cut may undo.
func TestSyncFails(t *testing.T) {
	for _, dir := range []string{"", "/pods", "/orphan-reaper"} {
		tr := newTree(t)
		if dir == "/orphan-reaper" {
			tr.Must(os.Mkdir(tr.Quar, 0o700))
		}
		q := tr.open(false)
		q.disk = failing{kernel{}, idAt(t, tr.Root+dir).Ino}
		m := tr.move(uidA)
		o := run1(t, q, m)
		if dir == "" {
			want(t, o, judge.Refused, "fsync") // the quarantine's own name
			testkit.There(t, tr.pod(), true)
			continue
		}
		want(t, o, judge.Failed, "fsync "+tr.Root+dir)
		if _, _, err := q.Where(m.UID, m.Entry); !errors.Is(err, unix.EIO) {
			t.Error(err)
		}
		q.disk = kernel{}
		if _, id, err := q.Where(m.UID, m.Entry); err != nil || id != m.ID {
			t.Error(id, err)
		}
	}
	tr, q, m := entryWith(t, false, content.Payloads, fullPod...)
	q.disk = failing{kernel{}, idAt(t, tr.entry()).Ino}
	want(t, run1(t, q, m), judge.Failed, "fsync "+tr.entry())
}
