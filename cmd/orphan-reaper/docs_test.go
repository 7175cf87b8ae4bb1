package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// docPages returns the documents for users, by path from the top.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{
		"docs/*.md", "README.md", "SECURITY.md", "packaging/tarball.md", "packaging/man/*", "packaging/config.yaml", "packaging/orphan-reaper.catalog",
	} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			testkit.Must(t, err)
			pages[strings.TrimPrefix(file, "../../")] = strings.ReplaceAll(string(b), `\-`, "-") // roff's hyphens
		}
	}
	return pages
}

var (
	codeFence  = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?)^ *```$")
	codeWord   = regexp.MustCompile("`([^`\n]+)`")
	longFlag   = regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z0-9.-]*[a-z0-9])`)
	calledWith = regexp.MustCompile(`^[a-z]+( [a-z]+)? (-|[A-Z]+$|[A-Z]+ -)`)
	commandEnd = regexp.MustCompile(`&&|\|\||[|;]`)
)

// docCode returns the text in code font: the lines of a page's blocks, and the spans in its sentences. In a
// page that is not Markdown, every line is checked.
func docCode(page, text string) (lines, words []string) {
	if filepath.Ext(page) != ".md" {
		return nil, []string{text}
	}
	for _, m := range codeFence.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(m[3], "\\\n", ""), "\n")...)
	}
	for _, m := range codeWord.FindAllStringSubmatch(codeFence.ReplaceAllString(text, ""), -1) {
		words = append(words, m[1])
	}
	return lines, words
}

// foreignFlags are the flags of other programs that pages name apart from their commands.
var foreignFlags = map[string]string{
	"collector.textfile.directory": "the node exporter",
	"disabled-metrics":             "the kubelet", "logging-format": "the kubelet", "set": "helm", "show-only": "helm",
	"limit": "ansible-playbook", "id": "logger", "mount": "unshare", "update-catalog": "journalctl",
	"since": "journalctl", "nosignature": "rpm",
}

// commandFaults parses our commands in code, and returns those that no command accepts.
func commandFaults(root *cobra.Command, code string) (faults []string) {
	code, _, _ = strings.Cut(code, " #")
	top := func(name string) bool {
		return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	}
	for _, part := range commandEnd.Split(code, -1) {
		words := strings.Fields(part)
		if len(words) > 0 && slices.Contains([]string{"sudo", "$", "#", "-"}, words[0]) {
			words = words[1:]
		}
		if i := slices.Index(words, "/orphan-reaper"); i > 0 {
			words = words[i:] // kubectl exec POD -- /orphan-reaper
		}
		switch {
		case len(words) == 0:
			continue
		case len(words) > 1 && filepath.Base(words[0]) == "orphan-reaper" && regexp.MustCompile(`^[a-z-]+$`).MatchString(words[1]):
			faults = append(faults, callFaults(root, words[1:])...)
		case len(words) > 1 && top(words[0]) && calledWith.MatchString(part):
			faults = append(faults, callFaults(root, words)...)
		case strings.HasPrefix(words[0], "--"):
			for _, m := range longFlag.FindAllStringSubmatch(part, -1) {
				if !anyFlag(root, m[1]) && foreignFlags[m[1]] == "" {
					faults = append(faults, "no command has --"+m[1])
				}
			}
		}
	}
	return faults
}

func anyFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil || name == "help" || name == "version" ||
		slices.ContainsFunc(c.Commands(), func(c *cobra.Command) bool { return anyFlag(c, name) })
}

// callFaults returns the arguments that a command does not accept.
func callFaults(root *cobra.Command, words []string) []string {
	call := "orphan-reaper " + strings.Join(words, " ")
	c, _, err := root.Find(words)
	if err != nil || c == root {
		return []string{"no command: " + call}
	}
	if c.HasSubCommands() {
		if depth := strings.Count(c.CommandPath(), " "); len(words) > depth && !strings.Contains(words[depth], "…") {
			return []string{"no command: " + call}
		}
	}
	var faults []string
	known := func(f *pflag.Flag) bool { return f != nil }
	for _, word := range words {
		name, isLong := strings.CutPrefix(strings.Trim(word, "[]."), "--")
		name, _, _ = strings.Cut(name, "=")
		if isLong && name != "" && name != "help" && !known(c.Flags().Lookup(name)) && !known(c.InheritedFlags().Lookup(name)) {
			faults = append(faults, "no flag --"+name+": "+call)
		}
	}
	return faults
}

// yamlFaults are the configurations of ours that are not good: a block that begins with a key of ours.
func yamlFaults(t *testing.T, text string) (faults []string) {
	t.Helper()
	for _, m := range codeFence.FindAllStringSubmatch(text, -1) {
		first := regexp.MustCompile(`(?m)^([a-z_]+):`).FindStringSubmatch(m[3])
		if first == nil || m[2] != "" && m[2] != "yaml" || strings.HasPrefix(m[3], "# values.yaml\n") { // the chart's
			continue
		}
		if slices.ContainsFunc(config.Settings, func(s config.Setting) bool {
			return s.Key == first[1] || strings.HasPrefix(s.Key, first[1]+".")
		}) {
			if _, err := loadText(t, m[3]); err != nil {
				faults = append(faults, err.Error())
			}
		}
	}
	return faults
}

// factFaults returns a page's wrong commands, flags and configurations.
func factFaults(t *testing.T, root *cobra.Command, page, text string) []string {
	t.Helper()
	lines, words := docCode(page, text)
	if filepath.Ext(page) != ".md" {
		var faults []string
		for _, m := range longFlag.FindAllStringSubmatch(text, -1) {
			if !anyFlag(root, m[1]) && foreignFlags[m[1]] == "" {
				faults = append(faults, "no command has --"+m[1])
			}
		}
		return faults
	}
	faults := yamlFaults(t, text)
	for _, code := range append(lines, words...) {
		faults = append(faults, commandFaults(root, code)...)
	}
	return faults
}

// quietRoot is the command line, which shows nothing.
func quietRoot() *cobra.Command {
	root := testRoot()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root
}

// TestDocFacts: each command, flag and configuration that a page names is one of the program's, or another program's that is
// known to be meant.
func TestDocFacts(t *testing.T) {
	root := quietRoot()
	calls := 0
	for page, text := range docPages(t) {
		calls += strings.Count(text, "orphan-reaper ")
		for _, fault := range factFaults(t, root, page, text) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	if calls < 100 {
		t.Errorf("only %d commands were found", calls)
	}
}
