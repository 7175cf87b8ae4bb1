package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// world is a log with its writer, and all that was written to it.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	path string
	w    *writer
	part string // the rest of an unfinished line
	next int
	must []int
	free map[int]bool // orphans that may be lost unread
	n    int          // number of rotated files
	junk int
	log  []string
}

func (x *world) finish() {
	if x.part != "" {
		x.w.raw(x.part + "\n")
		x.part = ""
	}
}

func (x *world) write() {
	x.finish()
	for range 1 + x.rng.IntN(4) {
		for range x.rng.IntN(30) {
			x.junk++
			x.w.raw(fmt.Sprintf("I0331 15:47:46.%06d %s", x.junk, junk)) // Each file begins differently.
		}
		x.w.raw(orphan(x.next) + "\n")
		x.must = append(x.must, x.next)
		x.next++
	}
}

func (x *world) writePart() {
	x.finish()
	text := orphan(x.next)
	cut := 1 + x.rng.IntN(len(text)-1)
	x.w.raw(text[:cut])
	x.part = text[cut:]
	x.must = append(x.must, x.next)
	x.next++
}

// shift renames PATH.n to PATH.n+1, as logrotate does, to free PATH.1.
func (x *world) shift() {
	for i := x.n; i >= 1; i-- {
		rename(x.t, x.path+"."+strconv.Itoa(i), x.path+"."+strconv.Itoa(i+1))
	}
	x.n++
}

// rotate renames the log once the follower has opened it: of two renames between two reads it may notice only the
// second. An empty file is not opened while the previous one has another name.
func (x *world) rotate(f *follower, late bool) {
	if info, err := x.w.Stat(); err == nil && info.Size() == 0 {
		x.write()
	}
	if !late {
		x.finish()
	}
	file, ok := f.src.(*File)
	if !ok {
		x.t.Fatalf("%T is not a File", f.src)
	}
	for ino := inode(x.t, x.path); ; time.Sleep(time.Millisecond) {
		file.mu.Lock()
		has := file.cur != nil && file.cur.position().Inode == ino
		file.mu.Unlock()
		if has {
			break
		}
	}
	x.shift()
	rename(x.t, x.path, x.path+".1")
	old := x.w
	if late {
		x.write()
	}
	x.w = open(x.t, x.path)
	if late {
		fresh := x.w
		x.w = old
		x.write()
		x.w = fresh
	}
	_ = old.Close()
}

func (x *world) copyTruncate(f *follower) {
	x.finish()
	x.lose(f)
	x.shift()
	copyTruncate(x.t, x.path, x.path+".1")
	if x.rng.IntN(2) == 0 {
		for range 5 {
			x.write()
		}
	}
}

func (x *world) remake(f *follower) {
	x.finish()
	x.lose(f)
	remove(x.t, x.path)
	_ = x.w.Close()
	x.w = open(x.t, x.path)
}

// lose lets the follower read everything first, or permits the loss of unread lines.
func (x *world) lose(f *follower) {
	if x.rng.IntN(2) == 0 {
		x.catchUp(f)
		return
	}
	for _, n := range x.unseen(f) {
		x.free[n] = true
	}
}

// catchUp waits until everything written has arrived.
func (x *world) catchUp(f *follower) {
	x.t.Helper()
	if !f.waitFor(func([]string) bool { return len(x.unseen(f)) == 0 }) {
		x.t.Fatalf("never arrived: %v; %v", x.unseen(f), x.log)
	}
}

// unseen returns what was written and has not arrived at this follower or an earlier one.
func (x *world) unseen(f *follower) []int {
	texts := f.texts()
	seen := make(map[string]bool, len(texts))
	for _, s := range texts {
		seen[s] = true
	}
	var ns []int
	for _, n := range x.must {
		if !seen[orphan(n)] && !x.free[n] {
			ns = append(ns, n)
		}
	}
	return ns
}

// TestFileRandomRotations writes, rotates in every way and restarts the follower, in random order and at full speed.
// Everything written must arrive once, unless its file was deleted or truncated before it could be read, or renamed
// before a restart.
func TestFileRandomRotations(t *testing.T) {
	runs, steps := 12, 40
	if os.Getenv("ORPHAN_REAPER_LONG") != "" {
		runs = 400
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := &world{
				t: t, rng: rand.New(rand.NewPCG(uint64(seed), 1)), path: filepath.Join(t.TempDir(), "messages"),
				free: map[int]bool{},
			}
			x.w = open(t, x.path)
			f := start(t, newFile(x.path), Position{})
			x.write()
			waitOpened(t, f.src) // A first start reads the current file only.
			for range steps {
				x.step(&f)
			}
			x.finish()
			f.waitFor(func([]string) bool { return len(x.unseen(f)) == 0 })
			if missing := x.unseen(f); len(missing) > 0 {
				t.Errorf("never arrived: %v; %v", missing, x.log)
			}
			var twice []int
			for _, n := range x.must {
				if c := count(f.texts(), orphan(n)); c > 1 {
					twice = append(twice, n)
				}
			}
			if len(twice) > 0 {
				t.Errorf("arrived twice: %v", twice)
			}
			if t.Failed() {
				t.Log(x.log)
			}
		})
	}
}

func (x *world) step(f **follower) {
	op := x.rng.IntN(20)
	x.log = append(x.log, fmt.Sprint(op, "@", x.next))
	switch {
	case op < 8:
		x.write()
	case op < 10:
		x.writePart()
	case op < 13:
		x.rotate(*f, op == 12)
	case op < 15:
		x.copyTruncate(*f)
	case op < 16:
		x.remake(*f)
	case op < 18:
		if x.part == "" {
			x.catchUp(*f)
		}
	default:
		x.finish()
		x.lose(*f)
		from := (*f).stop()
		g := start(x.t, newFile(x.path), from)
		// Lines that the previous follower sent count, too.
		(*f).mu.Lock()
		g.mu.Lock()
		g.got = append(append(g.got[:0:0], (*f).got...), g.got...)
		g.mu.Unlock()
		(*f).mu.Unlock()
		*f = g
	}
}
