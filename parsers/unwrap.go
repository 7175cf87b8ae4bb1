package parsers

import (
	"net/netip"
	"strings"
)

// unwrap removes the transport from a line of a file. Every transport is recognised from
// the line's first byte on, each has one place for the program's text, and a line
// that starts like none of them is no kubelet's.
func (u *units) unwrap(line string) (envelope, bool) {
	if line == "" {
		return envelope{}, false
	}
	if e, ok := u.unwrapGrepped(line); ok {
		return e, true
	}
	if bullet, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "* "); ok {
		return dated(bullet) // minikube logs up to 1.13
	}
	if node, rest, ok := strings.Cut(line, ": "); ok {
		// talosctl logs kubelet puts the node's address before each line.
		if _, err := netip.ParseAddr(node); err == nil {
			return u.unwrapGrepped(rest)
		}
	}
	if e, ok := programLed(line, envelope{Transport: transportSyslog}); ok {
		return e, true
	}
	if rest, ok := cutGrepPrefix(line); ok {
		if e, ok := u.unwrapGrepped(rest); ok {
			return e, true
		}
	}
	if line[0] == ' ' || line[0] == '\t' {
		// A continuation of something: klog puts a tab before every line but the first.
		return envelope{}, false
	}
	return envelope{Text: line, bare: true}, true
}

// unwrapGrepped takes the transport off what follows a file name or line number of
// grep: everything but a bare fragment, which may start after any colon.
func (u *units) unwrapGrepped(rest string) (envelope, bool) {
	if e, ok := u.unwrapStructured(rest); ok {
		return e, true
	}
	if e, ok := dated(rest); ok {
		return e, true
	}
	_, _, ok := cutHeader(rest)
	return envelope{Text: rest}, ok
}

// unwrapStructured removes the transports that begin with a certain byte or key.
func (u *units) unwrapStructured(line string) (envelope, bool) {
	switch line[0] {
	case '{':
		return u.unwrapJSON(line)
	case '<':
		return withPriority(line)
	case '[':
		return monotonic(line)
	case '1':
		// RFC 5424 in a file whose template leaves the priority out.
		if rest, ok := strings.CutPrefix(line, "1 "); ok {
			return rfc5424(rest)
		}
	}
	if msg, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "MESSAGE="); ok {
		return envelope{Transport: transportMessage, Text: msg}, true // a line that people copy out of journalctl -o verbose
	}
	return cri(line)
}

// cutGrepPrefix takes off what grep puts before a line: "file:", "line:" or
// "file:line:".
func cutGrepPrefix(s string) (string, bool) {
	name, rest, ok := strings.Cut(s, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t\"'={}[]<>\\()") {
		return "", false
	}
	if d := digits(rest); d > 0 && d < len(rest) && rest[d] == ':' && !allDigits(name) {
		rest = rest[d+1:]
	}
	return rest, rest != ""
}

// cutRepeated takes off what syslog daemons put around repetitions:
// "message repeated 3 times: [ message]".
func cutRepeated(s string) string {
	rest, ok := strings.CutPrefix(s, "message repeated ")
	if !ok {
		return s
	}
	d := digits(rest)
	inner, ok := strings.CutPrefix(rest[d:], " times: [")
	if d == 0 || !ok {
		return s
	}
	return strings.TrimSuffix(strings.TrimPrefix(inner, " "), "]")
}

// trimEnd takes off the escaped newlines that rsyslog leaves of messages that end with
// one (octal, or as sd-journal and others print them), and white space.
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

// stripColour takes ANSI control sequences (ECMA-48 CSI) out: journalctl and grep
// colour lines that they write to a terminal.
func stripColour(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != 0x1b || i+1 >= len(s) || s[i+1] != '[' {
			b.WriteByte(s[i])
			continue
		}
		i += 2
		for i < len(s) && s[i] >= 0x20 && s[i] < 0x40 {
			i++
		}
	}
	return b.String()
}
