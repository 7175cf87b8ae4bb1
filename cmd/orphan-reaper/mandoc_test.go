package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/advice"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// man writes a page in the man macros, man(7).
type man struct{ strings.Builder }

// roff makes text plain to roff: no escapes, no request at a line's start, and hyphens that
// stay what they are when somebody copies a flag.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func (m *man) title(name, section, about string) {
	m.WriteString(".\\\" Written by go test ./cmd/orphan-reaper from what the code says; make golden writes it anew.\n")
	m.WriteString(".TH " + strings.ToUpper(roff(name)) + " " + section + " @DATE@ \"orphan\\-reaper\"\n") // packages.sh writes the commit's date in
	m.section("Name")
	m.WriteString(roff(name) + " \\- " + roff(about) + "\n")
}

func (m *man) section(name string) { m.WriteString(".SH " + strings.ToUpper(name) + "\n") }

func (m *man) paragraph(text string) {
	if last := m.String()[strings.LastIndex(strings.TrimSuffix(m.String(), "\n"), "\n")+1:]; !strings.HasPrefix(last, ".S") {
		m.WriteString(".PP\n") // A heading begins one by itself.
	}
	m.text(text)
}

func (m *man) text(text string) {
	for line := range strings.SplitSeq(strings.Join(human.Wrap(text, 92), "\n"), "\n") {
		m.WriteString(roff(line) + "\n")
	}
}

// prose writes text in which an empty line divides paragraphs.
func (m *man) prose(text string) {
	for part := range strings.SplitSeq(text, "\n\n") {
		m.paragraph(part)
	}
}

// item writes a term in bold and what it means.
func (m *man) item(term, text string) {
	m.WriteString(".TP\n.B " + roff(term) + "\n")
	for i, part := range strings.Split(text, "\n\n") {
		if i > 0 {
			m.WriteString(".IP\n")
		}
		m.text(part)
	}
}

func (m *man) example(text string) {
	m.WriteString(".PP\n.nf\n.RS 4\n" + roff(strings.Trim(text, "\n")) + "\n.RE\n.fi\n")
}

// usage writes a line of the synopsis: what is typed in bold, as far as it can be told.
func (m *man) usage(line string) {
	words := strings.Fields(line)
	i := 1
	for i < len(words) && strings.ToLower(words[i]) == words[i] && !strings.ContainsAny(words[i], "[|") {
		i++
	}
	line = `\fB` + roff(strings.Join(words[:i], " ")) + `\fR`
	if i < len(words) {
		line += ` \fI` + roff(strings.Join(words[i:], " ")) + `\fR`
	}
	m.WriteString(line + "\n")
}

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
	return newRootCommand(&app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), env: env, deps: fakeDeps(env), given: map[string][]string{}})
}

// flagWords is a flag as it stands in the page: its names and its value.
func flagWords(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if meta, _ := pflag.UnquoteUsage(f); meta != "" {
		name += " " + meta
	}
	return name
}

// manPage writes orphan-reaper(8).
func manPage() string {
	m := new(man)
	root := testRoot()
	m.title("orphan-reaper", "8", "remove the directories of orphaned pods, safely")
	m.section("Synopsis")
	m.WriteString(".nf\n")
	for _, c := range commands(root) {
		m.usage(strings.TrimSuffix(c.UseLine(), " [flags]"))
	}
	m.WriteString(".fi\n")
	m.section("Description")
	m.prose(strings.ReplaceAll(rootLong, "\n", " "))
	m.prose(manAbout)
	m.section("Commands")
	for _, c := range commands(root) {
		m.WriteString(".SS " + roff(c.CommandPath()) + "\n")
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		m.prose(long)
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				_, usage := pflag.UnquoteUsage(f)
				m.item(flagWords(f), usage)
			}
		})
		if c.Example != "" {
			m.example(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"))
		}
	}
	m.section("Options")
	m.paragraph("Every command that looks at a node or its quarantine takes the settings. Each is a key of the configuration file, too, where it is " +
		"explained: see orphan-reaper.yaml(5).")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		if f.DefValue != "" {
			usage += " (default " + f.DefValue + ")"
		}
		m.item(flagWords(f), usage)
	})
	m.section("Exit status")
	for _, e := range exitCodeLines() {
		m.item(e[0], e[1])
	}
	for _, s := range manLists {
		m.section(s.name)
		if s.about != "" {
			m.prose(s.about)
		}
		for _, i := range s.items {
			m.item(i[0], i[1])
		}
	}
	m.section("Reasons")
	m.paragraph("Why a pod directory or a file of CNI is kept or waits. Each by itself is enough.")
	for _, a := range advice.Reasons {
		m.item(string(a.Reason), a.Means+"\n\n"+advice.For(a.Reason).Todo)
	}
	m.section("See also")
	m.text("orphan-reaper.yaml(5), journalctl(1), systemd.journal-fields(7), crictl(1), https://github.com/orphan-reaper/orphan-reaper")
	return m.String()
}

