package parsers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// found is a sighting with its place.
type found struct {
	Sighting
	line   int
	offset int64
}

func scan(tb testing.TB, r io.Reader, o Options) []found {
	tb.Helper()
	var all []found
	sc := NewScanner(r, o)
	for sc.Scan() {
		all = append(all, found{sc.Sighting(), sc.Line(), sc.Offset()})
	}
	if err := sc.Err(); err != nil {
		tb.Fatal(err)
	}
	return all
}

// lineByLine is what Scanner must find, found without blocks.
func lineByLine(data []byte, o Options) []found {
	var all []found
	p, n, offset := NewParser(o), 0, int64(0)
	for line := range bytes.Lines(data) {
		n++
		if s, ok := p.Parse(Line{Text: bytes.TrimSuffix(line, newline)}); ok {
			all = append(all, found{s, n, offset})
		}
		offset += int64(len(line))
	}
	return all
}

func sameFound(tb testing.TB, name string, got, want []found) {
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
	for name, wrap := range transports() {
		for _, f := range forms() {
			b.WriteString(wrap(klogLine(f, testUID)) + "\n")
			if name == "cri partial" {
				b.WriteString("2024-03-30T07:25:46.496936000Z stderr F the rest\n")
			}
		}
	}
	return b.Bytes()
}

