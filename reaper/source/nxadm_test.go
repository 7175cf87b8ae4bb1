package source

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tailwatch "github.com/nxadm/tail/watch"
	"gopkg.in/tomb.v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestTailWatchEndsTheProcess keeps the reason proven why nxadm/tail's watch package is
// not used: a path that can no longer be stat'ed ends the process. The test is in a
// process of its own.
func TestTailWatchEndsTheProcess(t *testing.T) {
	if dir := os.Getenv("SOURCE_WATCH_DIR"); dir != "" {
		watchUntilFatal(t, dir)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTailWatchEndsTheProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "SOURCE_WATCH_DIR="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "FATAL -- Failed to stat file") {
		t.Errorf("nxadm/tail no longer ends the process, so that its watch could be used again: %v\n%s", err, out)
	}
}

func watchUntilFatal(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "messages")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	w := open(t, path)
	var tm tomb.Tomb
	if _, err := tailwatch.NewInotifyFileWatcher(path).ChangeEvents(&tm, 0); err != nil {
		t.Fatal(err)
	}
	rename(t, dir, dir+".away")
	open(t, dir).raw("now a file\n")
	w.orphans(1)
	time.Sleep(patience)
}
