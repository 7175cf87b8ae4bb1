package checks

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// most is how many words each page may have. The reference is generated.
var most = map[string]int{
	"README.md": 900, "SECURITY.md": 600, "CONTRIBUTING.md": 900, "CHANGELOG.md": 200, "docs/install.md": 1400, "docs/operate.md": 1400,
	"docs/how-it-decides.md": 1500, "docs/measured.md": 1200, "docs/reference.md": 10_000,
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fences = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inCode = regexp.MustCompile("`([^`\n]+)`")
	// ours matches a path of this repository.
	ours = regexp.MustCompile(`^(?:parsers|reaper|cmd|packaging|testdata|e2e)(?:/[\w.*-]+)+$`)
	// target matches a call of make.
	target = regexp.MustCompile("(?m)(?:`|^|&& )make ((?:[a-z][a-z0-9-]*(?: |\\b))+)")
)

// place returns where the file of a page's path is.
func place(name string) string { return path.Join("../..", name) }

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(place(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// anchors are the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(fences.ReplaceAllString(text, "")) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		for n, first := 1, slug; all[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", first, n)
		}
		all[slug] = true
	}
	return all
}

// words counts what has a letter or digit: no drawing, and no border of a table.
func words(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// TestDocs: each page has at most its words, and each link, path and make target in it exists.
func TestDocs(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	links, paths, targets := 0, 0, 0
	for name, limit := range most {
		text := page(t, name)
		if n := words(text); n > limit {
			t.Errorf("%s has %d words, and may have %d", name, n, limit)
		}
		for _, m := range link.FindAllStringSubmatch(inCode.ReplaceAllString(fences.ReplaceAllString(text, ""), ""), -1) {
			links++
			checkLink(t, name, m[1])
		}
		for _, m := range inCode.FindAllStringSubmatch(text, -1) {
			if word := strings.TrimSuffix(m[1], "/..."); ours.MatchString(word) && !strings.Contains(word, "*") {
				paths++
				if _, err := os.Stat(place(word)); err != nil {
					t.Errorf("%s names a path that does not exist: %v", name, err)
				}
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			for one := range strings.FieldsSeq(m[1]) {
				targets++
				if !regexp.MustCompile(`(?m)^` + one + `:`).Match(makefile) {
					t.Errorf("%s: make has no target %s", name, one)
				}
			}
		}
	}
	if links < 50 || paths < 10 || targets < 10 {
		t.Errorf("only %d links, %d paths and %d targets were found", links, paths, targets)
	}
}

// checkLink checks a link of a page.
func checkLink(t *testing.T, from, to string) {
	t.Helper()
	if u, err := url.Parse(to); err == nil && u.Scheme != "" {
		return
	}
	name, anchor, _ := strings.Cut(to, "#")
	file := from
	if name != "" {
		file = path.Join(path.Dir(from), name)
	}
	b, err := os.ReadFile(place(file))
	if err != nil {
		t.Errorf("%s has a link to %s: %v", from, to, err)
	} else if anchor != "" && !anchors(string(b))[anchor] {
		t.Errorf("%s has a link to %s, and that page has no such heading", from, to)
	}
}

// TestDependencies: CONTRIBUTING.md has the reason for each direct dependency.
func TestDependencies(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(page(t, "CONTRIBUTING.md"), "## Why each dependency")
	direct, _, _ := strings.Cut(string(mod), "// indirect")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(direct, -1) {
		if !strings.Contains(table, "`"+m[1]+"`") {
			t.Errorf("CONTRIBUTING.md has no reason for %s", m[1])
		}
	}
}
