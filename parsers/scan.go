package parsers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"regexp"
	"strings"
)

// Found is a report with its place in a log.
type Found struct {
	Report
	Number int // of its line, the first being 1
	// Strict is true if Parse reads the line. Otherwise only the words were found, behind a transport that nothing
	// releases by.
	Strict bool
}

// Scan reads a log from r and yields every report in it, by Parse or else by Find. At the end it returns by unread how many
// lines have the words in a form that neither reads. If r fails, the last pair has the error.
func Scan(r io.Reader, unread *int) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		in := bufio.NewReaderSize(r, 1<<20)
		for number := 1; ; number++ {
			line, err := readLine(in)
			f, ok := find(line)
			f.Number = number
			switch {
			case ok && !yield(f, nil):
				return
			case !ok && unreadWords.Match(line):
				*unread++
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Found{Number: number}, err)
				}
				return
			}
		}
	}
}

// unreadWords matches a line that has the words of a report.
var unreadWords = regexp.MustCompile(`rphaned pod .{0,60}found, but `)

func find(line []byte) (f Found, ok bool) {
	if bytes.Contains(line, messageArray) {
		line = withText(line)
	}
	if !Interesting(line) {
		return f, false
	}
	if f.Report, f.Strict = Parse(Line{Text: line}); f.Strict {
		return f, true
	}
	f.Report, ok = Find(line)
	return f, ok
}

// messageArray begins a MESSAGE that journalctl prints as numbers because it is not UTF-8 or not printable.
var messageArray = []byte(`"MESSAGE"`)

// withText replaces such a MESSAGE by its text.
func withText(line []byte) []byte {
	o, err := parseObject(string(line))
	var numbers []uint16
	if err != nil || json.Unmarshal(o["MESSAGE"], &numbers) != nil {
		return line
	}
	text := make([]byte, 0, len(numbers))
	for _, n := range numbers {
		text = append(text, byte(n))
	}
	if o["MESSAGE"], err = json.Marshal(string(text)); err != nil {
		return line
	}
	if again, err := json.Marshal(o); err == nil {
		return again
	}
	return line
}

// readLine returns the next line without its newline, cut to a little more than MaxLine, which no report has.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), MaxLine+1-min(len(line), MaxLine))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return trimNewline(line), err
		}
	}
}

func trimNewline(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		return line[:n-1]
	}
	return line
}

// anywhere finds the beginning of a report in a line of any transport: klog's header, or a part of it, or nothing at all
// at the beginning of a fragment. No quote, brace or equals sign may come before it: that would be a quoted line.
var anywhere = regexp.MustCompile(`^[^"'{}=<>|\\` + "`" + `]*?((?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +)?(?:\d+ )?(?:kubelet/)?kubelet(?:_volumes|_pods)?\.go:\d+\] |` +
	`(?:Orphan pod: )?[Oo]rphaned pod "|Failed to remove orphaned pod "|"There were many similar errors\. |"Orphan pod" err=|"Orphaned pod found, but |err="orphaned pod )`)

// Find returns the report in a line that Parse does not read: a fragment, or a line behind a transport that no kubelet and no
// journal writes. It is for display, and asks for a scan; it never releases a pod.
func Find(line []byte) (Report, bool) {
	text := stripColour(strings.TrimRight(string(line[:min(len(line), MaxLine)]), "\r\n"))
	if strings.HasPrefix(text, "{") {
		return findInObject(text)
	}
	text = strings.TrimPrefix(strings.TrimLeft(text, " "), "MESSAGE=") // journalctl -o verbose
	m := anywhere.FindStringSubmatchIndex(text[:min(len(text), maxHead)])
	if m == nil || notKubelets(text[:m[2]]) {
		return Report{}, false
	}
	if strings.Contains(text[:m[2]], "message repeated") {
		text = strings.TrimSuffix(text, "]")
	}
	text = trimEnd(text[m[2]:])
	if strings.HasPrefix(text, "err=") {
		text = `"` + msgManyErrors + `" ` + text
	}
	file, msg := "", text
	if h, rest, found := cutHeader(text); found {
		file, msg = h.file, rest
	}
	c, ok := textCall(file, msg)
	if !ok {
		return Report{}, false
	}
	r, ok := parseOrphan(&c)
	if !ok || !literal(line, r.UID) {
		return Report{}, false
	}
	r.UID, r.Words = PodUID(strings.Clone(string(r.UID))), words(text)
	return r, true
}

// texts are the keys under which collectors of logs put a line.
var texts = []string{"log", "MESSAGE", "message", "textPayload"}

// findInObject returns the report in a text of a JSON object.
func findInObject(line string) (Report, bool) {
	o, err := parseObject(line)
	if err != nil {
		return Report{}, false
	}
	if inner, ok := o["jsonPayload"]; ok {
		return findInObject(string(inner))
	}
	if stream, ok := o.text("stream"); ok && stream != "stderr" { // klog writes only to stderr
		return Report{}, false
	}
	if uid, ok := o.text("_UID"); ok && uid != "0" { // a kubelet runs as root
		return Report{}, false
	}
	for _, key := range texts {
		if text, ok := o.text(key); ok {
			return Find([]byte(text))
		}
	}
	return Report{}, false
}

var (
	// lastTag matches the name of the program that a transport puts before a text.
	lastTag = regexp.MustCompile(`([^ \t:\[\]]+)(?:\[\d*\])?: ?$`)
	// elsewhere matches what shows that a kubelet's own line does not begin after it: a tab, with which klog continues a
	// message (rsyslog's #011), a container's stdout, or the header of another source file.
	elsewhere = regexp.MustCompile(`(?:^|: ?|[FP] )(?:\t|#011)| stdout [FP] |\.go:\d+\] `)
)

// notKubelets reports whether what comes before a text shows that a kubelet did not write it.
func notKubelets(before string) bool {
	if elsewhere.MatchString(before) {
		return true
	}
	if e, ok := unwrap(before); ok && e.named && !kubeletProgram(e.program) { // logger "kubelet[1]: …"
		return true
	}
	m := lastTag.FindStringSubmatch(before)
	return m != nil && !kubeletProgram(m[1]) && !strings.ContainsAny(m[1], "./") && !allDigits(m[1])
}
