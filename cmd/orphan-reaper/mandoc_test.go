package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const manDir = "../../packaging/man"

// roff makes text plain to roff: no escapes, no request at a line's start, and hyphens that
// stay what they are when somebody copies a flag.
func roff(text string) string {
	text = "\n" + strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace(text)[1:]
}

// prose writes text in which an empty line divides paragraphs, with a macro of man(7) between them.
func prose(text, between string) string {
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		parts[i] = roff(strings.Join(human.Wrap(part, 92), "\n")) + "\n"
	}
	return strings.Join(parts, between+"\n")
}

// item writes a term in bold and what it means.
func item(term, text string) string { return ".TP\n.B " + roff(term) + "\n" + prose(text, ".IP") }

// commands are the commands that do something, in the order of --help.
func commands(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range root.Commands() {
		switch {
		case c.HasSubCommands():
			all = append(all, commands(c)...)
		case c.IsAvailableCommand() && c.Name() != "help":
			all = append(all, c)
		}
	}
	return all
}

func testRoot() *cobra.Command {
	env := func(string) string { return "" }
	return newRootCommand(&cli{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), env: env, given: map[string][]string{}})
}

// flagItem writes a flag with its names, its value and, where that is asked for, its default.
func flagItem(f *pflag.Flag, withDefault bool) string {
	if f.Hidden {
		return ""
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value, usage := pflag.UnquoteUsage(f)
	if withDefault && f.DefValue != "" {
		usage += " (default " + f.DefValue + ")"
	}
	return item(strings.TrimSpace(name+" "+value), usage)
}

// commandSections are those of orphan-reaper(8) that the code decides.
func commandSections() map[string]string {
	root := testRoot()
	synopsis, all, options, exit, reasons := ".nf\n", "", "", "", ""
	for _, c := range commands(root) {
		synopsis += `\fB` + roff(c.CommandPath()) + `\fR`
		if args := strings.TrimPrefix(strings.TrimSuffix(c.UseLine(), " [flags]"), c.CommandPath()); args != "" {
			synopsis += ` \fI` + roff(args[1:]) + `\fR`
		}
		synopsis += "\n"
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		all += ".SS " + roff(c.CommandPath()) + "\n" + prose(long, ".PP")
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				all += flagItem(f, false)
			}
		})
		if c.Example != "" {
			all += ".PP\n.nf\n.RS 4\n" + roff(strings.TrimSpace(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"))) + "\n.RE\n.fi\n"
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { options += flagItem(f, true) })
	for line := range strings.Lines(exitCodes) {
		if code, text, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			exit += item(code, text)
		}
	}
	for _, a := range ui.Reasons {
		reasons += item(string(a.Reason), a.Means+"\n\n"+ui.AdviceOf(a.Reason, "").Advice)
	}
	return map[string]string{"SYNOPSIS": synopsis + ".fi\n", "COMMANDS": all, "OPTIONS": options, "EXIT STATUS": exit, "REASONS": reasons}
}

// keySections is the one of orphan-reaper.yaml(5) that the code decides.
func keySections() map[string]string {
	c, keys := config.Default(), ""
	for i := range config.Settings {
		s := &config.Settings[i]
		value := strings.Join(s.Values(&c), ", ")
		if v, ok := foundOut[s.Key]; ok {
			value = "found out; mostly " + v
		}
		text := manual[s.Key] + "\n\nDefault: " + value + "."
		if len(s.Choices) > 0 {
			text += " One of " + strings.Join(s.Choices, ", ") + "."
		}
		change := "Needs a restart."
		if s.Live {
			change = "A reload changes it."
		}
		keys += item(s.Key, text+" "+change+" Flag: --"+s.Flag+".")
	}
	return map[string]string{"KEYS": keys}
}

// TestManPages: the sections that the code decides are as it says, from their first item, command or line on. The words before that, and
// the other sections, are written by hand.
func TestManPages(t *testing.T) {
	for name, sections := range map[string]map[string]string{"orphan-reaper.8": commandSections(), "orphan-reaper.yaml.5": keySections()} {
		text, err := os.ReadFile(filepath.Join(manDir, name))
		testkit.Must(t, err)
		page := string(text)
		for heading, body := range sections {
			before, rest, ok := strings.Cut(page, "\n.SH "+heading+"\n")
			first, _, _ := strings.Cut(body, "\n")
			at := strings.Index(rest, first[:3])
			end := strings.Index(rest, "\n.SH ")
			if !ok || at < 0 || end < at {
				t.Fatalf("%s has no section %s that begins with %s and ends with another", name, heading, first[:3])
			}
			page = before + "\n.SH " + heading + "\n" + rest[:at] + body + rest[end+1:]
		}
		testkit.Golden(t, filepath.Join(manDir, name), page)
	}
}

// TestManPageFields: every journal field of a record stands in orphan-reaper(8).
func TestManPageFields(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(manDir, "orphan-reaper.8"))
	testkit.Must(t, err)
	record := policy.Record{
		Seq: 1, Kind: policy.KindParked, At: policy.Instant{BootID: "b"}, UID: testUID, Namespace: "n", PodName: "p", Entry: "e", Leaf: "l", Sandbox: "s",
		Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonHold, Detail: "d"}}, Taken: map[string]policy.Tally{"data": {}},
		Left: []policy.Residue{{}}, VolData: map[string]string{"a": "b"}, Err: "e", Undo: "u", Text: "t", Archive: "a", Pods: []string{"n/p"},
	}
	for field := range audit.Fields(record) {
		if field != "SYSLOG_IDENTIFIER" && !strings.Contains(field, "_TAKEN_DATA_") && !strings.Contains(string(page), field) {
			t.Errorf("%s is not in the page", field)
		}
	}
}

// TestManConfigExample: the example of the page is a good configuration.
func TestManConfigExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(manDir, "orphan-reaper.yaml.5"))
	testkit.Must(t, err)
	_, example, _ := strings.Cut(string(page), ".RS 4\n")
	example, _, ok := strings.Cut(example, ".RE\n")
	if _, err := loadText(t, strings.ReplaceAll(example, `\-`, "-")); err != nil || !ok {
		t.Errorf("%v: %s", err, example)
	}
}

// TestManPagesRead: mandoc(1) reads the pages without a warning.
func TestManPagesRead(t *testing.T) {
	mandoc := testkit.NeedCommand(t, "mandoc")
	files, err := filepath.Glob(manDir + "/*")
	testkit.Must(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		file := testkit.File(t, filepath.Base(name), strings.Replace(string(text), "@DATE@", "2026-01-01", 1))
		out, err := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "warning", file).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
