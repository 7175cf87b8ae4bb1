package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	timeout = "120s" // go test's for one package
	atOnce  = 2      // test runs side by side
)

// tester runs tests of the program, with and without a fault.
type tester struct {
	root, exec string
	dir        string // for changed files
}

// result is what became of one fault.
type result struct {
	fault
	by   string // the package and the first test that failed, "" if none did
	took time.Duration
}

func (r result) String() string {
	if r.by == "" {
		return "NOT CAUGHT by " + strings.Join(r.packages(), " ")
	}
	return "caught by " + r.by
}

// try plants a fault and runs the tests of its packages until one fails.
func (t *tester) try(ctx context.Context, f fault) (result, error) {
	r := result{fault: f}
	text, err := f.plant(t.root)
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp(t.dir, "")
	if err != nil {
		return r, err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(f.file)), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs(filepath.Join(t.root, f.file))
	if err != nil {
		return r, err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return r, err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return r, err
	}
	from := time.Now()
	for _, pkg := range f.packages() {
		if r.by, err = t.test(ctx, pkg, overlay); err != nil || r.by != "" {
			break
		}
	}
	r.took = time.Since(from)
	return r, err
}

// event is a line of go test -json (go doc cmd/test2json).
type event struct {
	Action, Test, Output, FailedBuild string
}

// test runs tests of a package, and returns the first that failed, "" if none did. What does not compile is an error.
func (t *tester) test(ctx context.Context, tests, overlay string) (failed string, err error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-failfast", "-timeout", timeout}
	pkg, named, _ := strings.Cut(tests, " ")
	if named != "" {
		args = append(args, "-run", "^(?:"+named+")$")
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if t.exec != "" {
		args = append(args, "-exec", t.exec)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir, cmd.Stderr = t.root, os.Stderr
	// What a test has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	failed, broken, output := read(out)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case broken:
		return "", fmt.Errorf("it does not compile:\n%s", output)
	case err == nil:
		return "", nil
	}
	if m := timedOut.FindStringSubmatch(output); m != nil {
		return "a timeout: " + pkg + " " + m[1], nil
	}
	return pkg + " " + cmp.Or(failed, "without a test: "+lastLine(output)), nil
}

// timedOut matches what the testing package prints at a timeout, and the first test that had not ended.
var timedOut = regexp.MustCompile(`panic: test timed out after .*\n\trunning tests:\n\t\t(\S+)`)

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// read returns the first test that failed, whether the package does not compile, and the last lines of the output.
func read(r io.Reader) (failed string, broken bool, output string) {
	var last []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		broken = broken || e.FailedBuild != ""
		if e.Action == "fail" && failed == "" {
			failed = e.Test
		}
		if e.Output != "" {
			last = append(last, e.Output)
			last = last[max(0, len(last)-200):]
		}
	}
	return failed, broken, strings.Join(last, "")
}
