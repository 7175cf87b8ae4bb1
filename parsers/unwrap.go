package parsers

import (
	"net/netip"
	"regexp"
	"strings"
)

// unwrappers parse the transports with a recognizable beginning, in this order.
var unwrappers = [...]func(p *Parser, line string) (envelope, bool){
	(*Parser).unwrapJSON, withPriority, rfc5424, messageField, cri, bulleted,
	func(_ *Parser, line string) (envelope, bool) { return dated(line) },
	func(_ *Parser, line string) (envelope, bool) { return envelope{Text: line}, hasHeader(line) },
}

// unwrap removes the transport from a line of a file. Each transport is recognized by the beginning of the line, and has
// one place for the program's text.
func (p *Parser) unwrap(line string) (envelope, bool) {
	if e, ok := p.unwrapStart(line); ok {
		return e, true
	}
	if node, rest, ok := strings.Cut(line, ": "); ok {
		// talosctl logs kubelet puts the node's address before each line.
		if _, err := netip.ParseAddr(node); err == nil {
			return p.unwrapStart(rest)
		}
	}
	if node, rest, ok := strings.Cut(line, " "); ok {
		// oc adm node-logs puts the node's name before each line if it reads several nodes.
		if e, ok := dated(rest); ok && e.host != "" && (node == e.host || strings.HasPrefix(node, e.host+".")) {
			return e, true
		}
	}
	if e, ok := tagged(tag, line, envelope{Transport: transportSyslog}); ok {
		return e, true
	}
	if m, rest := cutHead(grepPlace, line); m != nil {
		// A bare fragment is not accepted here, since it may start after any colon.
		if e, ok := p.unwrapStart(rest); ok {
			return e, true
		}
	}
	// klog begins every later line of a message with a tab.
	continues := strings.HasPrefix(line, "\t")
	return envelope{Text: line, bare: !continues}, line != "" && line[0] != ' '
}

func (p *Parser) unwrapStart(line string) (envelope, bool) {
	for _, unwrap := range unwrappers {
		if e, ok := unwrap(p, line); ok {
			return e, true
		}
	}
	return envelope{}, false
}

// maxHead limits the part of a long line that is matched, since matching is slow.
const maxHead = 1024

// cutHead matches form with the beginning of s, and returns its groups and the rest of s.
func cutHead(form *regexp.Regexp, s string) (groups []string, rest string) {
	groups = form.FindStringSubmatch(s[:min(len(s), maxHead)])
	if groups == nil {
		return nil, ""
	}
	return groups, s[len(groups[0]):]
}

// grepPlace matches grep's prefix of a line: "file:", "line:" or "file:line:".
var grepPlace = regexp.MustCompile(`^(?:\d+:|[^ \t"'={}[\]<>\\():]+:(?:\d+:)?)`)

// priority matches the priority of syslog(3).
var priority = regexp.MustCompile(`^<\d{1,3}>`)

// withPriority parses the forms of RFC 3164 that start with a priority:
//
//	<27>Mar 31 15:47:45 host kubelet[3416]: text
//	<27>kubelet[3416]: text
func withPriority(_ *Parser, s string) (envelope, bool) {
	m, rest := cutHead(priority, s)
	if m == nil {
		return envelope{}, false
	}
	if e, ok := dated(rest); ok {
		return e, true
	}
	return tagged(tag, rest, envelope{Transport: transportSyslog})
}

// form5424 is the head of RFC 5424, with the priority or, in a file, often without it:
//
//	<27>1 2024-11-18T01:57:48.546805+00:00 host kubelet 4133404 - - text
//	<PRIORITY>VERSION TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG
//
// Structured data is "-" or `[id name="value"]…` (6.3), and a byte order mark may begin the text.
var form5424 = regexp.MustCompile(`^(?:<\d{1,3}>)?1 ([^ ]+) [^ ]+ ([^ ]+) ([^ ]+) [^ ]+ (?:-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])*) \x{feff}?`)

func rfc5424(_ *Parser, s string) (envelope, bool) {
	m, text := cutHead(form5424, s)
	if m == nil {
		return envelope{}, false
	}
	e := envelope{Transport: transport5424, Program: m[2], named: true, Text: text}
	e.PID, _ = number(m[3])
	ok := m[1] == "-"
	if !ok {
		e.Time, ok = parseISO(m[1])
	}
	return e, ok
}

// messageField parses a MESSAGE line of journalctl -o verbose.
func messageField(_ *Parser, s string) (envelope, bool) {
	msg, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "MESSAGE=")
	return envelope{Transport: transportMessage, Text: msg}, ok
}

// bulleted parses a line of "minikube logs" up to 1.13.
func bulleted(_ *Parser, s string) (envelope, bool) {
	line, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "* ")
	if !ok {
		return envelope{}, false
	}
	return dated(line)
}

// criHead is the head of one record of a CRI runtime's log:
//
//	2024-03-30T07:25:46.496936000+00:00 stderr F text
//	TIMESTAMP STREAM TAGS text
//
// Tags are separated by ":"; the first is F for a full line or the last piece of one,
// P for a piece that is not the last (kubelet's cri-client logs.go).
var criHead = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[^ ]{9,26}) (stderr|stdout) ([FP])(?::[^ ]*)? `)

// cri parses a record of a kubelet that runs in a container. klog writes only to stderr.
func cri(_ *Parser, s string) (envelope, bool) {
	m, text := cutHead(criHead, s)
	if m == nil || m[2] != "stderr" {
		return envelope{}, false
	}
	at, ok := parseISO(m[1])
	return envelope{Transport: transportCRI, Time: at, Text: text, whole: true}, ok
}

// k0sPrograms are the program names of k0s's supervisor: its own, and those of its units, which journalctl may print.
var k0sPrograms = []string{"k0s", "k0sworker", "k0scontroller", "k0sworker.service", "k0scontroller.service"}

// k0sForm matches the form in which k0s's supervisor logs a line of the kubelet:
//
//	time="2026-11-21 09:15:33" level=info msg="E1121 09:15:33.1 …" component=kubelet stream=stderr
//
// It rejects other fields: k0s numbers the pieces of a long line (chunk=2), and a piece does not begin a line.
var k0sForm = regexp.MustCompile(`^time="[^"\\]*" level=\w+ msg=("(?:[^"\\]|\\.)*") component=kubelet(?: stream=(?:stderr|stdout))?$`)

// repeated matches the prefix of repetitions in syslog, which end with "]".
var repeated = regexp.MustCompile(`^message repeated \d+ times: \[ ?`)

func cutRepeated(s string) string {
	if m, inner := cutHead(repeated, s); m != nil {
		return strings.TrimSuffix(inner, "]")
	}
	return s
}

// trimEnd removes white space and the escaped newlines that rsyslog leaves at the end of messages (octal, or in
// the form of sd-journal and others).
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

// colour matches an ANSI control sequence (ECMA-48 CSI): journalctl and grep write these to a terminal.
var colour = regexp.MustCompile(`\x1b\[[ -?]*[^ -?]?`)

func stripColour(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	return colour.ReplaceAllString(s, "")
}
