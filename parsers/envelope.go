package parsers

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// envelope is a line without what its transport adds.
type envelope struct {
	text    string   // the program's own text
	program string   // that the transport names, or ""
	named   bool     // the transport names a program, which must be a kubelet
	pieces  bool     // the transport splits long lines: the text may begin within one
	journal *Journal // the fields of a journal entry in JSON
}

// The beginnings of the transports that are parsed. Everything that may release a pod begins with one of them, or with
// klog's header or JSON itself.
var (
	// <27>…: the priority of syslog(3).
	priority = regexp.MustCompile(`^<\d{1,3}>`)
	// Mar 31 15:47:45 host …, 2024-09-16T06:24:14+0000 host …: the times of syslog daemons, RFC 3164 and ISO 8601.
	stamp = regexp.MustCompile(`^(?:[A-Z][a-z]{2} +\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:[.,]\d+)?|\d{4}-\d\d-\d\dT[^ ]+) +`)
	// [host [daemon.err ]]kubelet[3416]: …: the first colon ends the program's name, so that no later text can.
	tag = regexp.MustCompile(`^(?:[^ :="]+ (?:(?:user|daemon|local[0-7])\.[a-z]+ )?)??([^ \t"=:\[]+)(?:\[\d*\])?: ?`)
	// 1 2024-11-18T01:57:48.5+00:00 host kubelet 4133404 - - …: RFC 5424, in a file often without the priority.
	form5424 = regexp.MustCompile(`^1 [^ ]+ [^ ]+ ([^ ]+) [^ ]+ [^ ]+ (?:-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])*) \x{feff}?`)
	// 2024-03-30T07:25:46.496936000+00:00 stderr F …: one record of a CRI runtime. klog writes only to stderr.
	criHead = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[^ ]{9,26} stderr [FP](?::[^ ]*)? `)
	// time="2026-11-21 09:15:33" level=info msg="E1121 …" component=kubelet stream=stderr: k0s's supervisor. Other fields
	// are rejected: it numbers the pieces of a long line (chunk=2), and a piece does not begin a line.
	k0sForm = regexp.MustCompile(`^time="[^"\\]*" level=\w+ msg=("(?:[^"\\]|\\.)*") component=kubelet(?: stream=(?:stderr|stdout))?$`)
	// ANSI control sequences (ECMA-48 CSI): journalctl and grep write these to a terminal.
	colour = regexp.MustCompile(`\x1b\[[ -?]*[^ -?]?`)
)

// maxHead limits the part of a long line that is matched, since matching is slow.
const maxHead = 1024

// cutHead matches form with the beginning of s, and returns its groups and the rest of s.
func cutHead(form *regexp.Regexp, s string) (groups []string, rest string) {
	groups = form.FindStringSubmatch(s[:min(len(s), maxHead)])
	if groups == nil {
		return nil, s
	}
	return groups, s[len(groups[0]):]
}

func stripColour(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	return colour.ReplaceAllString(s, "")
}

// unwrap removes what a transport adds to a line of a file. It returns false if the line begins like none of them.
func unwrap(line string) (envelope, bool) {
	// After a crash, or after copytruncate has emptied a writer's file, there are NULs before a line.
	line = stripColour(strings.TrimRight(strings.TrimLeft(line, "\x00"), "\r\n"))
	if e, ok := unwrapJSON(line); ok {
		return e, true
	}
	if hasHeader(line) {
		return envelope{text: line}, true
	}
	if m, text := cutHead(criHead, line); m != nil {
		return envelope{text: text, pieces: true}, true
	}
	if m, text := cutHead(k0sForm, line); m != nil {
		return k0s(m[1], text)
	}
	_, rest := cutHead(priority, line)
	if m, text := cutHead(form5424, rest); m != nil {
		return named(envelope{program: m[1], named: true, text: text})
	}
	dated, rest := cutHead(stamp, rest)
	if dated != nil && (hasHeader(rest) || strings.HasPrefix(rest, "{")) { // docker logs --timestamps, ts
		return envelope{text: rest, pieces: true}, true
	}
	m, text := cutHead(tag, rest)
	if m == nil || dated == nil && len(rest) == len(line) {
		return envelope{}, false
	}
	return named(envelope{program: m[1], named: true, text: text})
}

// named completes the envelope of a syslog daemon: k0s's supervisor logs its kubelet's lines inside its own.
func named(e envelope) (envelope, bool) {
	e.text = trimEnd(e.text)
	if !slices.Contains(k0sPrograms, e.program) {
		return e, true
	}
	if m, _ := cutHead(k0sForm, e.text); m != nil {
		return k0s(m[1], "")
	}
	return e, true
}

func k0s(msg, rest string) (envelope, bool) {
	text, err := strconv.Unquote(msg)
	return envelope{text: text}, err == nil && rest == ""
}

// trimEnd removes white space and the escaped newlines that rsyslog leaves at the end of messages.
func trimEnd(s string) string {
	for {
		t := strings.TrimRight(s, " \r\n")
		for _, end := range [...]string{"#012", "#015", `\x0a`} {
			t = strings.TrimSuffix(t, end)
		}
		if len(t) == len(s) {
			return t
		}
		s = t
	}
}

// k0sPrograms are the program names of k0s's supervisor.
var k0sPrograms = []string{"k0s", "k0sworker", "k0scontroller", "k0sworker.service", "k0scontroller.service"}

// kubelets are the names of programs that are or contain a kubelet, and wrapping the words that distributions add.
var (
	kubelets = []string{"kubelet", "kubelite", "hyperkube", "kubenswrapper", "k3s", "rke2", "openshift", "localkube"}
	wrapping = []string{
		"wrapper", "daemon", "start", "run", "launch", "sh", "bash", "service", "snap", "microk8s", "k8s", "server",
		"agent", "worker", "node", "eks", "docker", "atomic", "kube", "kubernetes", "d8", "forker",
	}
	// shells start a kubelet for a unit, and origin-node was OpenShift Origin 3's. A shell writes nothing in klog's format.
	shells = []string{"sh", "bash", "dash", "origin-node", "origin-node.service"}
)

// kubeletProgram reports whether a kubelet logs under this program name: a kubelet's name with only wrapping words.
func kubeletProgram(name string) bool {
	if slices.Contains(shells, name) {
		return true
	}
	found := false
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '.' || r == '-' || r == '_' }) {
		version := strings.TrimPrefix(word, "v")
		switch {
		case slices.Contains(kubelets, word):
			found = true
		case !slices.Contains(wrapping, word) && (version == "" || len(version) > 4 || !allDigits(version)):
			return false
		}
	}
	return found
}
