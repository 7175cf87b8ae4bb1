package trace

import "strings"

// parent is a span of somebody else's, under which a look is shown.
type parent struct{ traceID, spanID string }

// parseParent reads a header traceparent (www.w3.org/TR/trace-context, 3.2): version, trace, span and
// flags, in lower-case hex. A later version may have more behind a further dash.
//
// It is false as well where the client says that it does not record the trace: a look under a span that
// nobody has would be found by nobody.
func parseParent(header string) (parent, bool) {
	const size, flagsAt = 55, 53
	if len(header) < size || len(header) > 256 || len(header) > size && (header[:2] == "00" || header[size] != '-') {
		return parent{}, false
	}
	fields := strings.Split(header[:size], "-")
	if len(fields) != 4 || len(fields[0]) != 2 || len(fields[1]) != 32 || len(fields[2]) != 16 {
		return parent{}, false
	}
	for _, f := range fields {
		if strings.Trim(f, "0123456789abcdef") != "" {
			return parent{}, false
		}
	}
	if fields[0] == "ff" || strings.Trim(fields[1], "0") == "" || strings.Trim(fields[2], "0") == "" {
		return parent{}, false
	}
	sampled := strings.IndexByte("13579bdf", header[flagsAt+1]) >= 0
	return parent{traceID: fields[1], spanID: fields[2]}, sampled
}
