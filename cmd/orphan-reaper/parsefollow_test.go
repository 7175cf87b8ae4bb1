package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestParseFollow: what is written later is shown as it comes, also in the file that takes the
// name of one that was rotated.
func TestParseFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	testkit.Must(t, os.WriteFile(path, []byte("x\n"+orphanLine+"\n"), 0o600))
	read, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		a := &cli{stdout: out, stderr: io.Discard, env: func(string) string { return "" }, given: map[string][]string{}, stopSignals: func() {}}
		root := newRootCommand(a)
		root.SetArgs([]string{"parse", "--follow", path})
		done <- root.ExecuteContext(ctx)
	}()
	lines := bufio.NewReader(read)
	sees := func(what string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, "0badf00d-6131-4aaa-8bbb-cccc00006131") {
			t.Fatalf("%s: %q, %v", what, got, err)
		}
	}
	sees("what was there")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	testkit.Must(t, err)
	_, err = f.WriteString(orphanLine + "\n")
	testkit.Must(t, err)
	sees("what came later")
	testkit.Must(t, f.Close())
	testkit.Must(t, os.Rename(path, path+".1"))
	testkit.Must(t, os.WriteFile(path, []byte(orphanLine+"\n"), 0o600))
	sees("after a rotation")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("%v, exit code %d", err, exit.Code(err))
	}
}
