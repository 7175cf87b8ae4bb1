package parsers

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object has the keys of one JSON object with their unparsed values.
type object map[string]json.RawMessage

var errNotObject = errors.New("not one JSON object with different keys")

// parseObject parses s as one object. It rejects a duplicate key, since readers differ in which of the two counts.
func parseObject(s string) (object, error) {
	dec := json.NewDecoder(strings.NewReader(s))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	o := object{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if _, twice := o[key]; !ok || twice {
			return nil, errNotObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if strings.TrimSpace(s[dec.InputOffset():]) != "" {
		return nil, errNotObject
	}
	return o, nil
}

// text returns a string value, and false if key is absent or not a string.
func (o object) text(key string) (string, bool) {
	raw, ok := o[key]
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// unwrapJSON distinguishes the JSON transports by their keys:
//
//	{"ts":…,"caller":…,"msg":…}                              klog's own format
//	{"__REALTIME_TIMESTAMP":…,"_SYSTEMD_UNIT":…,"MESSAGE":…} journalctl -o json
//	{"jsonPayload":{"MESSAGE":…,"_SYSTEMD_UNIT":…},…}        Google Cloud's and fluentd's wrapper of it
//	{"log":"…\n","stream":"stderr","time":…}                 Docker's json-file driver
func (p *Parser) unwrapJSON(s string) (envelope, bool) {
	if !strings.HasPrefix(s, "{") {
		return envelope{}, false
	}
	o, err := parseObject(s)
	if err != nil {
		return envelope{}, false
	}
	switch {
	case o["MESSAGE"] != nil:
		return p.journalObject(o, transportJSON)
	case o["jsonPayload"] != nil:
		inner, err := parseObject(string(o["jsonPayload"]))
		if err != nil {
			return envelope{}, false
		}
		return p.journalObject(inner, transportGCP)
	case o["log"] != nil && o.only("log", "stream", "time", "attrs"):
		return dockerObject(o)
	case o["msg"] != nil && o["ts"] != nil:
		return envelope{Text: s}, true
	}
	return envelope{}, false
}

// only reports whether an object has only these keys.
func (o object) only(keys ...string) bool {
	for key := range o {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

// dockerObject parses one record of Docker's json-file driver.
func dockerObject(o object) (envelope, bool) {
	e := envelope{Transport: transportDocker, whole: true}
	stream, _ := o.text("stream")
	text, ok := o.text("log")
	if stream != "stderr" || !ok {
		return envelope{}, false
	}
	e.Text = text
	if stamp, ok := o.text("time"); ok {
		e.Time, _ = parseISO(stamp)
	}
	return e, true
}

// journalObject parses a journal entry in JSON. It rejects an entry whose trusted fields are not a kubelet's.
func (p *Parser) journalObject(o object, transport string) (envelope, bool) {
	var unit, comm, uid string
	for key, to := range map[string]*string{"_SYSTEMD_UNIT": &unit, "_COMM": &comm, "_UID": &uid} {
		if o[key] == nil {
			continue
		}
		var ok bool
		if *to, ok = o.text(key); !ok {
			return envelope{}, false
		}
	}
	if !p.trusts(unit, comm, uid) && !o.onlyMessage() {
		return envelope{}, false
	}
	text, ok := o.text("MESSAGE")
	if !ok {
		if text, ok = byteArray(o["MESSAGE"]); !ok {
			return envelope{}, false
		}
	}
	e := envelope{Transport: transport, Text: stripColour(text), whole: true}
	e.Program, _ = o.text("SYSLOG_IDENTIFIER")
	if pid, ok := o.text("_PID"); ok {
		e.PID, _ = number(pid)
	}
	if stamp, ok := o.text("__REALTIME_TIMESTAMP"); ok {
		e.Time, _ = micros(stamp)
	}
	return e, true
}

// onlyMessage reports whether an entry was printed with --output-fields=MESSAGE: it has only MESSAGE and the fields that
// journalctl always prints. Such a line is worth as much as one of -o cat: no program can remove the fields of an entry.
func (o object) onlyMessage() bool {
	for key := range o {
		if key != "MESSAGE" && !alwaysPrinted(key) {
			return false
		}
	}
	return o["__CURSOR"] != nil
}

// alwaysPrinted reports whether journalctl prints a field for all --output-fields: address fields, which start with two
// underscores, and _BOOT_ID (journalctl(1)).
func alwaysPrinted(key string) bool { return strings.HasPrefix(key, "__") || key == "_BOOT_ID" }

// byteArray parses a MESSAGE that journalctl prints as numbers because it is not UTF-8 or not printable.
func byteArray(raw json.RawMessage) (string, bool) {
	var numbers []uint8Number
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &numbers) != nil {
		return "", false
	}
	b := make([]byte, len(numbers))
	for i, n := range numbers {
		b[i] = byte(n)
	}
	return string(b), true
}

// uint8Number makes encoding/json parse an array of numbers; for []byte it expects base64.
type uint8Number uint8

// micros parses microseconds since 1970.
func micros(s string) (time.Time, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, false
	}
	return time.UnixMicro(n).UTC(), true
}

// klogJSON parses klog's JSON format (component-base, 1.19 and newer):
//
//	{"ts":1795221215791.6343,"caller":"kubelet/kubelet_volumes.go:263","msg":"…","numErrs":3,"err":"…"}
//
// ts is milliseconds since 1970. It reads only msg, err, numErrs, podUID, and path for display and contradictions.
func (e *envelope) klogJSON(s string) (call, bool) {
	o, err := parseObject(s)
	if err != nil {
		return call{}, false
	}
	var ts float64
	if o["ts"] == nil || json.Unmarshal(o["ts"], &ts) != nil {
		return call{}, false
	}
	c := call{Structured: true, JSON: true}
	var ok bool
	if c.File, ok = o.callerFile(); !ok {
		return call{}, false
	}
	if c.Msg, ok = o.text("msg"); !ok {
		return call{}, false
	}
	c.Msg = strings.TrimRight(c.Msg, "\n") // klog's 1.19 and 1.20 keep the newline of a formatted message
	for _, key := range [...]string{"err", "podUID", "path"} {
		if v, ok := o.text(key); ok {
			c.Fields = append(c.Fields, field{Key: key, Value: v})
		} else if o[key] != nil {
			return call{}, false
		}
	}
	if n := o["numErrs"]; n != nil {
		c.Fields = append(c.Fields, field{Key: "numErrs", Value: string(n)})
	}
	if e.Transport == "" {
		e.Transport = transportKlogJSON
	}
	if ts > 1e11 && ts < 1e14 && e.Time.IsZero() {
		e.Time = time.UnixMicro(int64(ts * 1000)).UTC()
	}
	return c, true
}

// callerFile returns the source file of a klog object. 1.19 and 1.20 wrote no caller: such an object may have only
// klog's own keys.
func (o object) callerFile() (string, bool) {
	if o["caller"] != nil {
		caller, _ := o.text("caller")
		return sourceFile(caller)
	}
	return "", o.only("ts", "v", "msg", "err", "numErrs")
}