func TestScannerFindsWhatParserFinds(t *testing.T) {
	data := everyLine(t)
	for _, o := range []Options{{}, {Hints: true}} {
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

// TestScannerAtBlockEnds puts a report at each place around the end of a block and of
// what is kept of it.
func TestScannerAtBlockEnds(t *testing.T) {
	report := klogLine(forms()[6], testUID) + "\n"
	filler := strings.Repeat("I0331 15:47:45.892216    3416 x.go:1] y\n", (lookBack+blockSize)/40+1)
	for _, end := range []int{chunk, blockSize, lookBack + blockSize} {
		for d := -len(report) - 2; d <= 2; d++ {
			data := filler[:end+d-1] + "\n" + report + filler[:1000]
			got := scan(t, strings.NewReader(data), Options{})
			if len(got) != 1 || got[0].offset != int64(end+d) || got[0].line != strings.Count(data[:end+d], "\n")+1 {
				t.Fatalf("end %d%+d: %+v", end, d, got)
			}
		}
	}
}

func TestScannerLongLines(t *testing.T) {
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
		for _, f := range scan(t, strings.NewReader(tc.data), Options{}) {
			lines = append(lines, f.line)
			if want := int64(strings.LastIndex(tc.data[:strings.Index(tc.data[f.offset:], "\n")+1+int(f.offset)], "\nE")) + 1; f.line > 1 && f.offset < want {
				t.Errorf("%s: line %d at %d", name, f.line, f.offset)
			}
		}
		if fmt.Sprint(lines) != fmt.Sprint(tc.lines) {
			t.Errorf("%s: lines %v, want %v", name, lines, tc.lines)
		}
	}
}

// endless yields one line without an end.
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

func TestScannerMemoryIsBounded(t *testing.T) {
	sc := NewScanner(&endless{left: 256 << 20}, Options{Hints: true})
	if sc.Scan() {
		t.Error("found something")
	}
	if len(sc.buf) != lookBack+blockSize {
		t.Errorf("the buffer is %d bytes", len(sc.buf))
	}
}

func TestScannerErrors(t *testing.T) {
	report := klogLine(forms()[6], testUID) + "\n"
	broken := errors.New("broken")
	sc := NewScanner(io.MultiReader(strings.NewReader(report), iotest.ErrReader(broken)), Options{})
	if !sc.Scan() || sc.Scan() || !errors.Is(sc.Err(), broken) {
		t.Errorf("error %v", sc.Err())
	}
	sc = NewScanner(stuck{}, Options{})
	if sc.Scan() || !errors.Is(sc.Err(), io.ErrNoProgress) {
		t.Errorf("error %v", sc.Err())
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestScannerConsumed(t *testing.T) {
	report := klogLine(forms()[6], testUID) + "\n"
	for data, want := range map[string]int64{
		"": 0, report: int64(len(report)), report + report[:20]: int64(len(report)), report[:20]: 0, "\n": 1, "\n\nx": 2,
		strings.Repeat("x", 1<<20) + "\n" + report: 1<<20 + 1 + int64(len(report)),
	} {
		sc := NewScanner(strings.NewReader(data), Options{})
		for sc.Scan() {
			if got := sc.Consumed(); got > int64(len(data)) || got <= sc.Offset() {
				t.Errorf("consumed %d at %d of %d", got, sc.Offset(), len(data))
			}
		}
		if got := sc.Consumed(); got != want {
			t.Errorf("%.30q: consumed %d, want %d", data, got, want)
		}
	}
}

// TestContinuedRecords holds that a piece of a line that a container runtime cut is no
// line, wherever the pieces lie.
func TestContinuedRecords(t *testing.T) {
	const at = "2024-08-31T14:21:49.324206000Z "
	report := klogLine(forms()[6], testUID)
	piece := func(n int) string {
		return at + "stderr P I0831 14:21:49.324206 1 prober.go:1] x " + strings.Repeat("x", n) + "\n"
	}
	filler := strings.Repeat(at+"stderr F y\n", 100)
	for name, tc := range map[string]struct {
		data string
		want int
	}{
		"full":                        {at + "stderr F x\n" + at + "stderr F " + report, 1},
		"after a partial":             {piece(16384) + at + "stderr F " + report, 0},
		"after the end of a partial":  {piece(16384) + at + "stderr F end\n" + at + "stderr F " + report, 1},
		"after two partials":          {piece(16384) + piece(16384) + at + "stderr F " + report, 0},
		"after a partial of stdout":   {strings.Replace(piece(100), "stderr", "stdout", 1) + at + "stderr F " + report, 1},
		"stdout between":              {piece(100) + at + "stdout F x\n" + at + "stderr F " + report, 0},
		"another line between":        {piece(100) + "x\n\n" + at + "stderr F " + report, 0},
		"partial of many blocks":      {piece(2<<20) + at + "stderr F " + report, 0},
		"partial longer than kept":    {filler + piece(lookBack+1) + at + "stderr F " + report, 0},
		"full record longer than it":  {filler + strings.Replace(piece(lookBack+1), "stderr P", "stderr F", 1) + at + "stderr F " + report, 1},
		"full record of many blocks":  {filler + strings.Replace(piece(2<<20), "stderr P", "stderr F", 1) + at + "stderr F " + report, 1},
		"partial report":              {at + "stderr P " + report + "\n" + at + "stderr F " + report, 1},
		"partial before a block ends": {strings.Repeat(filler, (blockSize+lookBack)/len(filler)) + piece(8192) + at + "stderr F " + report + "\n" + filler, 0},
	} {
		if got := scan(t, strings.NewReader(tc.data), Options{}); len(got) != tc.want {
			t.Errorf("%s: %d sightings, want %d", name, len(got), tc.want)
		}
		if strings.Contains(name, "many blocks") {
			continue // A Parser's caller bounds the lines.
		}
		if got := lineByLine([]byte(tc.data), Options{}); len(got) != tc.want {
			t.Errorf("%s, line by line: %d sightings, want %d", name, len(got), tc.want)
		}
	}
}

// TestBlocks holds klog's form of an error with a newline: its first line counts where
// the line before opened it, and no other.
func TestBlocks(t *testing.T) {
	head := `E0831 14:21:49.324206    3416 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=<` + "\n"
	first := "\torphaned pod \"" + testUID + "\" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/" + testUID + "/volumes/x~y/a\n"
	evil := "\torphaned pod \"" + otherUID + "\" found, but error occurred when trying to remove the volumes dir: not a directory\n"
	sys := func(pid int, s string) string {
		return fmt.Sprintf("Aug 31 14:21:49 n kubelet[%d]: %s", pid, s)
	}
	for name, tc := range map[string]struct {
		data string
		want string
	}{
		"raw":                    {head + first + evil + " > numErrs=1\n", testUID},
		"orphan pod":             {strings.Replace(head, msgManyErrors, msgOrphanPod, 1) + first + evil, testUID},
		"syslog":                 {sys(1, head) + sys(1, first) + sys(1, evil), testUID},
		"syslog, escaped":        {sys(1, head) + sys(1, strings.Replace(first, "\t", "#011", 1)), testUID},
		"one line, escaped":      {sys(1, strings.TrimSuffix(head, "\n")+"#012#011"+first[1:len(first)-1]+"#012#011"+evil[1:len(evil)-1]+"#012 > numErrs=1\n"), testUID},
		"another process":        {sys(1, head) + sys(2, first), ""},
		"another program":        {sys(1, head) + "Aug 31 14:21:49 n k3s[1]: " + first, ""},
		"another transport":      {sys(1, head) + first, ""},
		"another line between":   {head + "x\n" + first, ""},
		"no head":                {first, ""},
		"second line only":       {head + "\tx\n" + evil, ""},
		"head of another file":   {strings.Replace(head, "kubelet_volumes", "prober", 1) + first, ""},
		"head of another logger": {strings.Replace(sys(1, head), "kubelet[1]", "logger[1]", 1) + strings.Replace(sys(1, first), "kubelet[1]", "logger[1]", 1), ""},
		"head quoted":            {"x " + head + first, ""},
		"no tab":                 {sys(1, head) + sys(1, first[1:]), ""},
	} {
		for kind, got := range map[string][]found{"scanner": scan(t, strings.NewReader(tc.data), Options{}), "parser": lineByLine([]byte(tc.data), Options{})} {
			uid := ""
			if len(got) > 0 {
				uid = string(got[0].UID)
			}
			if uid != tc.want || len(got) > 1 {
				t.Errorf("%s, %s: %+v, want %q", name, kind, got, tc.want)
			}
		}
	}
	p := NewParser(Options{})
	j := &JournalFields{Unit: "kubelet.service", PID: 3416, Identifier: "kubelet"}
	p.Parse(Line{Text: []byte(strings.TrimSpace(head)), Journal: j})
	if s, ok := p.Parse(Line{Text: []byte(strings.TrimSuffix(first, "\n")), Journal: j}); !ok || s.UID != testUID || !s.Trusted {
		t.Errorf("journal: %+v", s)
	}
}

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

func TestJournal(t *testing.T) {
	text := []byte(klogLine(forms()[6], testUID))
	for _, tc := range []struct {
		name string
		j    JournalFields
		want bool
	}{
		{"kubelet", JournalFields{Unit: "kubelet.service", Comm: "kubelet", PID: 77, BootID: "b"}, true},
		{"k3s", JournalFields{Unit: "k3s.service", Comm: "k3s-server", PID: 77}, true},
		{"k3s agent", JournalFields{Unit: "k3s-agent.service", Comm: "k3s-agent"}, true},
		{"rke2", JournalFields{Unit: "rke2-server.service", Comm: "rke2"}, true},
		{"rke2 agent", JournalFields{Unit: "rke2-agent.service", Comm: "kubelet"}, true},
		{"microk8s", JournalFields{Unit: "snap.microk8s.daemon-kubelite.service", Comm: "kubelite"}, true},
		{"snap", JournalFields{Unit: "snap.kubelet.daemon.service", Comm: "kubelet"}, true},
		{"wrapper", JournalFields{Unit: "kubelet-wrapper.service", Comm: "rkt"}, true},
		{"script", JournalFields{Unit: "kubelet.service", Comm: "start-kubelet.s"}, true},
		{"operator's", JournalFields{Unit: "my-node.service", Comm: "anything"}, true},
		{"no unit", JournalFields{Comm: "kubelet", Identifier: "kubelet"}, false},
		{"user", JournalFields{Unit: "user@1000.service", Comm: "kubelet", Identifier: "kubelet"}, false},
		{"session", JournalFields{Unit: "session-2.scope", Comm: "logger", Identifier: "kubelet"}, false},
		{"logger in the unit", JournalFields{Unit: "kubelet.service", Comm: "logger", Identifier: "kubelet"}, false},
		{"similar", JournalFields{Unit: "kubelet.service.d", Comm: "kubelet"}, false},
		{"containerd", JournalFields{Unit: "containerd.service", Comm: "containerd", Identifier: "kubelet"}, false},
	} {
		s, ok := NewParser(Options{Units: []string{"my-node.service"}}).Parse(Line{Text: text, Source: "journald", Journal: &tc.j})
		if ok != tc.want {
			t.Errorf("%s: %v", tc.name, ok)
			continue
		}
		if !ok {
			continue
		}
		pid := tc.j.PID
		if pid == 0 {
			pid = 3416
		}
		if !s.Trusted || s.UID != testUID || s.PID != pid || s.BootID != tc.j.BootID || s.Transport != "journal" {
			t.Errorf("%s: %+v", tc.name, s)
		}
	}
	own := JournalFields{Unit: "kubelet.service"}
	for name, line := range hostile() {
		if s, ok := ParseLine(Line{Text: []byte(line), Journal: &own}); ok && !strings.HasPrefix(name, "program ") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for name, wrap := range transports() {
		line := wrap(string(text))
		_, ok := ParseLine(Line{Text: []byte(line), Journal: &own})
		want := name == "raw" || strings.TrimRight(line, " \r") == string(text)
		if ok != want {
			t.Errorf("%s inside an entry of the journal: %v", name, ok)
		}
	}
}

// binaryField is a field as the Journal Export Format writes it when it is not text.
func binaryField(key, value string) string {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(value)))
	return key + "\n" + string(n[:]) + value + "\n"
}

func TestEntries(t *testing.T) {
	report := klogLine(forms()[6], testUID)
	export := func(unit, comm, uid, message string) string {
		return "__CURSOR=s=0\n__REALTIME_TIMESTAMP=1705393812044483\n_UID=" + uid + "\n_COMM=" + comm + "\n" + message + "_PID=3416\nSYSLOG_IDENTIFIER=kubelet\n_SYSTEMD_UNIT=" + unit + "\n\n"
	}
	own := func(message string) string { return export("kubelet.service", "kubelet", "0", message) }
	const id = "0123456789abcdef0123456789abcdef"
	verbose := func(unit, message string) string {
		return "Sun 2024-03-31 15:47:45.892216 UTC [s=" + id + ";i=1;b=" + id + ";m=1;t=1;x=1]\n    _UID=0\n    _COMM=kubelet\n    MESSAGE=" + message + "\n    _SYSTEMD_UNIT=" + unit + "\n    _PID=3416\n    SYSLOG_IDENTIFIER=kubelet\n"
	}
	pretty := func(unit, message string) string {
		return "{\n\t\"_UID\" : \"0\",\n\t\"MESSAGE\" : " + message + ",\n\t\"_SYSTEMD_UNIT\" : \"" + unit + "\",\n\t\"_PID\" : \"3416\",\n\t\"__REALTIME_TIMESTAMP\" : \"1705393812044483\",\n\t\"SYSLOG_IDENTIFIER\" : \"kubelet\"\n}\n"
	}
	quoted := strings.ReplaceAll(report, `"`, `\"`)
	var numbers []string
	for i := range len(report) {
		numbers = append(numbers, fmt.Sprint(report[i]))
	}
	forged := "\n\n__CURSOR=x\n_SYSTEMD_UNIT=kubelet.service\nMESSAGE=" + report + "\n\n"
	for name, tc := range map[string]struct {
		data  string
		lines []int
	}{
		"export":                         {own("MESSAGE=x\n") + own("MESSAGE="+report+"\n") + own("MESSAGE=y\n"), []int{14}},
		"export, binary":                 {own(binaryField("MESSAGE", report)) + own("MESSAGE="+report+"\n"), []int{5, 15}},
		"export, another unit":           {export("session-1.scope", "kubelet", "0", "MESSAGE="+report+"\n"), nil},
		"export, another command":        {export("kubelet.service", "logger", "0", "MESSAGE="+report+"\n"), nil},
		"export, another user":           {export("kubelet.service", "kubelet", "1000", "MESSAGE="+report+"\n"), nil},
		"export, two units":              {own("_SYSTEMD_UNIT=x\nMESSAGE=" + report + "\n"), nil},
		"export, two messages":           {own("MESSAGE=x\nMESSAGE=" + report + "\n"), nil},
		"export, entry inside a field":   {export("session-1.scope", "x", "1", binaryField("MESSAGE", forged)) + export("session-1.scope", "x", "1", binaryField("NOTE", forged)), nil},
		"export, long field":             {own(binaryField("COREDUMP", strings.Repeat("x\n", 1<<20))+"MESSAGE="+report+"\n") + own("MESSAGE="+report+"\n"), []int{1048583, 1048592}},
		"export, length of the universe": {"__CURSOR=x\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff" + report + "\n", nil},
		"export, no newline at the end":  {strings.TrimSuffix(own("MESSAGE="+report+"\n"), "\n\n"), []int{5}},
		"verbose":                        {"-- Journal begins at x --\n" + verbose("kubelet.service", report) + verbose("kubelet.service", "x") + verbose("k3s.service", report), []int{5, 19}},
		"verbose, another unit":          {verbose("session-1.scope", report) + verbose("user@1000.service", report), nil},
		"verbose, field in a message":    {verbose("session-1.scope", "x\n            _SYSTEMD_UNIT=kubelet.service\n            MESSAGE="+report) + verbose("session-1.scope", report+"\n            _SYSTEMD_UNIT=kubelet.service"), nil},
		"verbose, between boots":         {verbose("kubelet.service", report) + "-- Boot " + id + " --\n" + verbose("kubelet.service", report), []int{4, 12}},
		"pretty":                         {pretty("kubelet.service", `"`+quoted+`"`) + pretty("kubelet.service", `"x"`) + pretty("k3s.service", `"`+quoted+`"`), []int{3, 19}},
		"pretty, numbers":                {pretty("kubelet.service", "[ "+strings.Join(numbers, ", ")+" ]"), []int{3}},
		"pretty, another unit":           {pretty("session-1.scope", `"`+quoted+`"`), nil},
		"pretty, entry in a message":     {pretty("session-1.scope", `"}\n{\n\t\"MESSAGE\" : \"x\"\n}`+quoted+`"`), nil},
	} {
		for kind, r := range map[string]io.Reader{"": strings.NewReader(tc.data), " by bytes": iotest.OneByteReader(strings.NewReader(tc.data))} {
			if len(tc.data) > 1<<20 && kind != "" {
				continue
			}
			var lines []int
			for _, f := range scan(t, r, Options{}) {
				lines = append(lines, f.line)
				if f.UID != testUID || f.PID != 3416 || f.Program != "kubelet" || f.Time.IsZero() || f.Trusted || !strings.Contains(tc.data[f.offset:f.offset+20], "MESSAGE") {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if fmt.Sprint(lines) != fmt.Sprint(tc.lines) {
				t.Errorf("%s%s: lines %v, want %v", name, kind, lines, tc.lines)
			}
		}
	}
}
