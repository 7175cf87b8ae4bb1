package quarantine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The model of what may be removed, independent of package content: a path is of the first class whose pattern matches, and
// otherwise data.
var (
	modelSkeleton = regexp.MustCompile(`^file (etc-hosts|containers/[^/]+/[^/]+|plugins/[^/]+/[^/]+/ready|volumes/kubernetes\.io~csi/[^/]+/vol_data\.json)$|` +
		`^empty volume-subpaths/[^/]+/[^/]+/[^/]+$|^link volumeDevices/[^/]+/[^/]+$`)
	modelProjected = regexp.MustCompile(`^\w+ volumes/kubernetes\.io~(secret|configmap|projected|downward-api)/[^/]+/`)
	modelEphemeral = regexp.MustCompile(`^\w+ volumes/kubernetes\.io~empty-dir/[^/]+/`)
)

// unitDepth returns the level at which the tree of c is kept or removed as a whole.
func unitDepth(c []string) int {
	switch {
	case c[0] == "containers", c[0] == "volumeDevices":
		return 3
	case c[0] == "plugins", c[0] == "volume-subpaths", c[0] == "volumes" && len(c) > 1 && c[1] == "kubernetes.io~csi":
		return 4
	case c[0] == "volumes":
		return 3
	}
	return 1
}

// model returns which of the paths (with their kinds) must be kept. A unit that has only directories is removed; a unit with
// anything kept is kept whole.
func model(kinds map[string]string, remove content.Set) []string {
	left := map[string]bool{}
	for p, kind := range kinds {
		class := content.Data
		switch line := kind + " " + p; {
		case modelSkeleton.MatchString(line) || modelSkeleton.MatchString("file "+p) && kind == "empty":
			class = content.Skeleton
		case modelProjected.MatchString(line):
			class = content.Projected
		case modelEphemeral.MatchString(line):
			class = content.Ephemeral
		}
		if kind == "dir" || remove.Has(class) {
			continue
		}
		for q := p; q != "."; q = path.Dir(q) {
			left[q] = true
		}
		if c := strings.Split(p, "/"); len(c) >= unitDepth(c) {
			unit := path.Join(c[:unitDepth(c)]...) + "/"
			for q := range kinds {
				left[q] = left[q] || strings.HasPrefix(q+"/", unit)
			}
		}
	}
	maps.DeleteFunc(left, func(_ string, keep bool) bool { return !keep })
	return slices.Sorted(maps.Keys(left))
}

// TestOracle compares the walk of random trees with the model. If the tree has a mount, the walk must stop there with all
// that the model keeps.
func TestOracle(t *testing.T) {
	testkit.OnTmpfs(t)
	rounds := 60
	if testkit.Long() {
		rounds = 1000
	}
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		remove := []content.Set{content.Payloads, content.Aged, content.All}[rnd.IntN(3)]
		kinds := randomTree(rnd)
		specs := make([]string, 0, len(kinds))
		for _, p := range slices.Sorted(maps.Keys(kinds)) {
			kind := map[string]string{"file": "file %s 5", "empty": "file %s 0", "dir": "dir %s", "link": "link %s /nowhere", "fifo": "fifo %s"}[kinds[p]]
			specs = append(specs, fmt.Sprintf(kind, p))
		}
		tr, q, m := entryWith(t, seed%2 == 0, remove, specs...)
		want := model(kinds, remove)
		mount := rnd.IntN(4) == 0
		if mount {
			dirs := slices.DeleteFunc(slices.Sorted(maps.Keys(kinds)), func(p string) bool { return kinds[p] != "dir" })
			tr.One(tr.entry(), []string{"bind ", "tmpfs "}[rnd.IntN(2)]+dirs[rnd.IntN(len(dirs))])
		}
		o := run1(t, q, m)
		left := listing(t, tr.entry())
		switch {
		case mount:
			if o.Result != judge.Refused && o.Result != judge.Failed || !strings.Contains(o.Err, mounted) {
				t.Fatalf("seed %d: %+v", seed, o)
			}
			for _, p := range want {
				if _, ok := slices.BinarySearch(left, p); !ok && !strings.Contains(strings.Join(left, "\n"), "canary") {
					t.Fatalf("seed %d: %s is gone", seed, p)
				}
			}
			tr.Check()
		case !slices.Equal(left, want):
			t.Fatalf("seed %d remove %03b:\nleft  %q\nmodel %q\nbuilt %q\n%+v", seed, remove, left, want, specs, o)
		}
		testkit.UnmountBelow(t, tr.Base)
		tr.Canaries = slices.DeleteFunc(tr.Canaries, func(c testkit.Canary) bool { return c.MountPoint != "" })
	}
}

// randomTree returns a random pod directory, with worse content than real ones have.
func randomTree(rnd *rand.Rand) map[string]string {
	stems := []string{
		"", "containers", "containers/app", "plugins/kubernetes.io~empty-dir/c", "volumes", "volumes/kubernetes.io~csi", "volumes/kubernetes.io~csi/pv",
		"volumes/kubernetes.io~csi/pv/mount", "volumes/kubernetes.io~empty-dir/e", "volumes/kubernetes.io~empty-dir", "volumes/kubernetes.io~secret/s",
		"volumes/kubernetes.io~projected/p",
		"volumes/kubernetes.io~configmap/c", "volumes/kubernetes.io~nfs/n", "volumes/x~y/z", "volume-subpaths/v/c", "volumeDevices/kubernetes.io~csi", "other",
	}
	names := []string{"etc-hosts", "ready", "vol_data.json", "a", "b", "c1", "0"}
	types := []string{"file", "file", "empty", "dir", "dir", "link", "fifo"}
	kinds := map[string]string{"volumes": "dir"}
	for range 5 + rnd.IntN(30) {
		p := stems[rnd.IntN(len(stems))]
		for range rnd.IntN(3) {
			p = path.Join(p, []string{"d", "x", "y"}[rnd.IntN(3)])
		}
		p = path.Join(p, names[rnd.IntN(len(names))])
		if _, ok := kinds[p]; ok || !parentsAreDirs(kinds, p) {
			continue
		}
		kinds[p] = types[rnd.IntN(len(types))]
	}
	return kinds
}

// parentsAreDirs adds the directories above p, unless one of them is something else.
func parentsAreDirs(kinds map[string]string, p string) bool {
	for q := path.Dir(p); q != "."; q = path.Dir(q) {
		if k, ok := kinds[q]; ok && k != "dir" {
			return false
		}
	}
	for q := path.Dir(p); q != "."; q = path.Dir(q) {
		kinds[q] = "dir"
	}
	return true
}
