package trace

import (
	"regexp"
	"strings"
	"testing"
)

const (
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
	someParent = "b7ad6b7169203331"
)

func TestParseParent(t *testing.T) {
	good := "00-" + someTrace + "-" + someParent
	for header, want := range map[string]bool{
		good + "-01":                  true,
		good + "-ff":                  true,
		good + "-00":                  false, // not recorded
		good + "-02":                  false, // random, not recorded
		good + "-01-":                 false, // version 00 has no more
		good + "-01-more":             false,
		"cc" + good[2:] + "-01-more":  true, // a later version may
		"cc" + good[2:] + "-01":       true,
		"cc" + good[2:] + "-01.more":  false,
		"ff" + good[2:] + "-01":       false,
		strings.ToUpper(good) + "-01": false,
		good + "-1":                   false,
		good + "-0g":                  false,
		" " + good + "-01":            false,
		good + "-01 ":                 false,
		strings.Replace(good, "-", "_", 1) + "-01":                 false,
		"00-" + strings.Repeat("0", 32) + "-" + someParent + "-01": false,
		"00-" + someTrace + "-" + strings.Repeat("0", 16) + "-01":  false,
		"00-" + someTrace[:31] + "-" + someParent + "-010":         false,
		"cc" + good[2:] + "-01-" + strings.Repeat("a", 1000):       false,
		"": false,
	} {
		p, ok := parseParent(header)
		if ok != want || ok && p != (parent{someTrace, someParent}) {
			t.Errorf("%q: %+v, %v", header, p, ok)
		}
	}
}

// FuzzParseParent: what is taken can be written into a request as it is.
func FuzzParseParent(f *testing.F) {
	for _, header := range []string{"", "00-" + someTrace + "-" + someParent + "-01", "cc-" + someTrace + "-" + someParent + "-01-x"} {
		f.Add(header)
	}
	trace, span := regexp.MustCompile(`^[0-9a-f]{32}$`), regexp.MustCompile(`^[0-9a-f]{16}$`)
	f.Fuzz(func(t *testing.T, header string) {
		p, ok := parseParent(header)
		if ok && (!trace.MatchString(p.traceID) || !span.MatchString(p.spanID) || strings.Trim(p.traceID, "0") == "" || strings.Trim(p.spanID, "0") == "" ||
			!strings.Contains(header, "-"+p.traceID+"-"+p.spanID+"-")) {
			t.Errorf("%q: %+v", header, p)
		}
	})
}
