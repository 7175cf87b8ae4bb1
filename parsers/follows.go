package parsers

import (
	"bytes"
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
	// begins the further lines of a value (and " >" after the last). rsyslog writes #011 for it.
	beginning = regexp.MustCompile(`^(?:[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |time="|\{"|\t|#011| ?>)`)
	// quoting matches klog's messages without keys that print an error, as klog.Errorf("%v", err) in
	// nestedpendingoperations.go of 1.37 does. Those at level I print what a client sends in a TLS handshake (log.go, Go before
	// 1.24.8) or as the path of a slow request (trace.go, where one process is API server and kubelet), a probe's output and an
	// event (up to 1.20), from V(3) on the paths of volumes and (up to 1.20) containers with their commands and
	// messages, and at V(4) the answer to an HTTP probe that has failed (up to 1.37).
	quoting = regexp.MustCompile(`^(?:[WEF]\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] [^"]|I\d{4} [\d:.]+ +\d+ (?:[\w./-]+/)?` +
		`(?:(?:logs?|trace|prober|event|mount_linux|subpath_linux|atomic_writer|nfs|iscsi\w*|fc\w*|csi_\w+|driver-call|` +
		`attacher|rbd\w*|cephfs|cinder|vsphere\w*|portworx|sio_\w+|storageos|flocker|azure_mounter|` +
		`handlers|kuberuntime_manager|status_manager|kubelet_pods)\.go:\d+\] [^"]|http\.go:\d+\] Probe failed))`)
	// rawValue matches a value that is no string, which klog before 2.60 prints without quotes: cmd=[sh -c …] in
	// remote_runtime.go of 1.21 to 1.23 has a probe's command.
	rawValue = regexp.MustCompile(` ([\w.-]+)=(?:\[|\{[^"]|&|map\[|kubernetes\.io/)`)
	// k0sKubelet matches what k0s's supervisor writes for a line of its kubelet, or for a piece of a long one (chunk=2).
	k0sKubelet = regexp.MustCompile(`^time="[^"\\]*" level=\w+ msg="?((?:[^"\\]|\\.)*).* component=kubelet`)
	// anyHeader matches the header of any klog line.
	anyHeader = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] `)
	// ownReport matches the kubelet's report, which quotes a UID, and what 1.10 to 1.20 print right before it of a pod without
	// volumes, which quotes a path.
	ownReport = regexp.MustCompile(`^.\d{4} [\d:.]+ +\d+ (?:kubelet/)?(?:kubelet_volumes\.go:|` +
		`kubelet_getters\.go:\d+\] Path "(?:[^"\\]|\\.)*" does not exist$)`)
)

// AfterText returns what a kubelet's text means for the lines after it.
func AfterText(text []byte) Follows {
	if m := k0sKubelet.FindSubmatch(text); m != nil {
		return AfterText([]byte(unquotePart(`"` + string(m[1]))))
	}
	switch {
	case !beginning.Match(text):
		return FollowsPart
	case (quoting.Match(text) || hasRawValue(text)) && !ownReport.Match(text):
		return FollowsQuoted
	}
	return FollowsAny
}

// ownKeys have names and IDs, and come with each change of a pod or, at V(5), right before each report.
var ownKeys = []string{"pods", "event", "sources", "seenSources"}

// hasRawValue reports whether a line with keys prints a value raw that a pod may have chosen.
func hasRawValue(text []byte) bool {
	if !anyHeader.Match(text) {
		return false
	}
	return slices.ContainsFunc(rawValue.FindAllSubmatch(text, -1), func(m [][]byte) bool {
		return !slices.Contains(ownKeys, string(m[1]))
	})
}

// AfterTrimmed is AfterText where the transport removes white space at the beginning of lines, such as klog's tab before a
// value with newlines: journald before 235, and so what it forwards to syslog.
func AfterTrimmed(text []byte) Follows {
	if follows := AfterText(text); follows != FollowsAny || !bytes.HasSuffix(text, []byte("=<")) {
		return follows
	}
	return FollowsQuoted
}

// AfterLine is AfterText for a line of a file, in any transport. A line of another program is FollowsAny.
func AfterLine(line []byte) Follows {
	if beginning.Match(line) {
		return AfterText(line)
	}
	// Only a date or a priority shows another program: the text after a newline may begin with "program: ".
	e, ok := unwrap(string(line))
	if !ok {
		return FollowsPart
	}
	if e.named && !kubeletProgram(e.program) && !slices.Contains(k0sPrograms, e.program) {
		return FollowsAny
	}
	return AfterTrimmed([]byte(strings.TrimPrefix(e.text, " ")))
}
