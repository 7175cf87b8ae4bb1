package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// formatV1 is a state directory of version 1, as that version wrote it.
const formatV1 = "testdata/v1"

func copyState(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	testkit.Must(t, os.CopyFS(dir, os.DirFS(formatV1)))
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return errors.Join(err, os.Chmod(path, 0o600))
	}))
	return dir
}

// TestFormatOfRecords checks that every record of an older ledger is written again byte for byte. It fails if a field
// is renamed, dropped or no longer omitted when empty.
func TestFormatOfRecords(t *testing.T) {
	seen := map[policy.Kind]bool{}
	for line := range bytes.Lines(readFile(t, formatV1, ledgerFile)) {
		var r policy.Record
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		testkit.Must(t, dec.Decode(&r))
		seen[r.Kind] = true
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false)
		testkit.Must(t, enc.Encode(r))
		if !bytes.Equal(again.Bytes(), line) {
			t.Errorf("old %snew %s", line, again.Bytes())
		}
	}
	if len(seen) < 23 {
		t.Errorf("only %d kinds of records", len(seen))
	}
}

// TestFormatV1 checks that an older program's state directory is read and continued.
func TestFormatV1(t *testing.T) {
	dir := copyState(t)
	log, text := logged()
	s := open(t, dir, Options{Log: log})
	phases := map[string]policy.Phase{}
	for name, e := range s.Entries() {
		phases[name] = e.Phase
		if e.Restored != strings.HasSuffix(name, "3") {
			t.Errorf("%s: restored %v", name, e.Restored)
		}
	}
	entry := func(n string) string { return "2c9a1c3e-5f0e-4c39-9d3b-00000000000" + n }
	if want := map[string]policy.Phase{
		entry("1"): policy.PhaseConfirmed, entry("3"): policy.PhaseGone, entry("6"): policy.PhaseConflict, entry("7"): policy.PhaseConfirmed,
		entry("9"): policy.PhaseParking,
	}; !reflect.DeepEqual(phases, want) {
		t.Errorf("entries %v, want %v", phases, want)
	}
	if held := s.Entries()[entry("1")]; held.Left[0].Class != contents.ClassData || held.ID.Ino != 9 || held.ConfirmedAt.Wall.Year() != 2026 {
		t.Errorf("the held pods: %+v", held)
	}
	if s.BreakerOpen() {
		t.Error("the breaker is open although an operator closed it")
	}
	if first := s.Unsent()[0].Seq; first <= 30 {
		t.Errorf("record %d counts as unsent", first)
	}
	if got := appendTo(t, s, policy.Record{Kind: policy.KindResumed}); got[0].Seq != int64(bytes.Count(readFile(t, formatV1, ledgerFile), []byte{'\n'})+1) {
		t.Errorf("continues with number %d", got[0].Seq)
	}
	if archives, err := s.ArchiveNames(); err != nil || !slices.Equal(archives, []string{"cni-20261101-020304-000"}) {
		t.Errorf("archives %v, %v", archives, err)
	}
	for _, name := range []string{"holds", "heard", "checkpoints", "quarantine", "home"} {
		var v map[string]any
		if ok, err := s.Load(name, &v); !ok || err != nil || len(v) == 0 {
			t.Errorf("%s: %v, %v, %v", name, v, ok, err)
		}
	}
	if text.Len() > 0 {
		t.Errorf("logged %s", text)
	}
}

// TestNewerRecordIsLeftUntouched checks that a record of an unknown kind, an action of a newer program, stops Open. A
// program that ignored it would lose track of entries in quarantine.
func TestNewerRecordIsLeftUntouched(t *testing.T) {
	dir := copyState(t)
	ledger := append(readFile(t, dir, ledgerFile), `{"seq":90,"kind":"teleported","at":{},"uid":"u","entry":"e","text":""}`+"\n"...)
	for name, rest := range map[string]string{"last": "", "torn behind": `{"seq":91,"ki`, "more behind": `{"seq":91,"kind":"resumed","at":{},"text":""}` + "\n"} {
		writeFile(t, append(ledger, rest...), dir, ledgerFile)
		s, err := OpenReadOnly(dir, Options{})
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "teleported") {
			t.Errorf("%s: to read: %v, %v", name, s, err)
		}
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "install that one") {
			t.Errorf("%s: to write: %v", name, err)
		}
		if got := readFile(t, dir, ledgerFile); !bytes.Equal(got, append(ledger, rest...)) {
			t.Errorf("%s: the ledger was changed", name)
		}
	}
}
