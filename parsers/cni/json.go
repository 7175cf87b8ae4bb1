package cni

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth is how deep a JSON text may nest. The recorded files of libcni nest four
// deep, capability arguments may add some; encoding/json stops at 10,000.
const maxJSONDepth = 64

// jsonScan walks one JSON text in place: it checks the whole grammar (RFC 8259, as
// encoding/json does) and copies nothing. encoding/json takes three times as long for an
// ordinary cache file, with 30 allocations for 4 (BenchmarkCache), and hides what
// counts here: of keys that come twice it takes the last, and keys that differ in case
// it takes for the same.
type jsonScan struct {
	data  []byte
	at    int
	depth int
	// deep says that the scan ended since the text nests deeper than maxJSONDepth:
	// whether the rest is JSON is not known.
	deep bool
}

// jsonText marks the bytes that stand for themselves within a string. Those that are no
// UTF-8 do, as encoding/json has it.
var jsonText = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// all walks a text that is one value: its members where it is an object, and nothing
// but white space after it. It reports whether the text is JSON.
func (s *jsonScan) all(member func(key []byte) bool) bool {
	if s.peek() == '{' {
		return s.object(member) && s.end()
	}
	return s.value() && s.end()
}

// end reports whether nothing but white space is left.
func (s *jsonScan) end() bool {
	s.peek()
	return s.at == len(s.data)
}

// peek steps over white space and returns the byte that is next, 0 at the end.
func (s *jsonScan) peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// eat steps over c, where it is next.
func (s *jsonScan) eat(c byte) bool {
	if s.peek() != c || s.at == len(s.data) {
		return false
	}
	s.at++
	return true
}

// value steps over one value, whatever it is.
func (s *jsonScan) value() bool {
	switch s.peek() {
	case '{':
		return s.object(nil)
	case '[':
		return s.array(nil)
	case '"':
		_, ok := s.text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// object walks an object. member is called with each key, quotes and escapes included,
// and steps over its value; nil steps over all of them.
func (s *jsonScan) object(member func(key []byte) bool) bool {
	if !s.enter('{') {
		return false
	}
	for first := true; ; first = false {
		if first && s.eat('}') {
			break
		}
		key, ok := s.text()
		if !ok || !s.eat(':') {
			return false
		}
		if member == nil {
			ok = s.value()
		} else {
			s.peek()
			ok = member(key)
		}
		if !ok {
			return false
		}
		if s.eat(',') {
			continue
		}
		if !s.eat('}') {
			return false
		}
		break
	}
	s.depth--
	return true
}

// array walks an array. element is called for each element and steps over it.
func (s *jsonScan) array(element func() bool) bool {
	if !s.enter('[') {
		return false
	}
	for first := true; ; first = false {
		if first && s.eat(']') {
			break
		}
		var ok bool
		if element == nil {
			ok = s.value()
		} else {
			s.peek()
			ok = element()
		}
		if !ok {
			return false
		}
		if s.eat(',') {
			continue
		}
		if !s.eat(']') {
			return false
		}
		break
	}
	s.depth--
	return true
}

func (s *jsonScan) enter(bracket byte) bool {
	if !s.eat(bracket) {
		return false
	}
	if s.depth == maxJSONDepth {
		s.deep = true
		return false
	}
	s.depth++
	return true
}

// text steps over a string and returns it as it stands, quotes and escapes included.
func (s *jsonScan) text() ([]byte, bool) {
	if !s.eat('"') {
		return nil, false
	}
	data, start, i := s.data, s.at-1, s.at
	for {
		for i < len(data) && jsonText[data[i]] {
			i++
		}
		switch {
		case i == len(data):
			return nil, false
		case data[i] == '"':
			s.at = i + 1
			return data[start:s.at], true
		case data[i] != '\\':
			return nil, false
		}
		n := escapeLen(data[i:])
		if n == 0 {
			return nil, false
		}
		i += n
	}
}

// escapeLen returns the length of the escape that b starts with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (s *jsonScan) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// number steps over -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *jsonScan) number() bool {
	s.any("-")
	if !s.any("0") && s.digits() == 0 {
		return false
	}
	if s.any(".") && s.digits() == 0 {
		return false
	}
	if s.any("eE") {
		s.any("+-")
		return s.digits() > 0
	}
	return true
}

// any steps over one byte, where it is one of set.
func (s *jsonScan) any(set string) bool {
	if s.at == len(s.data) || strings.IndexByte(set, s.data[s.at]) < 0 {
		return false
	}
	s.at++
	return true
}

func (s *jsonScan) digits() int {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

// plainText returns what lies between the quotes of lit where it stands for itself, and
// false where it has escapes or is no UTF-8.
func plainText(lit []byte) ([]byte, bool) {
	in := lit[1 : len(lit)-1]
	return in, bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in)
}

// decodeText returns what lit stands for. Bytes that are no UTF-8, for which
// encoding/json puts U+FFFD without a word, make it none.
func decodeText(lit []byte) (string, bool) {
	if in, ok := plainText(lit); ok {
		return string(in), true
	}
	var text string
	if !utf8.Valid(lit) || json.Unmarshal(lit, &text) != nil {
		return "", false
	}
	return text, true
}
