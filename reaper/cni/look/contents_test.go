package look

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func (n *cniNode) files() []cni.File {
	n.t.Helper()
	var files []cni.File
	for _, l := range n.sweep() {
		files = append(files, l.Files...)
	}
	return files
}

// TestContents checks that a sweep reads all of each file that a restore needs, with both ways of opening.
func TestContents(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		n := newCNINode(t)
		n.fallback, n.contents = fallback, true
		n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.netns("x"))
		n.write("cni/results/cbr0-"+id("empty")+"-eth0", "")
		n.write("cni/multus/"+id("gone"), "[]")
		n.address("cbr0", "fd00::9", id("gone"))
		at := time.Now().Add(-48 * time.Hour).Truncate(time.Microsecond)
		testkit.Must(t, os.Chmod(n.path("cni/networks/cbr0/fd00::9"), 0o640))
		testkit.Must(t, os.Chtimes(n.path("cni/networks/cbr0/fd00::9"), at, at))
		// Root lacks other users in a user namespace with one user, and in some containers the privilege.
		owner := [2]uint32{uint32(os.Getuid()), uint32(os.Getgid())}
		if os.Chown(n.path("cni/networks/cbr0/fd00::9"), 12, 34) == nil {
			owner = [2]uint32{12, 34}
		} else if os.Getenv("REQUIRE_ROOT") == "1" {
			t.Error("REQUIRE_ROOT=1, and no file can be given to another user")
		}
		got := n.files()
		if len(got) != 4 {
			t.Fatalf("%d contents of 4 files", len(got))
		}
		for _, c := range got {
			want, err := os.ReadFile(c.Dir + "/" + c.Name)
			testkit.Must(t, err)
			if c.Err != "" || string(c.Data) != string(want) {
				t.Errorf("%s: error %q, data %q", c.Name, c.Err, c.Data)
			}
			if c.Kind == cni.Address {
				if c.Mode != 0o640 || !c.Mtime.Equal(at) || c.Owner != owner {
					t.Errorf("mode %o, owner %v, %s", c.Mode, c.Owner, c.Mtime)
				}
			} else if c.Mode != 0o600 {
				t.Errorf("%s: mode %o", c.Name, c.Mode)
			}
		}
	}
}

// TestContentsBounded checks that a chunk has a limited number of bytes of content, that the next one continues, and
// that each file comes once.
func TestContentsBounded(t *testing.T) {
	n := newCNINode(t)
	n.contents = true
	text := cacheText("cbr0", id("gone"), "%", string(newUID()), n.netns("x"))
	const count = 10
	for i := range count {
		ifName := "eth" + string(rune('0'+i))
		n.write("cni/results/cbr0-"+id("gone")+"-"+ifName, strings.ReplaceAll(text, "%", ifName)+strings.Repeat(" ", cni.MaxFile-4096))
	}
	seen := map[string]int{}
	looks := n.sweep()
	for _, l := range looks {
		held := 0
		for _, f := range l.Files {
			seen[f.Name]++
			held += len(f.Data)
		}
		// Each of the workers may be at one file when the limit is reached.
		if held == 0 || held > mostContent+4*cni.MaxFile {
			t.Errorf("a chunk holds %d bytes", held)
		}
	}
	if len(seen) != count || len(looks) < 2 {
		t.Errorf("%d files of %d in %d chunks", len(seen), count, len(looks))
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s comes %d times", name, times)
		}
	}
	n.contents = false
	if looks = n.sweep(); len(looks) != 1 || len(looks[0].Files) != count || looks[0].Files[0].Data != nil {
		t.Errorf("without contents: %d chunks", len(looks))
	}
}

// TestContentsPostponed checks that the addresses of a chunk are judged with the cache files, also those whose
// content did not fit.
func TestContentsPostponed(t *testing.T) {
	facts := map[bool]map[string]cni.File{}
	for _, contents := range []bool{false, true} {
		n := newCNINode(t)
		n.contents = contents
		n.process(300)
		for i := range 12 {
			c := id(fmt.Sprint("gone", i))
			n.address("cbr0", fmt.Sprintf("10.244.0.%d", i+2), c)
			uid := fmt.Sprintf("00000000-0000-4000-8000-%012x", i)
			n.write("cni/results/cbr0-"+c+"-eth0", cacheText("cbr0", c, "eth0", uid, "/proc/300/ns/net")+strings.Repeat(" ", cni.MaxFile-8192))
		}
		facts[contents] = map[string]cni.File{}
		looks := n.sweep()
		if contents && len(looks) < 2 {
			t.Errorf("no content was postponed")
		}
		for _, l := range looks {
			for _, f := range l.Files {
				if f.Kind == cni.Address {
					f.Dir, f.ID, f.Changed, f.Mtime, f.Data = "", cni.FileID{}, time.Time{}, time.Time{}, nil
					f.Mode, f.Owner, f.Label = 0, [2]uint32{}, ""
					for i := range f.Facts {
						f.Facts[i].Origin, f.Facts[i].Detail = "", ""
					}
					facts[contents][f.Name] = f
				}
			}
		}
	}
	for name, f := range facts[false] {
		if f.Facts[cni.Netns].Truth != policy.Yes || !reflect.DeepEqual(f, facts[true][name]) {
			t.Errorf("%s: with contents %+v, without %+v", name, facts[true][name], f)
		}
	}
	if len(facts[false]) != 12 {
		t.Errorf("%d addresses", len(facts[false]))
	}
}
