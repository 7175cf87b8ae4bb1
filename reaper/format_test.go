package reaper

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// TestFormatOfMemory checks that files written by an older program are read completely and written back unchanged.
func TestFormatOfMemory(t *testing.T) {
	for name, v := range map[string]any{"holds": new(memory), "heard": new(reported.Log), "home": new(quarantineHome)} {
		b, err := os.ReadFile("state/testdata/v1/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Version int
			Value   json.RawMessage
		}
		if err := json.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(file.Value))
		dec.DisallowUnknownFields()
		if err := dec.Decode(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, file.Value) {
			t.Errorf("%s: %v\nold %s\nnew %s", name, err, file.Value, again)
		}
	}
}

// TestKeptPodsSaved checks that the saved list of kept pods is that of the last look, for "report": a pod that has
// disappeared is not in it.
func TestKeptPodsSaved(t *testing.T) {
	n := newFakeNode()
	n.add(1, map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes})
	r := n.reaper(t, testRules)
	mustPass(t, r, n.claim(1))
	if saved, _ := n.files["holds"].(memory); len(saved.Recorded) != 1 || saved.Looked != n.now {
		t.Errorf("kept: recorded %v at %v, now %v", saved.Recorded, saved.Looked, n.now)
	}
	delete(n.pods, uidOf(1))
	n.pass(time.Hour)
	mustPass(t, r)
	if saved, _ := n.files["holds"].(memory); len(saved.Recorded) != 0 || saved.Looked != n.now {
		t.Errorf("gone: recorded %v at %v, now %v", saved.Recorded, saved.Looked, n.now)
	}
}
