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

// unwrapJSON parses the two JSON forms:
//
//	{"ts":…,"caller":…,"msg":…}                              klog's own format
//	{"__REALTIME_TIMESTAMP":…,"_SYSTEMD_UNIT":…,"MESSAGE":…} journalctl -o json
func unwrapJSON(s string) (envelope, bool) {
	if !strings.HasPrefix(s, "{") {
		return envelope{}, false
	}
	o, err := parseObject(s)
	switch {
	case err != nil:
		return envelope{}, false
	case o["MESSAGE"] != nil:
		return journalObject(o)
	case o["msg"] != nil && o["ts"] != nil:
		return envelope{text: s}, true
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

// journalObject parses a journal entry in JSON.
func journalObject(o object) (envelope, bool) {
	text, ok := o.text("MESSAGE")
	if !ok {
		return envelope{}, false
	}
	e := envelope{text: stripColour(text), journal: &Journal{}}
	for key, to := range map[string]*string{
		"_SYSTEMD_UNIT": &e.journal.Unit, "_UID": &e.journal.UID, "_BOOT_ID": &e.journal.BootID,
		"_STREAM_ID": &e.journal.StreamID, "PRIORITY": &e.journal.Priority, "MESSAGE_ID": &e.journal.MessageID, "_TRANSPORT": &e.journal.Transport,
		"_LINE_BREAK": &e.journal.LineBreak, "SYSLOG_IDENTIFIER": &e.program,
	} {
		if o[key] == nil {
			continue
		}
		if *to, ok = o.text(key); !ok {
			return envelope{}, false
		}
	}
	if pid, ok := o.text("_PID"); ok {
		e.journal.PID, _ = number(pid)
	}
	if stamp, ok := o.text("__REALTIME_TIMESTAMP"); ok {
		e.journal.Time, _ = micros(stamp)
	}
	return e, true
}

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
func klogJSON(s string) (call, bool) {
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
	if ts > 1e11 && ts < 1e14 {
		c.Time = time.UnixMicro(int64(ts * 1000)).UTC()
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
