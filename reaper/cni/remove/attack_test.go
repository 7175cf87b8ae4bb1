package remove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// These are the ways in which a program may replace a cache file: in place, as libcni, Multus and flannel do, and by
// a rename.
var writers = map[string]func(path, content string) error{
	"in place": func(path, content string) error { return os.WriteFile(path, []byte(content), 0o600) },
	"by rename": func(path, content string) error {
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	},
}

// TestCacheMadeAnew checks that a file that is replaced before any step of its removal is kept.
func TestCacheMadeAnew(t *testing.T) {
	for way, no := range testkit.Ways {
		for how, write := range writers {
			for _, before := range []string{"renameat2", "unlinkat"} {
				t.Run(way+"/"+how+"/"+before, func(t *testing.T) {
					x := newCNI(t, no)
					c := x.cache(1)
					at := x.results + "/" + c.Name
					done := false
					x.r.guards.before = testkit.Outside(func(op, _ string) {
						if op == before && !done {
							done = true
							x.Must(write(at, "new"))
						}
					})
					want := policy.Done // the archived one was removed before the new one came
					if before == "renameat2" {
						want = policy.Refused
					}
					ended(t, x.take(c), want)
					if b, err := os.ReadFile(at); string(b) != "new" || err != nil {
						t.Errorf("content %q: %v", b, err)
					}
					if names := testkit.Listing(t, x.results); len(names) != 1 {
						t.Error(names)
					}
				})
			}
		}
	}
}

// TestCacheMadeAnewWithoutAside shows the loss without moving the file aside.
func TestCacheMadeAnewWithoutAside(t *testing.T) {
	for how, write := range writers {
		t.Run(how, func(t *testing.T) {
			x := newCNI(t, false)
			x.r.guards.aside = false
			c := x.cache(1)
			at := x.results + "/" + c.Name
			x.r.guards.before = testkit.Outside(func(op, _ string) {
				if op == "unlinkat" {
					x.Must(write(at, "new"))
				}
			})
			ended(t, x.take(c), policy.Done)
			testkit.There(t, at, false)
		})
	}
}

// TestCacheMadeAnewTwice checks that if the name is created a second time while the first new file is moved back,
// both are kept, and the error has their names.
func TestCacheMadeAnewTwice(t *testing.T) {
	x := newCNI(t, false)
	c := x.cache(1)
	at := x.results + "/" + c.Name
	n := 0
	x.r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "renameat2" {
			n++
			x.Must(writers["by rename"](at, fmt.Sprint("new ", n)))
		}
	})
	ended(t, x.take(c), policy.Failed, asideSuffix)
	for path, want := range map[string]string{at: "new 2", at + asideSuffix: "new 1"} {
		if b, err := os.ReadFile(path); string(b) != want || err != nil {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// TestCacheUnderAttack replaces an archived file at random moments: the new file is kept, whatever happens to the
// archived one.
func TestCacheUnderAttack(t *testing.T) {
	testkit.OnTmpfs(t)
	rounds := 300
	if testkit.Long() {
		rounds = 20_000
	}
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			x := newCNI(t, no)
			results := map[policy.Result]int{}
			begin, done := make(chan int), make(chan error)
			at := x.results + "/" + x.cache(1).Name
			go func() {
				for spin := range begin {
					for i := range spin {
						_ = i
					}
					done <- os.Rename(at+".new", at)
				}
				close(done)
			}()
			// On a busy machine the two meet less often, so there are more rounds until they have.
			met := func() bool { return results[policy.Done] > 0 && results[policy.Refused] > 0 }
			for i := 0; i < rounds || i < 20_000 && !met(); i++ {
				c := x.cache(1)
				want := fmt.Sprint("new ", i)
				x.Must(os.WriteFile(at+".new", []byte(want), 0o600))
				begin <- rand.IntN(60_000)
				o := x.r.remove(context.Background(), []cni.File{c})[0]
				x.Must(<-done)
				results[o.Result]++
				if b, err := os.ReadFile(at); string(b) != want || err != nil || o.Result == policy.Failed {
					t.Fatalf("round %d: %q %v %+v", i, b, err, o)
				}
				x.Must(os.Remove(at))
			}
			close(begin)
			t.Logf("%v", results)
			if !met() {
				t.Error("the attacker never replaced a file in time")
			}
		})
	}
}

