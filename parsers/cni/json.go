package cni

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxJSONDepth is how deep a JSON text may nest. The recorded files of libcni nest four
// deep, capability arguments may add some; encoding/json stops at 10,000.
const maxJSONDepth = 64

// tooDeep reports whether the text nests deeper than maxJSONDepth.
func tooDeep(content []byte) bool {
	if bytes.Count(content, []byte("["))+bytes.Count(content, []byte("{")) <= maxJSONDepth {
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[', c == '{':
			if depth++; depth > maxJSONDepth {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}

// sameText reports whether two literals stand for the same.
func sameText(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	left, ok := decodeText(a)
	right, also := decodeText(b)
	return ok && also && left == right
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
