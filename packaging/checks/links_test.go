package checks

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// tree holds the targets of links: the files of the repository, and the headings of its pages.
type tree map[string]string // by path from the top; the content of what is not Markdown is left out

var (
	// A link in Markdown, [words](target), and its target without a title.
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)`)
	// A page of ours that a comment, a message, a rule or a template names.
	namedPage = regexp.MustCompile(`\b((?:docs/)?[a-zA-Z-]+\.md)(?:#([a-z0-9_-]+))?`)
	fence     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
)

// anchors are the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		title := strings.TrimLeft(line, "#")
		if level := len(line) - len(title); level == 0 || level > 6 || !strings.HasPrefix(title, " ") {
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
		}, strings.TrimSpace(markdownLink.ReplaceAllString(title, "]")))
		for n, first := 1, slug; all[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", first, n)
		}
		all[slug] = true
	}
	return all
}

// dead returns what is wrong with a link from a page to a target, which may have an anchor, or "".
func (files tree) dead(page, target string) string {
	name, anchor, _ := strings.Cut(target, "#")
	to := page
	if name != "" {
		to = path.Join(path.Dir(page), name)
	}
	text, isFile := files[to]
	if !isFile {
		return fmt.Sprintf("%s links to %s, which is not there", page, target)
	}
	if anchor != "" && !anchors(text)[anchor] {
		return fmt.Sprintf("%s links to %s, which has no such heading", page, target)
	}
	return ""
}

// markdownFaults are the links of a page that lead nowhere.
func (files tree) markdownFaults(page string) (faults []string) {
	text := codeSpan.ReplaceAllString(fence.ReplaceAllString(files[page], ""), "")
	for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
		if u, err := url.Parse(m[1]); err == nil && u.Scheme != "" {
			continue // another place's
		}
		if fault := files.dead(page, m[1]); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

// mentionFaults are the pages and headings of ours that another file names, and that are not there. A name
// without docs/ may be any project's page; with an anchor it is ours where we have such a page.
func (files tree) mentionFaults(file, text string) (faults []string) {
	for _, m := range namedPage.FindAllStringSubmatch(text, -1) {
		name, anchor := m[1], m[2]
		if _, ours := files["docs/"+name]; ours {
			name = "docs/" + name
		}
		if _, there := files[name]; !there && !strings.HasPrefix(name, "docs/") {
			continue
		}
		target := name
		if anchor != "" {
			target += "#" + anchor
		}
		if fault := files.dead("./", target); fault != "" {
			faults = append(faults, file+fault[len("./"):])
		}
	}
	return faults
}

// readTree reads the repository: what git would not have is left out by its place.
func readTree(t *testing.T, mention func(file, text string)) tree {
	t.Helper()
	files := tree{".": ""}
	top := "../.."
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files[rel] = ""
			if slices.Contains([]string{".git", ".cache", "dist", "bin"}, rel) {
				return fs.SkipDir
			}
			return nil
		}
		files[rel] = ""
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return err
		}
		if path.Ext(rel) != ".md" && mention == nil {
			return nil
		}
		b, err := os.ReadFile(name)
		if path.Ext(rel) == ".md" {
			files[rel] = string(b)
		} else if mention != nil {
			mention(rel, string(b))
		}
		return err
	})
	testkit.Must(t, err)
	return files
}

// TestLinks: each link of each page leads to an existing file and heading, and so does each reference to a page
// in code, rules, templates and man pages.
func TestLinks(t *testing.T) {
	others := map[string]string{}
	files := readTree(t, func(file, text string) { others[file] = text })
	pages := 0
	for file := range files {
		if path.Ext(file) != ".md" {
			continue
		}
		pages++
		for _, fault := range files.markdownFaults(file) {
			t.Error(fault)
		}
	}
	for file, text := range others {
		for _, fault := range files.mentionFaults(file, text) {
			t.Error(fault)
		}
	}
	if pages < 20 || len(others) < 500 {
		t.Errorf("%d pages and %d other files were read", pages, len(others))
	}
}

var makeCall = regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)")

// TestMakeTargets: the Makefile has each target that a page names.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	testkit.Must(t, err)
	named := 0
	for page, text := range readTree(t, nil) {
		if path.Ext(page) != ".md" || page == "CHANGELOG.md" {
			continue
		}
		for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
			named++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:|^\.PHONY:.* ` + m[1] + `\b`).Match(makefile) {
				t.Errorf("%s: make has no %s", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d make targets were found", named)
	}
}

var testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)

// TestNamedTests: each test that a page names exists, by its whole name or as the beginning of several.
func TestNamedTests(t *testing.T) {
	var code strings.Builder
	pages := readTree(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") {
			code.WriteString(text)
		}
	})
	for page, text := range pages {
		for _, name := range testName.FindAllString(text, -1) {
			if !strings.Contains(code.String(), "func "+name) {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
}
