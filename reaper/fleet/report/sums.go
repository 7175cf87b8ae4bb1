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

// ageOf returns the name of an age, "unknown" where the beginning is not known.
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

// sum adds up the pods by reason, driver and age. What most pods have stands first.
func (r *Report) sum(all []candidate, now time.Time) {
	sums := map[Sum]*Sum{}
	add := func(by, name string, bytes int64) {
		if name == "" {
			return
		}
		key := Sum{By: by, Name: name}
		if sums[key] == nil {
			sums[key] = &Sum{By: by, Name: name}
		}
		sums[key].Pods++
		sums[key].Bytes += bytes
	}
	for _, c := range all {
		for _, w := range c.why {
			add(ByReason, string(w.Reason), c.bytes)
		}
		add(ByDriver, c.driver, c.bytes)
		add(ByAge, ageOf(c.since, now), c.bytes)
	}
	r.Sums = []Sum{}
	for _, s := range sums {
		r.Sums = append(r.Sums, *s)
	}
	SortSums(r.Sums)
	r.Sums = r.Sums[:min(len(r.Sums), mostSums)]
}

// SortSums brings sums into their order: reasons and drivers, of which most pods have the first, and then ages, the youngest first.
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

// driverOf returns the CSI driver that a vol_data.json names, else the volume plugin of what may be data, else that of what
// is mounted. A pod's own processes write none of these.
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

// pluginOf returns the plugin of a path below volumes, which has ~ for the slash of its name.
func pluginOf(path string) string {
	plugin, _, _ := strings.Cut(path, "/")
	return Short(strings.Replace(plugin, "~", "/", 1))
}
