package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const orphanLine = `E0331 15:47:45.892216    3416 kubelet_volumes.go:140] Orphaned pod "0badf00d-6131-4aaa-8bbb-cccc00006131" found, but volume ` +
	`paths are still present on disk`

// endless is a line without an end that fails once it is large.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errTest
	}
	n := min(len(p), e.left)
	for i := range n {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

// TestParseLines checks that line numbers count lines and not pieces, and that a read error has its position.
func TestParseLines(t *testing.T) {
	var lines []int
	emit := func(_ parsers.Sighting, line int) error { lines = append(lines, line); return nil }
	long := strings.Repeat("junk ", 1<<20)
	in := orphanLine + "\n" + long + "\n" + orphanLine + "\n\n" + orphanLine
	testkit.Must(t, parseLines(strings.NewReader(in), "x", parsers.Parser{}, emit))
	if !slices.Equal(lines, []int{1, 3, 5}) {
		t.Errorf("sightings in lines %v", lines)
	}
	err := parseLines(io.MultiReader(strings.NewReader("a\nb\n"), &endless{left: 1000}), "x", parsers.Parser{}, emit)
	if !errors.Is(err, errTest) || !strings.Contains(err.Error(), "byte 4 of x") {
		t.Errorf("%v", err)
	}
}

// TestParseDoesNotHoldBack checks that findings are written before the next read, which may block forever.
func TestParseDoesNotHoldBack(t *testing.T) {
	in, feed := io.Pipe()
	read, out := io.Pipe()
	done := make(chan int)
	go func() {
		code := runAs(app.Person{}, []string{"parse"}, in, out, io.Discard, func(string) string { return "" })
		_ = out.Close()
		done <- code
	}()
	lines := bufio.NewReader(read)
	for range 3 {
		if _, err := io.WriteString(feed, orphanLine+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, "0badf00d-6131-4aaa-8bbb-cccc00006131") {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = feed.Close()
	if code := <-done; code != exit.DoneCode {
		t.Errorf("exit code %d", code)
	}
}

// TestParseCompressed checks that a file compressed by logrotate is read, or refused with the way to read it, and
// never treated as a log without reports.
func TestParseCompressed(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := io.WriteString(w, "x\n"+orphanLine+"\n"); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, w.Close())
	for name, c := range map[string]struct {
		in   io.Reader
		want []int
		err  string
	}{
		"gzip":              {bytes.NewReader(z.Bytes()), []int{2}, ""},
		"gzip by bytes":     {iotest.OneByteReader(bytes.NewReader(z.Bytes())), []int{2}, ""},
		"two gzip members":  {io.MultiReader(bytes.NewReader(z.Bytes()), bytes.NewReader(z.Bytes())), []int{2, 4}, ""},
		"gzip, cut":         {bytes.NewReader(z.Bytes()[:z.Len()-9]), []int{2}, "unexpected EOF"},
		"gzip, head only":   {strings.NewReader("\x1f\x8b"), nil, "cannot decompress x"},
		"xz":                {strings.NewReader("\xfd7zXZ\x00\x00\x04"), nil, "xzcat FILE"},
		"zstd":              {strings.NewReader("\x28\xb5\x2f\xfd\x24"), nil, "zstdcat FILE"},
		"bzip2":             {strings.NewReader("BZh91AY&SY"), nil, "bzcat FILE"},
		"journal":           {strings.NewReader("LPKSHHRH\x00\x00"), nil, "journalctl --file FILE"},
		"UTF-16":            {strings.NewReader("\xff\xfeE\x000\x00"), nil, "UTF-16; use iconv -f UTF-16 -t UTF-8 FILE"},
		"UTF-16, big end":   {strings.NewReader("\xfe\xff\x00E\x000"), nil, "iconv -f UTF-16 -t UTF-8 FILE"},
		"pretty JSON":       {strings.NewReader("{\n  \"MESSAGE\": \"x\"\n}\n"), nil, "jq -c . FILE"},
		"pretty JSON, CRLF": {strings.NewReader("{\r\n  \"MESSAGE\": \"x\"\r\n}\r\n"), nil, "jq -c . FILE"},
		"JSON array":        {strings.NewReader("[\n  {}\n]\n"), nil, "jq -c '.[]' FILE"},
		"JSON array, CRLF":  {strings.NewReader("[\r\n  {}\r\n]\r\n"), nil, "jq -c '.[]' FILE"},
		"JSON array in one": {strings.NewReader(`[{"MESSAGE":"x"}]`), nil, "jq -c '.[]' FILE"},
		"JSON line":         {strings.NewReader("{}\n" + orphanLine), []int{2}, ""},
		"monotonic":         {strings.NewReader("[ 12.345678] host kubelet[1]: " + orphanLine + "\r\n"), []int{1}, ""},
		"short":             {strings.NewReader("B"), nil, ""},
		"empty":             {strings.NewReader(""), nil, ""},
		"fails":             {iotest.ErrReader(errTest), nil, errTest.Error()},
		"fails after bytes": {io.MultiReader(strings.NewReader(orphanLine+"\n"), iotest.ErrReader(errTest)), []int{1}, errTest.Error()},
	} {
		var lines []int
		err := parseLines(c.in, "x", parsers.Parser{}, func(_ parsers.Sighting, line int) error { lines = append(lines, line); return nil })
		if !slices.Equal(lines, c.want) || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: lines %v, %v", name, lines, err)
		}
	}
}

// TestFollowRestOfATruncatedFile checks that a file that was truncated and then rotated between two polls is read from its
// beginning.
func TestFollowRestOfATruncatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	testkit.Must(t, os.WriteFile(path, []byte(orphanLine+"\n"), 0o600))
	file, err := os.Open(path)
	testkit.Must(t, err)
	defer func() { _ = file.Close() }()
	var out strings.Builder
	f := followed{name: path, file: file, offset: int64(len(orphanLine)) * 3}
	if err := f.rest(&out); err != nil || out.String() != orphanLine+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
