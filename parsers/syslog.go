package parsers

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// dated parses the transports that start with a time:
//
//	Mar 31 15:47:45 host kubelet[3416]: text       RFC 3164, journalctl short (precise with a fraction)
//	May 17 16:45:26 kubelet[3292]: text            the same without the host
//	 3월 31 16:03:01 host kubelet[21294]: text      month as the locale has it
//	2024-09-16T06:24:14+0000 host kubelet[2]: text  short-iso, rsyslog's and syslog-ng's ISO 8601
//	Tue 2024-08-23 10:31:01 UTC host kubelet[1]: t  short-full, with-unit
//	1705393812.044483 host kubelet[1]: text         short-unix
//	2024-03-31 15:47:45.892 host kubelet[1]: text   other daemons
//	2024-01-04T18:51:21.080528000Z E0104 18:51:21…  docker logs --timestamps, kubectl logs --timestamps
//	Mar 31 15:47:45 E0331 15:47:45…                 kubelet 2>&1 | ts
//	Mar 31 15:47:45 host daemon.err kubelet[1]: …   BusyBox syslogd
//
// A time without a year or without a certain zone is not taken over.
func dated(s string) (envelope, bool) {
	s = strings.TrimLeft(s, " ")
	if rest, at, ok := cutISO(s); ok {
		return stampedOrHostLed(rest, at)
	}
	if rest, ok := cutMonthDay(s); ok {
		return stampedOrHostLed(rest, time.Time{})
	}
	if rest, at, ok := cutFull(s); ok {
		return hostLed(rest, envelope{Transport: transportShort, Time: at})
	}
	if rest, at, ok := cutUnix(s); ok {
		return hostLed(rest, envelope{Transport: transportShort, Time: at})
	}
	if rest, ok := cutPlain(s); ok {
		return hostLed(rest, envelope{Transport: transportSyslog})
	}
	return envelope{}, false
}

// stampedOrHostLed parses what follows a time: klog's own text at once, or a host.
func stampedOrHostLed(s string, at time.Time) (envelope, bool) {
	if _, _, ok := cutHeader(s); ok || strings.HasPrefix(s, "{") {
		return envelope{Transport: transportStamped, Time: at, Text: s, whole: true}, true
	}
	return hostLed(s, envelope{Transport: transportSyslog, Time: at})
}

// cutMonthDay takes "Mon day clock " off. The month is a word of any language, so
// that no list of them can be incomplete: letters, perhaps after the month's number,
// perhaps with a dot.
func cutMonthDay(s string) (string, bool) {
	month, rest, ok := strings.Cut(s, " ")
	if !ok || len(month) > 32 || strings.ContainsAny(month, ":=\"'{}[]<>/\\") {
		return "", false
	}
	word := strings.TrimLeft(month, "0123456789")
	if r, _ := utf8.DecodeRuneInString(word); word == "" || (r < 0x80 && !isLetter(byte(r))) {
		return "", false
	}
	rest = strings.TrimLeft(rest, " ")
	d := digits(rest)
	if d < 1 || d > 2 {
		return "", false
	}
	rest, ok = strings.CutPrefix(strings.TrimPrefix(rest[d:], "."), " ")
	if !ok {
		return "", false
	}
	if d := digits(rest); d == 4 && len(rest) > 5 && rest[4] == ' ' {
		rest = rest[5:] // A year, as some daemons write.
	}
	n := clock(rest)
	if n == 0 {
		return "", false
	}
	return strings.CutPrefix(rest[n:], " ")
}

// cutISO takes an ISO 8601 time off, with or without a colon in the zone.
func cutISO(s string) (string, time.Time, bool) {
	if len(s) < 20 || s[4] != '-' || s[10] != 'T' {
		return "", time.Time{}, false
	}
	stamp, rest, ok := strings.Cut(s, " ")
	if !ok {
		return "", time.Time{}, false
	}
	at, ok := parseISO(stamp)
	return rest, at, ok
}

