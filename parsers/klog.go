package parsers

import "strings"

// header is what stands before a klog message.
type header struct {
	file string // the Go source file, as it is known here: "kubelet_volumes.go"
	pid  int    // klog's thread ID, which is the process ID; 0 where cut off
	full bool   // all of the header is there, not its tail only
}

// cutHeader parses klog's header and returns the message after it. The layout, with
// any number of spaces before the process ID (klog doc of Lmmdd, glog alike):
//
//	E0331 15:47:45.892216    3416 kubelet_volumes.go:245] message
//	Lmmdd hh:mm:ss.uuuuuu threadid file:line] message
//
// With --add_dir_header the file is "kubelet/kubelet_volumes.go".
func cutHeader(s string) (header, string, bool) {
	if len(s) < 21 || !strings.ContainsRune("IWEF", rune(s[0])) || !allDigits(s[1:5]) || s[5] != ' ' {
		return header{}, "", false
	}
	n := clock(s[6:])
	if n < len("15:04:05.0") || s[6+8] != '.' {
		return header{}, "", false
	}
	rest := strings.TrimLeft(s[6+n:], " ")
	if len(rest) == len(s)-6-n {
		return header{}, "", false
	}
	h, msg, ok := cutHeaderTail(rest)
	if !ok || h.pid == 0 {
		return header{}, "", false
	}
	h.full = true
	return h, msg, true
}

// cutHeaderTail parses what people leave of a header when they cut a line:
//
//	21207 kubelet_volumes.go:140] message
//	kubelet_volumes.go:154] message
func cutHeaderTail(s string) (header, string, bool) {
	var h header
	if d := digits(s); d > 0 {
		pid, ok := number(s[:d])
		if !ok || pid == 0 || d >= len(s) || s[d] != ' ' {
			return header{}, "", false
		}
		h.pid, s = pid, s[d+1:]
	}
	place, msg, ok := strings.Cut(s, "] ")
	if !ok {
		return header{}, "", false
	}
	h.file, ok = sourceFile(place)
	return h, msg, ok
}

// sourceDirs has the files of the kubelet whose messages are parsed, with the folder
// that --add_dir_header and the JSON format put before them. Every file that reports
// orphans or volume operations in releases 1.3 to 1.36 is here; a report from any
// other file is another program's, or quoted by the kubelet.
var sourceDirs = map[string]string{
	"kubelet_volumes.go":         "kubelet/",
	"kubelet_pods.go":            "kubelet/",
	"kubelet.go":                 "kubelet/",
	"nestedpendingoperations.go": "nestedpendingoperations/",
	"reconciler.go":              "reconciler/",
	"reconciler_common.go":       "reconciler/",
	"reconciler_new.go":          "reconciler/",
	"reconstruct.go":             "reconciler/",
	"reconstruct_common.go":      "reconciler/",
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

// clock returns the length of the "15:04:05" or "15:04:05.000000" that s starts with,
// 0 where it starts with none. systemd in some locales writes a comma.
func clock(s string) int {
	if len(s) < 8 || !allDigits(s[:2]) || s[2] != ':' || !allDigits(s[3:5]) || s[5] != ':' || !allDigits(s[6:8]) {
		return 0
	}
	n := 8
	if len(s) > 9 && (s[8] == '.' || s[8] == ',') {
		if d := digits(s[9:]); d > 0 {
			n = 9 + d
		}
	}
	return n
}

// digits returns how many ASCII digits s starts with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func allDigits(s string) bool { return digits(s) == len(s) }

// number parses a decimal number of at most nine digits, which holds every process ID
// and every count, and cannot overflow.
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
