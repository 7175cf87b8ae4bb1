package parsers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func scan(tb testing.TB, r io.Reader, o Parser) []Found {
	tb.Helper()
	var all []Found
	for f, err := range Scan(r, o) {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// lineByLine parses without blocks and returns what Scan must find.
func lineByLine(data []byte, p Parser) []Found {
	var all []Found
	n, offset := 0, int64(0)
	for line := range bytes.Lines(data) {
		n++
		if s, ok := p.Parse(Line{Text: bytes.TrimSuffix(line, newline)}); ok {
			all = append(all, Found{s, n, offset})
		}
		offset += int64(len(line))
	}
	return all
}

func sameFound(tb testing.TB, name string, got, want []Found) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%s: %d sightings, want %d", name, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			tb.Fatalf("%s: sighting %d is %+v, want %+v", name, i, got[i], want[i])
		}
	}
}

// everyLine is the corpus, the hostile lines and each form in each transport.
func everyLine(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	for _, r := range corpus(tb) {
		b.WriteString(r.raw + "\n")
	}
	for _, line := range hostile() {
		b.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	}
	for _, wrap := range transports() {
		for _, f := range forms() {
			b.WriteString(wrap(klogLine(f, testUID)) + "\n")
		}
	}
	return b.Bytes()
}

func TestScanFindsWhatParserFinds(t *testing.T) {
	data := everyLine(t)
	for _, o := range []Parser{{}, {Hints: true}} {
		want := lineByLine(data, o)
		if len(want) < 1000 {
			t.Fatalf("only %d sightings", len(want))
		}
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)),
			"bytes": iotest.OneByteReader(bytes.NewReader(data)), "error with data": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			sameFound(t, name, scan(t, r, o), want)
		}
		cut := bytes.TrimSuffix(data, newline)
		sameFound(t, "no newline at the end", scan(t, bytes.NewReader(cut), o), want)
		crlf := bytes.ReplaceAll(data, newline, []byte("\r\n"))
		if got := scan(t, bytes.NewReader(crlf), o); len(got) != len(want) {
			t.Errorf("CRLF: %d sightings, want %d", len(got), len(want))
		}
	}
}

// TestScanAtBlockEnds puts a report at each position around the end of a block and of the part kept from it.
func TestScanAtBlockEnds(t *testing.T) {
	report := klogLine(forms()[6], testUID) + "\n"
	filler := strings.Repeat("I0331 15:47:45.892216    3416 x.go:1] y\n", 2*blockSize/40+1)
	for _, end := range []int{chunk, blockSize, 2 * blockSize} {
		for d := -len(report) - 2; d <= 2; d++ {
			data := filler[:end+d-1] + "\n" + report + filler[:1000]
			got := scan(t, strings.NewReader(data), Parser{})
			if len(got) != 1 || got[0].Offset != int64(end+d) || got[0].Line != strings.Count(data[:end+d], "\n")+1 {
				t.Fatalf("end %d%+d: %+v", end, d, got)
			}
		}
	}
}

func TestScanLongLines(t *testing.T) {
	report := klogLine(forms()[6], testUID)
	mib := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		data  string
		lines []int
	}{
		"report after a long line":         {mib + mib + "\n" + report + "\n", []int{2}},
		"report inside a long line":        {mib + report + mib + "\n" + report + "\n", []int{2}},
		"report after a NUL":               {mib + "\x00" + report + mib + "\n" + report, []int{2}},
		"long line after a report":         {report + "\n" + mib + mib, []int{1}},
		"lines before, between and after":  {"a\nb\n" + mib + "\nc\n" + mib + mib + "\n" + report + "\nd\n" + report + "\n", []int{6, 8}},
		"report with a long tail":          {`E0331 15:47:45.892216    3416 kubelet_volumes.go:225] orphaned pod "` + testUID + `" found, but error ` + mib + mib + "\n" + report, []int{1, 2}},
		"long line of newline-free binary": {strings.Repeat("\xff\x00rphaned pod ", 1<<17) + "\n" + report, []int{2}},
	} {
		var lines []int
		for _, f := range scan(t, strings.NewReader(tc.data), Parser{}) {
			lines = append(lines, f.Line)
			if want := int64(strings.LastIndex(tc.data[:strings.Index(tc.data[f.Offset:], "\n")+1+int(f.Offset)], "\nE")) + 1; f.Line > 1 && f.Offset < want {
				t.Errorf("%s: got line %d at offset %d", name, f.Line, f.Offset)
			}
		}
		if fmt.Sprint(lines) != fmt.Sprint(tc.lines) {
			t.Errorf("%s: lines %v, want %v", name, lines, tc.lines)
		}
	}
}

// endless returns one line without an end.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = "orphaned pod "[i%13]
	}
	e.left -= len(b)
	return len(b), nil
}

func TestScanMemoryIsBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if all := scan(t, &endless{left: 256 << 20}, Parser{Hints: true}); len(all) > 0 {
		t.Error("found something")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2*(maxLine+blockSize) {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestScanErrors(t *testing.T) {
	report := klogLine(forms()[6], testUID) + "\n"
	broken := errors.New("broken")
	for _, tc := range []struct {
		r      io.Reader
		err    error
		offset int
	}{
		{io.MultiReader(strings.NewReader(report+report[:20]), iotest.ErrReader(broken)), broken, len(report)},
		{stuck{}, io.ErrNoProgress, 0},
	} {
		var errs []error
		for found, err := range Scan(tc.r, Parser{}) {
			errs = append(errs, err)
			if err != nil && found.Offset != int64(tc.offset) {
				t.Errorf("error %v at offset %d, want offset %d", err, found.Offset, tc.offset)
			}
		}
		if len(errs) == 0 || !errors.Is(errs[len(errs)-1], tc.err) {
			t.Errorf("%v, want %v", errs, tc.err)
		}
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestPrefilterFindsEachNeedle(t *testing.T) {
	lines := []string{"Orphaned pod", "orphaned pod", `"MESSAGE":[`, `"MESSAGE": [`, `"MESSAGE" : [`, "UnmountVolume", "UnmapVolume", "cleaning subPath mounts"}
	filler := strings.Repeat("The MESSAGE of an Unmounted hap: subPath mounts ", 1500)
	for _, n := range lines {
		for at := range 3 * overlap {
			for _, base := range []int{0, chunk - overlap, chunk} {
				block := []byte(filler)
				copy(block[base+at:], n)
				want := base + at
				if n[0]|0x20 == 'o' {
					want++ // The needle starts after the letter that comes in two cases.
				}
				if got := Index(block); got != want {
					t.Fatalf("%q at %d: Index is %d", n, base+at, got)
				}
				if got := Index(block[:base+at+len(n)-1]); got != -1 {
					t.Fatalf("%q cut at %d: Index is %d", n, base+at, got)
				}
			}
		}
	}
}