func parseISO(stamp string) (time.Time, bool) {
	stamp = strings.Replace(stamp, ",", ".", 1)
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// cutFull takes "Day YYYY-MM-DD clock ZONE " off. Only UTC and numbers are certain zones.
func cutFull(s string) (string, time.Time, bool) {
	day, rest, ok := strings.Cut(s, " ")
	if !ok || len(day) > 32 || len(rest) < 20 || rest[4] != '-' || rest[7] != '-' || rest[10] != ' ' {
		return "", time.Time{}, false
	}
	n := clock(rest[11:])
	if n == 0 || !allDigits(rest[:4]) {
		return "", time.Time{}, false
	}
	stamp := rest[:11+n]
	rest, ok = strings.CutPrefix(rest[11+n:], " ")
	if !ok {
		return "", time.Time{}, false
	}
	zone, rest, ok := strings.Cut(rest, " ")
	switch zone {
	case "UTC", "GMT":
		zone = "+0000"
	}
	for _, layout := range [...]string{"2006-01-02 15:04:05-0700", "2006-01-02 15:04:05-07"} {
		if at, err := time.Parse(layout, stamp+zone); err == nil {
			return rest, at.UTC(), ok
		}
	}
	return rest, time.Time{}, ok
}

// cutPlain takes "YYYY-MM-DD clock " off, whose zone is not known.
func cutPlain(s string) (string, bool) {
	if len(s) < 20 || !allDigits(s[:4]) || s[4] != '-' || s[7] != '-' || s[10] != ' ' {
		return "", false
	}
	n := clock(s[11:])
	if n == 0 {
		return "", false
	}
	return strings.CutPrefix(s[11+n:], " ")
}

// cutUnix takes "seconds.microseconds " off.
func cutUnix(s string) (string, time.Time, bool) {
	d := digits(s)
	if d < 9 || d > 11 || len(s) < d+8 || s[d] != '.' || digits(s[d+1:]) != 6 || s[d+7] != ' ' {
		return "", time.Time{}, false
	}
	at, ok := micros(s[:d] + s[d+1:d+7])
	return s[d+8:], at, ok
}

// monotonic parses journalctl's short-monotonic and short-delta, and the kernel's log:
//
//	[ 1234.567890] host kubelet[1]: text
//	[ 1234.567890 <    0.000123 >] host kubelet[1]: text
func monotonic(s string) (envelope, bool) {
	in, rest, ok := strings.Cut(s[1:], "] ")
	if !ok || len(in) > 64 || strings.Trim(in, "0123456789.<> ") != "" {
		return envelope{}, false
	}
	return hostLed(rest, envelope{Transport: transportShort})
}

// withPriority parses the forms that start with a priority:
//
//	<27>Mar 31 15:47:45 host kubelet[3416]: text
//	<27>1 2024-11-18T01:57:48.546805+00:00 host kubelet 4133404 - - text
//	<27>kubelet[3416]: text
func withPriority(s string) (envelope, bool) {
	d := digits(s[1:])
	if d < 1 || d > 3 || len(s) < d+3 || s[d+1] != '>' {
		return envelope{}, false
	}
	s = s[d+2:]
	if rest, ok := strings.CutPrefix(s, "1 "); ok {
		return rfc5424(rest)
	}
	if e, ok := dated(s); ok {
		return e, true
	}
	return programLed(s, envelope{Transport: transportSyslog})
}

// rfc5424 parses what follows the version:
//
//	TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG
func rfc5424(s string) (envelope, bool) {
	var part [5]string
	for i := range part {
		var ok bool
		if part[i], s, ok = strings.Cut(s, " "); !ok || part[i] == "" {
			return envelope{}, false
		}
	}
	e := envelope{Transport: transport5424, Program: part[2], named: true}
	var ok bool
	if e.Time, ok = parseISO(part[0]); !ok && part[0] != "-" {
		return envelope{}, false
	}
	e.PID, _ = number(part[3])
	if s, ok = cutStructuredData(s); !ok {
		return envelope{}, false
	}
	e.Text = strings.TrimPrefix(s, "\ufeff")
	return e, true
}

// cutStructuredData takes "- " or `[id name="value"]… ` off (RFC 5424, 6.3).
func cutStructuredData(s string) (string, bool) {
	if rest, ok := strings.CutPrefix(s, "- "); ok {
		return rest, true
	}
	for strings.HasPrefix(s, "[") {
		end, quoted := -1, false
		for i := 1; i < len(s) && end < 0; i++ {
			switch {
			case s[i] == '\\' && quoted:
				i++
			case s[i] == '"':
				quoted = !quoted
			case s[i] == ']' && !quoted:
				end = i
			}
		}
		if end < 0 {
			return "", false
		}
		s = s[end+1:]
	}
	return strings.CutPrefix(s, " ")
}

// hostLed parses "host program[pid]: text" or, without the host, "program[pid]: text".
func hostLed(s string, e envelope) (envelope, bool) {
	s = strings.TrimLeft(s, " ")
	if e, ok := programLed(s, e); ok {
		return e, true
	}
	_, rest, ok := strings.Cut(s, " ")
	if !ok {
		return envelope{}, false
	}
	if priority, tagged, ok := strings.Cut(rest, " "); ok && isPriority(priority) {
		rest = tagged
	}
	return programLed(rest, e)
}

// isPriority reports whether s is a facility and a severity as BusyBox's syslogd writes
// them after the host, of those under which a daemon logs.
func isPriority(s string) bool {
	facility, severity, ok := strings.Cut(s, ".")
	return ok && slices.Contains([]string{"user", "daemon", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"}, facility) &&
		slices.Contains([]string{"emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"}, severity)
}

// programLed parses "program[pid]: text". The first colon that a space follows ends
// the program's name, so that no later one can make another program of it.
func programLed(s string, e envelope) (envelope, bool) {
	tag, text, ok := strings.Cut(s, ": ")
	if !ok || tag == "" || len(tag) > 128 || strings.ContainsAny(tag, " \t\"=:") {
		return envelope{}, false
	}
	if name, pid, ok := strings.Cut(tag, "["); ok {
		pid, closed := strings.CutSuffix(pid, "]")
		if !closed || !allDigits(pid) {
			return envelope{}, false
		}
		tag = name
		e.PID, _ = number(pid)
	}
	e.Program, e.named, e.Text = tag, true, text
	return e, true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