// TestDirectoryUnderAttack replaces the directory itself by a symbolic link to another one with a file of the same
// name.
func TestDirectoryUnderAttack(t *testing.T) {
	testkit.OnTmpfs(t)
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			x := newCNI(t, no)
			name := x.cache(1).Name
			x.Canary(x.Outside + "/" + name)
			dir, err := os.Open(x.results)
			x.Must(err)
			defer func() { x.Must(dir.Close()) }()
			held := fmt.Sprintf("/proc/self/fd/%d/", dir.Fd())
			stop, ended := make(chan bool), make(chan bool)
			x.Must(os.Symlink(x.Outside, x.cni+"/link"))
			go func() {
				defer close(ended)
				for {
					select {
					case <-stop:
						return
					default:
						_ = unix.Renameat2(unix.AT_FDCWD, x.results, unix.AT_FDCWD, x.cni+"/link", unix.RENAME_EXCHANGE)
						_ = unix.Renameat2(unix.AT_FDCWD, x.results, unix.AT_FDCWD, x.cni+"/link", unix.RENAME_EXCHANGE)
					}
				}
			}()
			results := map[policy.Result]int{}
			met := func() bool { return results[policy.Done] > 0 && results[policy.Refused] > 0 }
			for i := 0; i < 500 || i < 20_000 && !met(); i++ {
				_ = os.WriteFile(held+name, []byte("of the dead"), 0o600)
				// Sometimes this is the canary with its own identity, so that only the check of the link can save it.
				c, err := readCNI(cni.Cache, x.results, name)
				if err == nil {
					results[x.r.remove(context.Background(), []cni.File{c})[0].Result]++
				}
			}
			close(stop)
			<-ended
			x.Check()
			t.Log(results)
			if !met() {
				t.Error("the attacker never replaced the directory in time")
			}
		})
	}
}

// cutOff configures the helper process: its task, and the change before which it kills itself.
type cutOff struct {
	Files   []passed
	Dir     string
	Restore bool
	Kill    int
}

// passed is a file with the fields that its JSON omits.
type passed struct {
	File      cni.File
	Dir, Name string
	Data      []byte
}

func pass(files []cni.File) (all []passed) {
	for _, f := range files {
		all = append(all, passed{f, f.Dir, f.Name, f.Data})
	}
	return all
}

// cutOffHelper removes or restores, and kills itself before its Kill-th change.
func cutOffHelper() int {
	var c cutOff
	if err := json.Unmarshal([]byte(os.Getenv(envCutOff)), &c); err != nil {
		return 2
	}
	r, err := open(c.Dir, false)
	if err != nil {
		return 2
	}
	r.guards.before = testkit.KillBefore(c.Kill)
	var files []cni.File
	for _, p := range c.Files {
		p.File.Dir, p.File.Name, p.File.Data = p.Dir, p.Name, p.Data
		files = append(files, p.File)
	}
	if c.Restore {
		r.restore(context.Background(), files)
	} else {
		r.remove(context.Background(), files)
	}
	return 0
}

// TestCNICutOff kills before each change and runs again with the same files: the result equals that of one
// undisturbed run.
func TestCNICutOff(t *testing.T) {
	testkit.OnTmpfs(t)
	for _, restore := range []bool{false, true} {
		t.Run(fmt.Sprint("restore=", restore), func(t *testing.T) {
			build := func() (*cniTree, []cni.File) {
				x := newCNI(t, false)
				files := []cni.File{x.cache(1), x.cache(2), x.address(1, "10.0.0.7"), x.address(1, "fd00::7"), x.address(2, "10.0.0.8")}
				if restore {
					ended(t, x.take(files...), policy.Done)
				}
				return x, files
			}
			act := func(x *cniTree, files []cni.File) []string {
				f := x.take
				if restore {
					f = x.restore
				}
				for _, o := range f(files...) {
					if o.Result != policy.Done && o.Result != policy.Gone {
						t.Errorf("%+v", o)
					}
				}
				return testkit.Listing(t, x.cni)
			}
			end := act(build())
			for kill := 1; ; kill++ {
				x, files := build()
				died := testkit.Dies(t, envCutOff, cutOff{Files: pass(files), Dir: x.cni, Restore: restore, Kill: kill}, 0)
				if got := act(x, files); !slices.Equal(got, end) {
					t.Errorf("killed before change %d:\n%s\nwant:\n%s", kill, strings.Join(got, "\n"), strings.Join(end, "\n"))
				}
				if !died {
					if kill < 8 {
						t.Errorf("there are only %d changes", kill-1)
					}
					break
				}
			}
		})
	}
}

// TestCutOffWithNewcomer checks that the next run moves a file back that a killed run had moved aside although it was
// not the archived one.
func TestCutOffWithNewcomer(t *testing.T) {
	x := newCNI(t, false)
	c := x.cache(1)
	at := x.results + "/" + c.Name
	x.Must(os.Remove(at))
	x.Must(os.WriteFile(at+asideSuffix, []byte("new"), 0o600))
	ended(t, x.take(c), policy.Refused, "changed or replaced")
	if b, err := os.ReadFile(at); string(b) != "new" || err != nil {
		t.Error(string(b), err)
	}
	// If the name exists again, only an operator may remove the file aside.
	x.Must(os.WriteFile(at+asideSuffix, []byte("old"), 0o600))
	c = x.read(c.Kind, c.Dir, c.Name)
	ended(t, x.take(c), policy.Refused, "interrupted run has left")
	testkit.There(t, at, true)
	testkit.There(t, at+asideSuffix, true)
	x.Must(os.Remove(at))
	ended(t, x.restore(c), policy.Refused, "interrupted run has left")
	// An interrupted restore starts again.
	x.Must(os.WriteFile(at+asideSuffix, c.Data[:2], 0o600))
	ended(t, x.restore(c), policy.Done)
	testkit.There(t, at+asideSuffix, false)
}
