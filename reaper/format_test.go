package reaper

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

// TestFormatOfMemory: what an older program remembered of holds and of the kubelet's words is
// read whole, and written the same.
func TestFormatOfMemory(t *testing.T) {
	for name, v := range map[string]any{"holds": new(memory), "heard": new(heard.Heard), "home": new(quarantineParent)} {
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
			t.Errorf("%s: %v\nwas %s\nnow %s", name, err, file.Value, again)
		}
	}
}
