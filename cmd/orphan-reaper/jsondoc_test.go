package main

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui/doctor"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestJSONDoc: docs/json.md has every key that -o json writes.
func TestJSONDoc(t *testing.T) {
	b, err := os.ReadFile("../../docs/json.md")
	testkit.Must(t, err)
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(string(b), -1) {
		told[m[1]] = true
	}
	keys := allJSONKeys()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !told[key] {
			t.Errorf("docs/json.md does not tell of %s", key)
		}
	}
	if len(keys) < 80 {
		t.Errorf("only %d keys were found: %v", len(keys), keys)
	}
}

// allJSONKeys are the keys that -o json and HTTP write.
func allJSONKeys() map[string]bool {
	keys := map[string]bool{"good": true, "notes": true, "settings": true, "archives": true, "stopped": true, "advice": true, "history": true, "resumed": true}
	for _, view := range []any{
		ui.Report{},
		doctor.Screen{},
		ui.NodeReport{},
		ui.Advice{},
		ui.HistoryEntry{},
		ui.Archive{},
		ui.Stopped{},
		ui.Outcomes{},
		ui.ArchiveRestored{},
		ui.Sighting{},
		config.SettingView{},
		versionView{},
		report.Report{},
		report.Answer{},
		ui.FleetList{},
		ui.FleetSweep{},
	} {
		jsonKeys(reflect.TypeOf(view), keys)
	}
	return keys
}

// jsonKeys collects the keys that a type has in JSON, at any depth.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	k := t.Kind()
	if k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
		jsonKeys(t.Elem(), keys)
	}
	if k != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			keys[name] = true
		}
		if name != "" || f.Anonymous {
			jsonKeys(f.Type, keys)
		}
	}
}
