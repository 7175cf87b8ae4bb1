package parsers

import "strings"

// Log shippers keep a kubelet's line in forms of their own. Which keys an object has
// depends on the shipper's configuration, so the keys do not identify the shipper. The object must have
// one line that begins as klog's do, under one of the usual keys. Where it names the program that
// wrote the line, that must be a kubelet.
//
//	{"message":"E0117 …","_SYSTEMD_UNIT":"kubelet.service",…}        Vector
//	{"entry":"E0117 …","stream":"stderr","unit":"kubelet.service"}   Promtail
//	{"date":1768641333.12,"log":"E0117 …"}                           Fluent Bit, its keys renamed or not
//	{"msg":" E0117 …","syslogtag":"kubelet[2154]:",…}                rsyslog, a JSON template
//	{"PROGRAM":"kubelet","MESSAGE":"E0117 …",…}                      syslog-ng, format-json

// lineKeys are where the line may be.
var lineKeys = [...]string{"message", "msg", "log", "line", "entry", "text", "MESSAGE", "@message", "_raw"}

// programKeys are the keys of the program or unit that wrote the line.
var programKeys = [...]string{
	"_SYSTEMD_UNIT", "systemd_unit", "unit", "UNIT", "_COMM", "SYSLOG_IDENTIFIER", "syslog_identifier", "PROGRAM", "program", "programname",
	"syslogtag", "app-name", "app_name", "appname", "ident",
}

// strangers are keys of a container's line, or of a record that another program logs in JSON, whose
// text may be of anyone.
var strangers = [...]string{"kubernetes", "container_id", "container_name", "pod", "pod_name", "level", "lvl", "logger", "caller"}

// shipped reads the object of a log shipper.
func shipped(o object) (envelope, bool) {
	e := envelope{Transport: transportShipped}
	for _, key := range strangers {
		if o[key] != nil {
			return envelope{}, false
		}
	}
	if stream, ok := o.text("stream"); ok && stream != "stderr" {
		return envelope{}, false
	}
	for _, key := range programKeys {
		if o[key] == nil {
			continue
		}
		name, ok := o.text(key)
		name, _, _ = strings.Cut(strings.TrimSuffix(name, ":"), "[")
		if !ok || !kubeletProgram(strings.TrimSuffix(name, ".service")) {
			return envelope{}, false
		}
		e.Program = name
	}
	for _, key := range lineKeys {
		if o[key] == nil {
			continue
		}
		text, ok := o.text(key)
		text = strings.TrimPrefix(stripColour(text), " ")
		if !ok || !hasHeader(text) || e.Text != "" {
			return envelope{}, false // two lines are one too many
		}
		e.Text = text
	}
	e.whole = true
	return e, e.Text != ""
}
