package parsers

import (
	"regexp"
	"strings"
	"time"
)

// header holds the fields before a klog message.
type header struct {
	file string // the Go source file, such as "kubelet_volumes.go"
	pid  int    // klog's thread ID, which is the process ID; 0 if truncated
	full bool   // the header is complete
	time time.Time
}

// headerForm matches the header of klog and glog, or the end of it in a line that a user has cut:
//
//	E0331 15:47:45.892216    3416 kubelet_volumes.go:245] message
//	Lmmdd hh:mm:ss.uuuuuu threadid file:line] message
//	                        21207 kubelet_volumes.go:140] message
//	                              kubelet_volumes.go:154] message
var headerForm = regexp.MustCompile(`^(?:([IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +)?(\d{1,9}) )?([\w./-]+:\d+)\] `)

// cutHeader parses a header of one of the kubelet's files and returns the message after it.
func cutHeader(s string) (h header, msg string, ok bool) {
	m, msg := cutHead(headerForm, s)
	if m == nil {
		return header{}, "", false
	}
	if h.full = m[1] != ""; h.full {
		h.time = klogTime(strings.TrimSpace(m[1][1:]))
	}
	h.pid, _ = number(m[2])
	h.file, ok = sourceFile(m[3])
	return h, msg, ok && (h.pid != 0 || m[2] == "")
}

func hasHeader(s string) bool {
	h, _, ok := cutHeader(s)
	return ok && h.full
}

// sourceDirs has the kubelet's source files whose messages are parsed, with the directory that --add_dir_header and the
// JSON format add. It has every file that reports orphans in releases 1.3 to 1.37; a report from
// another file is another program's, or quoted by the kubelet.
var sourceDirs = map[string]string{
	"kubelet_volumes.go": "kubelet/",
	"kubelet_pods.go":    "kubelet/",
	"kubelet.go":         "kubelet/",
}

// sourceFile parses "file.go:123" and returns a file of sourceDirs.
func sourceFile(place string) (string, bool) {
	file, line, ok := strings.Cut(place, ":")
	if !ok || line == "" || !allDigits(line) {
		return "", false
	}
	base := file[strings.LastIndexByte(file, '/')+1:]
	dir, known := sourceDirs[base]
	if !known || (file != base && file != dir+base) {
		return "", false
	}
	return base, true
}

// digits returns the number of ASCII digits at the beginning of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

func allDigits(s string) bool { return digits(s) == len(s) }

// number parses a decimal number of at most nine digits, enough for a process ID or a count.
func number(s string) (int, bool) {
	if s == "" || len(s) > 9 || !allDigits(s) {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}
