package parse

import (
	"bytes"
	"encoding/json"
	"iter"
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

// parts gives the members of an object, where open is a brace, or the elements of an array, where
// open is a bracket, without names; of any other value nothing. lit is valid JSON without white
// space around it. encoding/json would keep the last of members that come twice, without a word.
func parts(lit []byte, open byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if len(lit) == 0 || lit[0] != open {
			return
		}
		name, start, depth := []byte(nil), 1, 1
		for i := 1; i < len(lit); i++ {
			switch c := lit[i]; c {
			case '"':
				for i++; i < len(lit) && lit[i] != '"'; i++ {
					if lit[i] == '\\' {
						i++
					}
				}
			case '[', '{':
				depth++
			case ':':
				if depth == 1 {
					name, _ = decode(bytes.TrimSpace(lit[start:i]))
					start = i + 1
				}
			case ',', ']', '}':
				if depth == 1 {
					value := bytes.TrimSpace(lit[start:i])
					if len(value) == 0 || !yield(name, value) {
						return // the object or array is empty
					}
					start = i + 1
				}
				if c != ',' {
					depth--
				}
			}
		}
	}
}

// sameText reports whether two literals stand for the same.
func sameText(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	left, ok := decode(a)
	right, also := decode(b)
	return ok && also && bytes.Equal(left, right)
}

// plainText returns what lies between the quotes of lit where it stands for itself, and
// false where it has escapes or is no UTF-8.
func plainText(lit []byte) ([]byte, bool) {
	in := lit[1 : len(lit)-1]
	return in, bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in)
}

// decode returns the string that lit stands for. Bytes that are no UTF-8, for which
// encoding/json puts U+FFFD without a word, make it none.
func decode(lit []byte) ([]byte, bool) {
	if len(lit) == 0 || lit[0] != '"' {
		return nil, false
	}
	if in, ok := plainText(lit); ok {
		return in, true
	}
	var text string
	if !utf8.Valid(lit) || json.Unmarshal(lit, &text) != nil {
		return nil, false
	}
	return []byte(text), true
}
