package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestConfigOwner: a user who can write the configuration decides what root removes.
func TestConfigOwner(t *testing.T) {
	for name, c := range map[string]struct {
		file, dir os.FileMode
		owner     int
		unsafe    bool
	}{
		"usual":                       {0o644, 0o755, -1, false},
		"its own only":                {0o600, 0o700, -1, false},
		"our group's":                 {0o664, 0o775, -1, false},
		"anybody's":                   {0o666, 0o755, -1, true},
		"anybody's to write":          {0o602, 0o755, -1, true},
		"in a directory of anybody's": {0o644, 0o777, -1, true},
		"in one like /tmp":            {0o644, 0o777 | os.ModeSticky, -1, false},
		"another user's":              {0o644, 0o755, 12345, true},
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
		_, err := load(t, "", nil, "--config", file)
		if e, _ := errors.AsType[*exit.Error](err); (e != nil) != c.unsafe || e != nil && !strings.HasPrefix(e.Hint, "chown root:root ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	testkit.Must(t, unix.Mkfifo(fifo, 0o600))
	for _, name := range []string{fifo, "/dev/zero", t.TempDir()} { // a FIFO without a writer would be waited for
		if _, err := readConfigFile(name); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readConfigFile(os.DevNull); err != nil {
		t.Errorf("%s: %v", os.DevNull, err)
	}
}
