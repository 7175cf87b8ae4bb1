package transport

import (
	"strings"
	"time"
)

// Log shippers and loggers keep a kubelet's line in forms of their own. Which keys an object has
// depends on the shipper's configuration, so the keys do not tell the shipper. The object must have
// one line that begins as klog's do, under one of the usual keys. Where it names the program that
// wrote the line, that must be a kubelet.
//
//	{"message":"E0117 …","_SYSTEMD_UNIT":"kubelet.service",…}        Vector
//	{"entry":"E0117 …","stream":"stderr","unit":"kubelet.service"}   Promtail
//	{"date":1768641333.12,"log":"E0117 …"}                           Fluent Bit, its keys renamed or not
//	{"msg":" E0117 …","syslogtag":"kubelet[2154]:",…}                rsyslog, a JSON template
//	{"PROGRAM":"kubelet","MESSAGE":"E0117 …",…}                      syslog-ng, format-json
//	2026-01-17_09:15:33.12345 E0117 …                                svlogd -tt and -t
//	@4000000065a79f3512345678 E0117 …                                multilog t, s6-log t, svlogd -t: TAI64N
//	2026-01-17 09:15:33.123456789  E0117 …                           s6-log T

// lineKeys are where the line may be.
var lineKeys = [...]string{"message", "msg", "log", "line", "entry", "text", "MESSAGE", "@message", "_raw"}

// programKeys are where a shipper says which program or unit wrote the line.
var programKeys = [...]string{
	"_SYSTEMD_UNIT", "systemd_unit", "unit", "UNIT", "_COMM", "SYSLOG_IDENTIFIER", "syslog_identifier", "PROGRAM", "program", "programname",
	"syslogtag", "app-name", "app_name", "appname", "ident",
}

// strangers are keys which tell that the line is a container's, or a record that another program
// logs in JSON: anybody's words.
var strangers = [...]string{"kubernetes", "container_id", "container_name", "pod", "pod_name", "level", "lvl", "logger", "caller"}

// shipped reads the object of a log shipper.
func shipped(o object) (Envelope, bool) {
	e := Envelope{Transport: transportShipped}
	for _, key := range strangers {
		if o[key] != nil {
			return Envelope{}, false
		}
	}
	if stream, ok := o.text("stream"); ok && stream != "stderr" {
		return Envelope{}, false
	}
	for _, key := range programKeys {
		if o[key] == nil {
			continue
		}
		name, ok := o.text(key)
		name, _, _ = strings.Cut(strings.TrimSuffix(name, ":"), "[")
		if !ok || !kubeletProgram(strings.TrimSuffix(name, ".service")) {
			return Envelope{}, false
		}
		e.Program = name
	}
	for _, key := range lineKeys {
		if o[key] == nil {
			continue
		}
		text, ok := o.text(key)
		text = strings.TrimPrefix(StripColour(text), " ")
		if _, _, klog := cutHeader(text); !ok || !klog || e.Text != "" {
			return Envelope{}, false // two lines are one too many
		}
		e.Text = text
	}
	e.whole = true
	return e, e.Text != ""
}

// logger takes off the time stamps of daemontools' descendants; klog's header must follow.
func logger(s string) (Envelope, bool) {
	stamp, rest, _ := strings.Cut(s, " ")
	e := Envelope{Transport: transportStamped, whole: true}
	switch {
	case len(stamp) == 25 && stamp[0] == '@' && strings.Trim(stamp[1:], "0123456789abcdef") == "":
	case len(stamp) > 19 && stamp[10] == '_':
		e.Time, _ = time.Parse("2006-01-02_15:04:05.999999999", stamp)
	case len(stamp) > 19 && stamp[10] == 'T':
		e.Time, _ = time.Parse("2006-01-02T15:04:05.999999999", stamp)
	case len(stamp) == 10 && stamp[4] == '-':
		var clock string
		clock, rest, _ = strings.Cut(rest, " ")
		e.Time, _ = time.Parse("2006-01-02 15:04:05.999999999", stamp+" "+clock)
	default:
		return Envelope{}, false
	}
	if stamp[0] != '@' && e.Time.IsZero() {
		return Envelope{}, false
	}
	e.Text = strings.TrimLeft(rest, " ")
	_, _, ok := cutHeader(e.Text)
	// svlogd and s6-log write UTC or the local time, and do not say which.
	e.Time = time.Time{}
	return e, ok
}
