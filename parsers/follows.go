package parsers

import (
	"regexp"
	"slices"
	"strings"
)

// Follows is what a line of a kubelet can mean for the lines after it. A message with newlines makes lines of which a pod may
// have chosen the text: mount's errors have the path of an NFS volume, and API validation accepts a newline in it.
type Follows int

const (
	// FollowsAny is a line of a log, and the next line is another.
	FollowsAny Follows = iota
	// FollowsQuoted is a line of a log that quotes a text as it is, which may go on in the next line.
	FollowsQuoted
	// FollowsPart looks unlike any line of a log, so it is a part of a message, and the next line may be another.
	FollowsPart
)

var (
	// beginning matches the beginning of a line of a log: klog's header, JSON, logfmt (k3s, k0s), or a tab, with which klog
	// begins the further lines of a value (and " >" after the last).
	beginning = regexp.MustCompile(`^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |time="|\{"|\t| >)`)
	// quoting matches klog's messages without keys that print an error, the output of a probe (up to 1.20), an event, or what
	// a pod's volume is mounted with (V(4)): klog.Errorf("%v", err) in nestedpendingoperations.go of 1.37, for example.
	quoting = regexp.MustCompile(`^(?:[WEF]\d{4} [\d:.]+ +\d+ [\w./-]+|I\d{4} [\d:.]+ +\d+ (?:[\w./-]+/)?(?:prober|event|mount_linux|csi_\w+)\.go):\d+\] [^"]`)
	// ownReport matches the kubelet's report, which quotes a UID.
	ownReport = regexp.MustCompile(`^.\d{4} [\d:.]+ +\d+ (?:kubelet/)?kubelet_volumes\.go:`)
)

// AfterText returns what a kubelet's text means for the lines after it.
func AfterText(text []byte) Follows {
	switch {
	case !beginning.Match(text):
		return FollowsPart
	case quoting.Match(text) && !ownReport.Match(text):
		return FollowsQuoted
	}
	return FollowsAny
}

// AfterLine is AfterText for a line of a file, in any transport. A line of another program is FollowsAny.
func AfterLine(line []byte) Follows {
	if beginning.Match(line) {
		return AfterText(line)
	}
	// Only a date or a priority shows another program: the text after a newline may begin with "program: ".
	e, ok := new(Parser).unwrapStart(stripColour(string(line)))
	if !ok {
		return FollowsPart
	}
	if e.named && !kubeletProgram(e.Program) && !slices.Contains(k0sPrograms, e.Program) {
		return FollowsAny
	}
	return AfterText([]byte(cutRepeated(strings.TrimPrefix(e.Text, " "))))
}

// Reports reports whether a line may be a report of an orphan, which a part of a message may also be after FollowsQuoted. Other
// lines only keep a pod.
func Reports(line []byte) bool { return index(line, false) >= 0 }
