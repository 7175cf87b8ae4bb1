package parsers

import (
	"regexp"
	"strings"
	"time"
)

const (
	clockForm = `\d\d:\d\d:\d\d(?:[.,]\d+)?` // systemd in some locales writes a comma
	// tagForm is "program[pid]: ". The first colon ends the program's name, so that no later text can.
	tagForm = `([^ \t"=:\[]+)(?:\[(\d*)\])?: `
	// priorityForm is the facility and severity of daemons that BusyBox's syslogd writes after the host.
	priorityForm = `(?:user|daemon|local[0-7])\.(?:emerg|alert|crit|err|warn|notice|info|debug) `
	// monthForm is a word in any language, which may begin with the month's number. In four languages of glibc it has a
	// space: de nov. (Catalan), Thg 11, 11-р сар, تشرين الثاني. No English word may precede it, such as a node's name.
	monthForm = `(?:Thg \d{1,2}|(?:de )?(?:\d+-?)?[A-Za-z\x{80}-\x{10ffff}]` + wordForm + `(?: [\x{80}-\x{10ffff}]` + wordForm + `)?)`
	wordForm  = `[^ :="'{}[\]<>/\\]{0,31}`
)

var (
	tag = regexp.MustCompile(`^()` + tagForm)
	// hostTag matches a tag, usually after a host's name.
	hostTag = regexp.MustCompile(`^ *(?:([^ ]+) (?:` + priorityForm + `)?)??` + tagForm)
)

// tagged parses a text that begins with a tag in one of the two forms.
func tagged(form *regexp.Regexp, s string, e envelope) (envelope, bool) {
	m, text := cutHead(form, s)
	if m == nil {
		return envelope{}, false
	}
	e.host, e.Program, e.named, e.Text = m[1], m[2], true, text
	e.PID, _ = number(m[3])
	return e, true
}

// stamp is one format of the time at a line's beginning.
type stamp struct {
	form      *regexp.Regexp
	transport string
	parse     func(string) (time.Time, bool) // parses the form's group; nil if year or zone is not certain
	direct    bool                           // klog's text may follow without a tag
}

// stamps are tried in this order:
//
//	2024-09-16T06:24:14+0000 host kubelet[2]: text  short-iso, rsyslog's and syslog-ng's ISO 8601
//	2024-01-04T18:51:21.080528000Z E0104 18:51:21…  docker logs --timestamps, kubectl logs --timestamps
//	Mar 31 15:47:45 host kubelet[3416]: text        RFC 3164, journalctl short (precise with a fraction)
//	May 17 16:45:26 kubelet[3292]: text             the same without the host
//	Mar 31 2024 15:47:45 host kubelet[3416]: text   some daemons
//	 3월 31 16:03:01 host kubelet[21294]: text       month in the locale
//	Mar 31 15:47:45 E0331 15:47:45…                 kubelet 2>&1 | ts
//	Mar 31 15:47:45 host daemon.err kubelet[1]: …   BusyBox syslogd
//	Tue 2024-08-23 10:31:01 UTC host kubelet[1]: t  short-full, with-unit
//	1705393812.044483 host kubelet[1]: text         short-unix
//	2024-03-31 15:47:45.892 host kubelet[1]: text   other daemons
//	[ 1234.567890] host kubelet[1]: text            short-monotonic
//	[ 1234.567890 <    0.000123 >] host kubelet[1]: short-delta
var stamps = [...]stamp{
	{regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[^ ]+) `), transportSyslog, parseISO, true},
	{regexp.MustCompile(`^` + monthForm + ` +\d{1,2}\.? (?:\d{4} )?` + clockForm + ` `), transportSyslog, nil, true},
	{regexp.MustCompile(`^[^ ]{1,32} (\d{4}-\d\d-\d\d ` + clockForm + ` [^ ]*) `), transportShort, parseFull, false},
	{regexp.MustCompile(`^(\d{9,11}\.\d{6}) `), transportShort, parseUnix, false},
	{regexp.MustCompile(`^\d{4}-\d\d-\d\d ` + clockForm + ` `), transportSyslog, nil, false},
	{regexp.MustCompile(`^\[[\d.<> ]{0,64}\] `), transportShort, nil, false},
}

// dated parses a line that starts with a time.
func dated(s string) (envelope, bool) {
	s = strings.TrimLeft(s, " ")
	for _, st := range stamps {
		m, rest := cutHead(st.form, s)
		if m == nil {
			continue
		}
		e := envelope{Transport: st.transport}
		if st.parse != nil {
			var ok bool
			if e.Time, ok = st.parse(m[1]); !ok {
				continue
			}
		}
		if st.direct && (hasHeader(rest) || strings.HasPrefix(rest, "{")) {
			return envelope{Transport: transportStamped, Time: e.Time, Text: rest, whole: true}, true
		}
		return tagged(hostTag, rest, e)
	}
	return envelope{}, false
}

// parseISO parses an ISO 8601 time, with or without a colon in the zone.
func parseISO(stamp string) (time.Time, bool) {
	stamp = strings.Replace(stamp, ",", ".", 1)
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// parseFull parses "YYYY-MM-DD clock ZONE". It returns the zero time for a zone other than UTC or a number, which is
// not certain.
func parseFull(stamp string) (time.Time, bool) {
	for _, utc := range [...]string{" UTC", " GMT"} {
		if s, ok := strings.CutSuffix(stamp, utc); ok {
			stamp = s + " +0000"
		}
	}
	for _, layout := range [...]string{"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, true
}

// parseUnix parses seconds since 1970 with six digits after the point.
func parseUnix(stamp string) (time.Time, bool) { return micros(strings.Replace(stamp, ".", "", 1)) }
