package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
)

// TestNoNode: a root directory that is not there, or is no directory, is told with what to do.
func TestNoNode(t *testing.T) {
	for err, want := range map[error]bool{fs.ErrNotExist: true, unix.ENOTDIR: true, unix.EIO: false} {
		s, hinted := errors.AsType[*exit.Error](noNode(fmt.Errorf("cannot list: %w", err)))
		if hinted != want || hinted && !strings.Contains(s.Hint, "--root-dir") {
			t.Errorf("%v: %+v", err, s)
		}
	}
}
