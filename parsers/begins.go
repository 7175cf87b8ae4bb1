package parsers

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// beginning matches the beginning of a line of a log: klog's header, JSON, logfmt (k3s, k0s), or a tab, with which klog
	// begins the further lines of a value (and " >" after the last). All of these quote the text of a pod.
	beginning = regexp.MustCompile(`^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |time="|\{"|\t| >)`)
	// output matches the messages of kubelets before 1.21 that end in a probe's output as it is.
	output = regexp.MustCompile(`^[IWEF]\d{4} [\d:.]+ +\d+ (?:prober|event)\.go:\d+\] [^"]`)
)

// Begins reports whether a kubelet's text begins like a line of a log, and no text of a pod follows it on lines of its own.
// A message with newlines, such as mount's errors with the paths that a pod has chosen, makes lines of which this is false.
func Begins(text []byte) bool { return beginning.Match(text) && !output.Match(text) }

// MayContinue reports whether a line of a file may belong to a kubelet's message with newlines: it is not another program's,
// and Begins is false.
func MayContinue(line []byte) bool {
	if beginning.Match(line) {
		return !Begins(line)
	}
	// Only a date or a priority shows another program: the text after a newline may begin with "program: ".
	e, ok := new(Parser).unwrapStart(stripColour(string(line)))
	if !ok {
		return true
	}
	if e.named && !kubeletProgram(e.Program) && !slices.Contains(k0sPrograms, e.Program) {
		return false
	}
	return !Begins([]byte(cutRepeated(strings.TrimPrefix(e.Text, " "))))
}
