package source

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestFormatOfCheckpoints: the places in the logs are read whole, and written the same.
func TestFormatOfCheckpoints(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "state", "testdata", "v1", "checkpoints.json"))
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
	var v Checkpoints
	dec := json.NewDecoder(bytes.NewReader(file.Value))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, file.Value) {
		t.Errorf("%v\nwas %s\nnow %s", err, file.Value, again)
	}
}
