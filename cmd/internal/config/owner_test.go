package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestConfigOwner: whoever may write the configuration decides what root removes.
func TestConfigOwner(t *testing.T) {
	for name, c := range map[string]struct {
		file, dir os.FileMode
		owner     int
		mend      string // "" where it is taken
	}{
		"usual":                       {0o644, 0o755, -1, ""},
		"its own only":                {0o600, 0o700, -1, ""},
		"our group's":                 {0o664, 0o775, -1, ""},
		"anybody's":                   {0o666, 0o755, -1, "chmod 644 "},
		"anybody's to write":          {0o602, 0o755, -1, "chmod 644 "},
		"in a directory of anybody's": {0o644, 0o777, -1, "chmod 755 "},
		"in one like /tmp":            {0o644, 0o777 | os.ModeSticky, -1, ""},
		"another user's":              {0o644, 0o755, 12345, "chown root "},
	} {
		dir := filepath.Join(t.TempDir(), "etc")
		testkit.Must(t, os.Mkdir(dir, 0o700))
		file := filepath.Join(dir, "config.yaml")
		testkit.Must(t, os.WriteFile(file, []byte("mode: observe\n"), 0o600))
		if c.owner >= 0 && os.Chown(file, c.owner, -1) != nil {
			continue // Only root gives a file away; there the case is tried.
		}
		for path, mode := range map[string]os.FileMode{file: c.file, dir: c.dir} {
			testkit.Must(t, os.Chmod(path, mode))
		}
		_, err := readConfigFile(file)
		if isUnsafe(err) != (c.mend != "") || (err != nil) != (c.mend != "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := load(t, "", nil, "--config", file); c.mend == "" && err != nil || c.mend != "" && !strings.Contains(hintOf(err), c.mend) {
			t.Errorf("%s: %v, hint %q, want %q", name, err, hintOf(err), c.mend)
		}
	}
	if _, err := readConfigFile(os.DevNull); err != nil {
		t.Errorf("%s: %v", os.DevNull, err)
	}
}

func hintOf(err error) string {
	if s, ok := errors.AsType[*exit.Error](err); ok {
		return s.Hint
	}
	return ""
}