// exitCodeLines are the codes that --help shows.
func exitCodeLines() (codes [][2]string) {
	for line := range strings.Lines(exitCodes) {
		if code, text, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			codes = append(codes, [2]string{code, text})
		}
	}
	return codes
}

// configPage writes orphan-reaper.yaml(5).
func configPage() string {
	m := new(man)
	c := config.Default()
	m.title("orphan-reaper.yaml", "5", "configuration of orphan-reaper")
	m.section("Synopsis")
	m.text(config.DefaultFile)
	m.section("Description")
	m.prose(manConfig)
	m.section("Keys")
	for i := range config.Settings {
		s := &config.Settings[i]
		text := manual[s.Key] + "\n\nDefault: "
		switch v, ok := foundOut[s.Key]; {
		case ok:
			text += "found out; mostly " + v
		case len(s.Values(&c)) == 1:
			text += s.Values(&c)[0]
		default:
			text += strings.Join(s.Values(&c), ", ")
		}
		text += "."
		if len(s.Choices) > 0 {
			text += " One of " + strings.Join(s.Choices, ", ") + "."
		}
		if s.Live {
			text += " A reload changes it."
		} else {
			text += " Needs a restart."
		}
		m.item(s.Key, text+" Flag: --"+s.Flag+".")
	}
	m.section("Example")
	m.paragraph("Only look, at a node whose kubelet logs into a file of its own, and ask the API server, too:")
	m.example(manConfigExample)
	m.section("See also")
	m.text("orphan-reaper(8)")
	return m.String()
}

var manPages = map[string]func() string{"orphan-reaper.8": manPage, "orphan-reaper.yaml.5": configPage}

// TestManPages: the pages that are installed are what the code says.
func TestManPages(t *testing.T) {
	for name, write := range manPages {
		goldenFile(t, filepath.Join("..", "..", "packaging", "man", name), write())
	}
}

// TestManPagesAreWhole: every command, flag, key, exit code and reason of the program and every
// journal field of its records stands in them.
func TestManPagesAreWhole(t *testing.T) {
	page, file := manPage(), configPage()
	has := func(page, term string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)^\.(B|SS) (.*, )?` + regexp.QuoteMeta(roff(term)) + `(,| |$)`).MatchString(page) {
			t.Errorf("%s is not in the page", term)
		}
	}
	for _, c := range commands(testRoot()) {
		has(page, c.CommandPath())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				has(page, "--"+f.Name)
			}
		})
	}
	for _, s := range config.Settings {
		has(file, s.Key)
		has(page, "--"+s.Flag)
	}
	for _, code := range []string{"0", "1", "2", "3"} {
		has(page, code)
	}
	for _, r := range policy.Reasons() {
		has(page, string(r))
	}
	record := policy.Record{
		Seq: 1, Kind: policy.KindParked, At: policy.Instant{BootID: "b"}, UID: uidReap, Namespace: "n", PodName: "p", Entry: "e", Leaf: "l", Sandbox: "s",
		Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonHold, Detail: "d"}}, Taken: map[string]policy.Tally{"data": {}},
		Left: []policy.Residue{{}}, VolData: map[string]string{"a": "b"}, Err: "e", Undo: "u", Text: "t", Archive: "a", Pods: []string{"n/p"},
	}
	for field := range audit.Fields(record) {
		if field != "SYSLOG_IDENTIFIER" && !strings.Contains(field, "_TAKEN_DATA_") {
			has(page, field)
		}
	}
}

// TestManConfigExample: the example of the page is a good configuration.
func TestManConfigExample(t *testing.T) {
	if _, err := loadText(t, manConfigExample); err != nil {
		t.Error(err)
	}
}

// TestManPagesRead: the formatters of a system read the pages without a warning.
func TestManPagesRead(t *testing.T) {
	checks := [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"groff", "-man", "-Tutf8", "-ww", "-z"}}
	tried := false
	for _, check := range checks {
		if _, err := exec.LookPath(check[0]); err != nil {
			continue
		}
		tried = true
		for name := range manPages {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(strings.Replace(manPages[name](), "@DATE@", "2026-01-01", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), check[0], append(slices.Clone(check[1:]), file)...).CombinedOutput() // our own words
			if err != nil || len(out) > 0 {
				t.Errorf("%s %s: %v\n%s", check[0], name, err, out)
			}
		}
	}
	if !tried && os.Getenv("REQUIRE_ROOT") == "1" {
		t.Fatal("neither mandoc nor groff is here: packaging/checks/test-deps.sh installs one")
	}
	if !tried {
		t.Skip("neither mandoc nor groff is here")
	}
}
