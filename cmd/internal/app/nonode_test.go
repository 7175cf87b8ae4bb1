package app

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNoNode: a root directory that is missing or is not a directory is reported with the action, in the same
// words whatever failed first.
func TestNoNode(t *testing.T) {
	here := config.Config{RootDir: t.TempDir()}
	for err, want := range map[error]bool{fs.ErrNotExist: true, unix.ENOTDIR: true, unix.EIO: false} {
		s, hinted := errors.AsType[*exit.Error](noNode(here, fmt.Errorf("cannot list: %w", err)))
		if hinted != want || hinted && (!strings.Contains(s.Hint, "--root-dir") || !strings.Contains(s.Error(), "cannot list")) {
			t.Errorf("%v: %+v", err, s)
		}
	}
	file := testkit.File(t, "file", "")
	for root, want := range map[string]string{"/nonexistent": "", file: ": it is no directory"} {
		cfg := config.Config{RootDir: root}
		for _, err := range []error{RootThere(cfg), noNode(cfg, fmt.Errorf("cannot list: %w", fs.ErrNotExist))} {
			if want := "cannot find the kubelet's root directory " + root + want; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", root, err, want)
			}
		}
	}
}
