package parsers

import (
	"strconv"
	"strings"
	"time"
)

// call is one klog call, which klog printed as text or as JSON.
type call struct {
	File       string // the kubelet's source file, such as "kubelet_volumes.go"; "" for a fragment without one
	PID        int    // of klog's header, or 0
	Time       time.Time
	Msg        string
	Structured bool // Msg is a constant, and the variable parts are in Fields
	JSON       bool
	Fields     []field
}

type field struct {
	Key, Value string
	Cut        bool // the line ends inside the value
}

// get returns the field with the key, and false if the key occurs twice, which the kubelet never writes.
func (c *call) get(key string) (f field, ok bool) {
	for _, x := range c.Fields {
		if x.Key != key {
			continue
		}
		if ok {
			return field{}, false
		}
		f, ok = x, true
	}
	return f, ok
}

// has reports whether there is a field with the key.
func (c *call) has(key string) bool {
	for _, x := range c.Fields {
		if x.Key == key {
			return true
		}
	}
	return false
}

// textCall parses the message part of a klog text line. A structured call has this form, and everything else is a
// formatted message:
//
//	"Constant message" err="quoted by Go" podUID="…" path="…" numErrs=2
func textCall(file, msg string) (call, bool) {
	c := call{File: file, Msg: msg}
	if !strings.HasPrefix(msg, `"`) {
		return c, true
	}
	quoted, rest, cut := cutQuoted(msg)
	text, err := strconv.Unquote(quoted)
	if cut || err != nil {
		return call{}, false
	}
	c.Msg, c.Structured = text, true
	c.Fields, err = textFields(rest)
	return c, err == nil
}

// textFields parses the " key=value" pairs of a structured line. A value is quoted by Go, or ends at the next space.
// Anything else is an error, including klog's block for a value with a newline ("err=<"), since no volume's name has a
// newline.
func textFields(s string) ([]field, error) {
	var fields []field
	for {
		s = strings.TrimRight(s, " ")
		if s == "" {
			return fields, nil
		}
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			if isCutKey(key) {
				return fields, nil
			}
			return nil, strconv.ErrSyntax
		}
		if !strings.HasPrefix(key, " ") || !isKey(key[1:]) {
			return nil, strconv.ErrSyntax
		}
		f := field{Key: key[1:]}
		var err error
		if f, s, err = cutValue(f, rest); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
}

// cutValue removes one value from the front of s.
func cutValue(f field, s string) (field, string, error) {
	switch {
	case strings.HasPrefix(s, `"`):
		quoted, rest, cut := cutQuoted(s)
		if cut {
			f.Value, f.Cut = unquotePart(quoted), true
			return f, "", nil
		}
		text, err := strconv.Unquote(quoted)
		f.Value = text
		return f, rest, err
	default:
		end := strings.IndexByte(s, ' ')
		if end < 0 {
			end = len(s)
		}
		f.Value = s[:end]
		return f, s[end:], nil
	}
}

// cutQuoted splits s, which starts with a quote, after its closing quote. cut reports that there is none.
func cutQuoted(s string) (quoted, rest string, cut bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], s[i+1:], false
		}
	}
	return s, "", true
}

// unquotePart unquotes a string without its end, up to the last complete escape.
func unquotePart(quoted string) string {
	var b strings.Builder
	for s := quoted[1:]; s != ""; {
		r, multi, tail, err := strconv.UnquoteChar(s, '"')
		if err != nil {
			break
		}
		if r < 0x80 || multi {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		s = tail
	}
	return b.String()
}

func isKey(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] != '_' && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return true
}

// isCutKey reports whether s is a truncated " key", or a pager's mark of a cut.
func isCutKey(s string) bool {
	s, ok := strings.CutPrefix(s, " ")
	s = trimCutMark(s)
	return (ok && (s == "" || isKey(s))) || s == ""
}

// trimCutMark removes the mark that a pager (">") or systemctl ("…", "...") adds to a truncated line.
func trimCutMark(s string) string {
	for _, mark := range [...]string{">", "…", "..."} {
		if t, ok := strings.CutSuffix(s, mark); ok {
			return t
		}
	}
	return s
}
