package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	commandEnd = regexp.MustCompile(`[|;]|&&| #`)
)

// docPages returns the pages for users.
func docPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"../../docs/*.md", "../../*.md"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		pages = append(pages, found...)
	}
	return pages
}

// docCalls returns the calls of the program in the pages' code, without its name, and the command of each.
func docCalls(t *testing.T) map[string]string {
	t.Helper()
	calls := map[string]string{}
	for _, page := range docPages(t) {
		text, err := os.ReadFile(page)
		must(t, err)
		code := codeBlock.FindAllStringSubmatch(string(text), -1)
		code = append(code, codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1)...)
		for _, m := range code {
			for part := range strings.Lines(commandEnd.ReplaceAllString(m[1], "\n")) {
				args := strings.Fields(strings.TrimPrefix(strings.TrimSpace(part), "./"))
				if len(args) < 2 || args[0] != "orphan-reaper" {
					continue
				}
				root := newRoot(&app{in: strings.NewReader(""), out: io.Discard, stderr: io.Discard})
				cmd, rest, err := root.Find(args[1:])
				if err == nil {
					if err = cmd.ParseFlags(rest); err == nil {
						err = cmd.ValidateArgs(cmd.Flags().Args())
					}
				}
				if err != nil {
					t.Errorf("%s: %s: %v", page, strings.Join(args, " "), err)
					continue
				}
				calls[strings.Join(args[1:], " ")] = strings.TrimPrefix(cmd.CommandPath(), "orphan-reaper ")
			}
		}
	}
	return calls
}

// TestDocs: the program accepts each of its calls in the pages. Those that need nothing but a node with orphans are run on one, in
// the order of an operator, and each that names a pod has a pod of its own.
func TestDocs(t *testing.T) {
	t.Parallel()
	calls := docCalls(t)
	order := []string{
		"version", "config check", "scan", "explain", "doctor", "unmount", "sweep", "quarantine list", "quarantine restore", "quarantine purge",
		"quarantine resume",
	}
	var run []string
	for _, command := range order {
		var some []string
		for call, of := range maps.All(calls) {
			if of == command {
				some = append(some, call)
			}
		}
		if len(some) == 0 {
			t.Errorf("no page has a call of %s", command)
		}
		slices.SortFunc(some, func(a, b string) int { return strings.Compare(b, a) }) // the whole sweep is the last one
		run = append(run, some...)
	}

	pod := func(i int) string { return fmt.Sprintf("0badf00d-%04d-4aaa-8bbb-cccc00000001", i) }
	var pods strings.Builder
	pods.WriteString("front " + living + " living\n") // a runtime without a pod shows nothing
	for i, call := range run {
		state := "dead csi-data"
		if calls[call] == "unmount" {
			state = "dead csi mount" // no teardown is tried, whose errors make a report doubtful
		}
		fmt.Fprintf(&pods, "pod-%d %s %s\n", i, pod(i), state)
	}
	s := newShell(t, pods.String())
	s.sh("echo kubelet v 5 >>$NODE_CTL; echo")
	for i, call := range run {
		flags := ""
		switch calls[call] {
		case "sweep":
			flags = " --hold=1s --confirm=1s"
		case "unmount":
			flags = " --yes" // there is no terminal to ask at
		}
		if stdout, stderr, code := s.run(strings.ReplaceAll(call, "UID", pod(i)) + flags); code != 0 && code != codeOperator {
			t.Errorf("%s: exit %d\n%s%s", call, code, stdout, stderr)
		}
	}
}
