package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

type age struct {
	under time.Duration
	name  string
}

// ages are the names of ages, the youngest first.
var ages = []age{{time.Hour, "under 1h"}, {24 * time.Hour, "under 24h"}, {7 * 24 * time.Hour, "under 7d"}, {1<<63 - 1, "7d or more"}}

// ageOf returns the name of an age, or "unknown" if since is zero.
func ageOf(since, now time.Time) string {
	if since.IsZero() {
		return "unknown"
	}
	for _, a := range ages {
		if now.Sub(since) < a.under {
			return a.name
		}
	}
	return ages[len(ages)-1].name
}

// sums holds the sums by reason, driver and age. In a key, only By and Name are set.
type sums map[Sum]*Sum

// add adds a pod with all of its reasons.
func (s sums) add(p *Pod, why []policy.Why, now time.Time) {
	one := func(by, name string) {
		if name == "" {
			return
		}
		key := Sum{By: by, Name: name}
		if s[key] == nil {
			s[key] = &Sum{By: by, Name: name}
		}
		s[key].Pods++
		s[key].Bytes += p.Bytes
	}
	for _, w := range why {
		one(ByReason, string(w.Reason))
	}
	one(ByDriver, p.Driver)
	one(ByAge, ageOf(p.Since, now))
}

// first returns the first mostSums sums.
func (s sums) first() []Sum {
	all := []Sum{}
	for _, one := range s {
		all = append(all, *one)
	}
	SortSums(all)
	return all[:min(len(all), mostSums)]
}

// SortSums sorts sums: reasons, drivers and ages. Within each, most pods come first, and ages begin with the youngest.
func SortSums(sums []Sum) {
	rank := func(s Sum) int {
		if s.By != ByAge {
			return 0
		}
		return slices.IndexFunc(ages, func(a age) bool { return a.name == s.Name })
	}
	slices.SortFunc(sums, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(b.By, a.By), rank(a)-rank(b), cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Name, b.Name))
	})
}

func bytesOf(left []policy.Residue) (sum int64) {
	for _, l := range left {
		sum += l.Bytes
	}
	return sum
}

// driverOf returns the CSI driver in a vol_data.json, or the volume plugin of residue of class data, or that of a
// mount. A pod's own processes cannot write these.
func driverOf(files map[string]string, left []policy.Residue, mounted string) string {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		var volume struct {
			Driver string `json:"driverName"`
		}
		if json.Unmarshal([]byte(files[path]), &volume) == nil && volume.Driver != "" {
			return Short(volume.Driver)
		}
	}
	for _, l := range left {
		if rest, ok := strings.CutPrefix(l.Path, "volumes/"); ok && l.Class == contents.ClassData {
			return pluginOf(rest)
		}
	}
	if _, rest, ok := strings.Cut(mounted, "/volumes/"); ok {
		return pluginOf(rest)
	}
	return ""
}

// pluginOf returns the plugin of a path below volumes, in which "~" stands for the slash of its name.
func pluginOf(path string) string {
	plugin, _, _ := strings.Cut(path, "/")
	return Short(strings.Replace(plugin, "~", "/", 1))
}
