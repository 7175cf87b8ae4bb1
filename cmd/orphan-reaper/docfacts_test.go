package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// docPages are the pages that people read: by path from the top, with their text.
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
			if err != nil {
				t.Fatal(err)
			}
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
	snakeWord  = regexp.MustCompile(`^-{0,2}([a-z]+(?:[._-][a-z0-9]+)*)$`)
)

// docCode is what stands in code font: the lines of a page's blocks, and the spans in its words. Of a page that
// is no Markdown the words are all there is.
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
	"collector.textfile.directory": "the node exporter", "config.system-log-monitor": "the node problem detector",
	"disabled-metrics": "the kubelet", "logging-format": "the kubelet", "set": "helm", "show-only": "helm",
	"limit": "ansible-playbook", "id": "logger", "mount": "unshare", "update-catalog": "journalctl",
	"since": "journalctl",
}

// commandFaults parses the commands of ours that code has, and says what no command takes.
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

// anyFlag reports whether a command has the flag.
func anyFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil || name == "help" || name == "version" ||
		slices.ContainsFunc(c.Commands(), func(c *cobra.Command) bool { return anyFlag(c, name) })
}

// callFaults are what a command does not take of its flags.
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

// otherWords are words with an underscore or a dot in code font that are neither keys of the configuration nor of JSON,
// by whose they are.
var otherWords = map[string]string{
	"the kubelet's files": "allocated_pods_state actuated_pods_state memory_manager_state pod_status_manager_state cpu_manager_state dra_manager_state",
	"the kubelet's":       "kubelet_working_pods kubelet_desired_pods kubelet_orphan_pod_cleaned_volumes_errors logging.format",
	"CRI-O's":             "network_dir",
	"the kernel's":        "open_tree open_by_handle_at backing_file",
	"Prometheus'": "basic_auth_users tls_server_config http_server_config client_auth_type client_ca_file client_ca client_allowed_sans " +
		"min_version max_version cipher_suites curve_preferences prefer_server_cipher_suites cert_file key_file rate_limit rule_files " +
		"node_textfile_mtime_seconds",
	"api-cni-cleanup's": "apicnicleanup_number_count apicnicleanup_size_bytes",
	"the chart's": "web.expose web.configSecret web.tokenReview sweep.enabled sweep.schedule image.tag image.repository dashboard.annotations " +
		"sweep.schedule orphanReport.enabled podMonitor.enabled",
	"Grafana's":         "dashboard.enabled grafana_dashboard",
	"Ansible's":         "ansible.builtin.dnf disable_gpg_check",
	"dpkg's, rpm's":     "config.yaml.dpkg-dist config.yaml.rpmnew config.yaml.rpmsave",
	"labels of metrics": "on_disk in_runtime known_to_kubelet orphaned_on_disk orphaned_in_runtime not_asked",
}

// fileWord is the name of a file, or the beginning of a host's name.
var fileWord = regexp.MustCompile(`\.(json|jsonl|yaml|yml|go|mod|txt|crt|key|pem|md|svg|service|socket|sock|deb|rpm|prom|conf|gz|unused|sh|d|io|leaf)$`)

// knownWords are the words with an underscore or a dot that a page may have in code font.
func knownWords() map[string]bool {
	known := map[string]bool{}
	for _, words := range otherWords {
		for word := range strings.FieldsSeq(words) {
			known[word] = true
		}
	}
	for _, s := range config.Settings {
		known[s.Key] = true
		if _, last, ok := strings.Cut(s.Key, "."); ok {
			known[last] = true
		}
	}
	for n := range policy.NumFacts {
		known[n.String()] = true
	}
	maps.Copy(known, allJSONKeys())
	return known
}

// wordFaults are the words in code font that look like a key, and are none.
func wordFaults(known map[string]bool, word string) (faults []string) {
	key, _, isPair := strings.Cut(word, ": ")
	m := snakeWord.FindStringSubmatch(key)
	if m == nil || strings.HasPrefix(m[1], "orphan_reaper_") { // metrics: TestMetricsDoc
		return nil
	}
	if !strings.ContainsAny(m[1], "_.") || strings.HasPrefix(key, "-") || fileWord.MatchString(key) || known[m[1]] {
		return nil
	}
	if isPair {
		return []string{"no key: " + word}
	}
	return []string{"no word of ours, nor one of others that is known: " + word}
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

// factFaults are what a page says of commands, flags and keys that is not so.
func factFaults(t *testing.T, root *cobra.Command, known map[string]bool, page, text string) []string {
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
	for _, word := range words {
		faults = append(faults, wordFaults(known, word)...)
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

// TestDocFacts: each command, flag and key that a page names is one of the program's, or another program's that is
// known to be meant.
func TestDocFacts(t *testing.T) {
	root, known := quietRoot(), knownWords()
	calls := 0
	for page, text := range docPages(t) {
		calls += strings.Count(text, "orphan-reaper ")
		for _, fault := range factFaults(t, root, known, page, text) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	if calls < 100 {
		t.Errorf("only %d commands were found", calls)
	}
}

// TestDocFactsFinds: each kind of fault is found, and what is right is not.
func TestDocFactsFinds(t *testing.T) {
	root, known := quietRoot(), knownWords()
	for _, c := range []struct {
		page, text string
		want       int
	}{
		{"a.md", "`orphan-reaper scan --all`, `scan --all`, `--hold`, `hold`, `metrics_file`, `web.config_file`, `in_use`, `needs_person`", 0},
		{"a.md", "```\nsudo orphan-reaper fleet sweep --user me  # asks\nhelm install orphan-reaper x --nothing of-ours\n```\n", 0},
		{"a.md", "`quarantine restore UID`, `kubectl -n x exec POD -- /orphan-reaper scan --mode observe`", 0},
		{"a.md", "`orphan-reaper look`", 1},
		{"a.md", "`orphan-reaper quarantine drop`", 1},
		{"a.md", "```\norphan-reaper config check && orphan-reaper sweep --dry\n```\n", 1},
		{"a.md", "`quarantine restore --branch ARCHIVE`", 1},
		{"a.md", "`scan --hold 5m --holding`", 1},
		{"a.md", "`--holds`", 1},
		{"a.md", "`kubectl exec POD -- /orphan-reaper scan --moods observe`", 1},
		{"a.md", "`metrics_flie`", 1},
		{"a.md", "`log_source: file`", 1},
		{"a.md", "`web.config_files`", 1},
		{"a.md", "```yaml\nmode: observe\nhold: 5m\n```\n", 0},
		{"a.md", "```yaml\nmode: look\n```\n", 1},
		{"a.md", "```\nweb:\n  listen_adresses: []\n```\n", 1},
		{"config.yaml", "# Flag --hold. Flag --holds.", 1},
		{"a.8", ".B --max-per-look N", 0},
	} {
		if faults := factFaults(t, root, known, c.page, c.text); len(faults) != c.want {
			t.Errorf("%q: %q", c.text, faults)
		}
	}
}
