package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
)

// ourPath is a path with our name in it, below a directory that belongs to a distribution or to the node.
var ourPath = regexp.MustCompile(`(?:^|[^\w./-])(/(?:etc|lib|opt|run|usr|var)/(?:[\w.@-]+/)*[\w.-]*orphan-reaper[\w./-]*)`)

// chosenPaths are those that an administrator chooses, or that something else makes, with who and why.
var chosenPaths = map[string]string{
	"/etc/orphan-reaper/web.yaml":                         "the administrator's web configuration",
	"/etc/orphan-reaper/tls.crt":                          "the same",
	"/etc/orphan-reaper/tls.key":                          "the same",
	"/etc/orphan-reaper/otel-ca.pem":                      "the collector's certificates",
	"/etc/orphan-reaper/web":                              "the chart mounts web.configSecret there",
	"/run/secrets/orphan-reaper/token":                    "the chart mounts the service account's token there",
	"/run/orphan-reaper.sock":                             "the socket unit that docs/http.md shows",
	"/etc/systemd/system/orphan-reaper.socket":            "the same",
	"/etc/systemd/system/orphan-reaper.service":           "the tarball's unit, by hand",
	"/etc/bash_completion.d/orphan-reaper":                "the shell's own place, which cobra's help names",
	"/var/cache/orphan-reaper.deb":                        "Ansible's example",
	"/opt/orphan-reaper":                                  "the tarball",
	"/usr/share/doc/orphan-reaper/orphan-reaper.cdx.json": "the image: packages.sh puts it there",
	"/var/lib/orphan-reaper/ledger.jsonl":                 "reaper/state",
	"/etc/apt/keyrings/orphan-reaper.asc":                 "packaging/release.sh names it in orphan-reaper.sources",
	"/etc/apt/sources.list.d/orphan-reaper.sources":       "make release makes it, docs/install.md lays it there",
	"/etc/pki/rpm-gpg/orphan-reaper.asc":                  "packaging/release.sh names it in orphan-reaper.repo",
	"/etc/yum.repos.d/orphan-reaper.repo":                 "as orphan-reaper.sources",
}

// placesOfOurs are the paths that packages install, and those that the defaults name. What lies below a directory
// that is ours whole counts as well.
func placesOfOurs(t *testing.T) map[string]bool {
	t.Helper()
	places := map[string]bool{config.DefaultFile: true, config.DefaultRootDir + "/orphan-reaper": true}
	c := config.Default()
	for i := range config.Settings {
		for _, v := range config.Settings[i].Values(&c) {
			places[v] = true
		}
	}
	for p := range chosenPaths {
		places[p] = true
	}
	text, err := os.ReadFile("../../packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Contents []struct{ Dst string } }
	text = regexp.MustCompile("@[A-Z]+@").ReplaceAll(text, []byte("x")) // packages.sh writes them in
	if err := yaml.Unmarshal(text, &list); err != nil || len(list.Contents) < 10 {
		t.Fatalf("%v, %d files", err, len(list.Contents))
	}
	for _, file := range list.Contents {
		places[file.Dst] = true
	}
	script, err := os.ReadFile("../../packaging/packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^put 0\d+ \S+ (/\S+)$`).FindAllStringSubmatch(string(script), -1) {
		places[m[1]] = true
	}
	return places
}

// pathFaults are the paths of ours that a page names, and that nothing makes.
func pathFaults(places map[string]bool, text string) (faults []string) {
	whole := []string{"/opt/orphan-reaper/", config.DefaultRootDir + "/orphan-reaper/", "/etc/orphan-reaper/web/"}
	for _, m := range ourPath.FindAllStringSubmatch(text, -1) {
		name := path.Clean(strings.TrimRight(m[1], ".-"))
		if places[name] || slices.ContainsFunc(whole, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		faults = append(faults, "nothing makes "+name)
	}
	return faults
}

var numbers = strings.Fields("no one two three four five six seven eight nine ten eleven twelve")

// amount reads a value as people write it: 5m, 5 minutes, five minutes, a path, a word.
func amount(text string) string {
	words := strings.Fields(text)
	if len(words) == 2 {
		if i := slices.Index(numbers, strings.ToLower(words[0])); i >= 0 {
			words[0] = fmt.Sprint(i)
		}
		units := map[string]string{"second": "s", "minute": "m", "hour": "h"}
		if unit := units[strings.TrimSuffix(words[1], "s")]; unit != "" {
			text = words[0] + unit
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return text
}

var (
	// `--hold` (5m) and `hold` (5 minutes; why). What begins with a digit or a slash is a value.
	keyThenValue = regexp.MustCompile("`(?:--)?([a-z][a-z._-]+)` \\(([0-9/][^);,:]*)")
	// As five minutes (`hold`).
	valueThenKey = regexp.MustCompile("(\\w+ (?:seconds?|minutes?|hours?)) \\(`(?:--)?([a-z][a-z._-]+)`\\)")
	// A row | `hold` | `5m` | of a table whose head has "default" as its second column.
	defaultTable = regexp.MustCompile(`(?m)^\| [^|\n]+ \| default \|.*\n\|[ -|]+\n((?:\|.*\n)+)`)
	defaultRow   = regexp.MustCompile("(?m)^\\| `(?:--)?([a-z][a-z._-]+)` \\| `?([^|`]+)`? \\|")
)

// valueFaults are the defaults that a page tells, and that are others. It counts those that it has compared.
func valueFaults(text string) (faults []string, compared int) {
	text = strings.ReplaceAll(text, "\r", "")
	flat := regexp.MustCompile(`[ \n]+`).ReplaceAllString(text, " ")
	c := config.Default()
	compare := func(key, value, told string) {
		i := slices.IndexFunc(config.Settings, func(s config.Setting) bool { return s.Key == key || s.Flag == key })
		if i < 0 {
			return
		}
		compared++
		if want := strings.Join(config.Settings[i].Values(&c), ", "); amount(value) != amount(want) {
			faults = append(faults, fmt.Sprintf("%s is %s: %q", key, want, told))
		}
	}
	for _, m := range keyThenValue.FindAllStringSubmatch(flat, -1) {
		compare(m[1], strings.TrimSpace(m[2]), m[0])
	}
	for _, m := range valueThenKey.FindAllStringSubmatch(flat, -1) {
		compare(m[2], m[1], m[0])
	}
	for _, table := range defaultTable.FindAllStringSubmatch(text+"\n", -1) {
		for _, m := range defaultRow.FindAllStringSubmatch(table[1], -1) {
			compare(m[1], strings.TrimSpace(m[2]), m[0])
		}
	}
	return faults, compared
}

// TestDocValues: each path of ours that a page names is made by a package, named by a default or chosen by somebody who
// is known; and each default that a page tells is the program's.
func TestDocValues(t *testing.T) {
	places := placesOfOurs(t)
	paths, compared := 0, 0
	for page, text := range docPages(t) {
		faults, n := valueFaults(text)
		compared += n
		paths += len(ourPath.FindAllString(text, -1))
		for _, fault := range append(faults, pathFaults(places, text)...) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	if paths < 40 || compared < 15 {
		t.Errorf("%d paths and %d defaults were found", paths, compared)
	}
}

// TestDocValuesFinds: each kind of fault is found, and what is right is not.
func TestDocValuesFinds(t *testing.T) {
	places := placesOfOurs(t)
	for _, c := range []struct {
		text string
		want int
	}{
		{"`--hold` (5m), `confirm` (5 minutes; why), in five minutes (`settle`), for 24 hours (`--retention`), `hold` (see above)", 0},
		{"`--cni-cache-dir` (/var/lib/cni), and `foo` (7m)", 0},
		{"| setting | default | what |\n| --- | --- | --- |\n| `hold` | `5m` | x |\n| `state_dir` | /var/lib/orphan-reaper | y |\n", 0},
		{"`--hold` (6m)", 1},
		{"`confirm`\n(5 hours)", 1},
		{"in six minutes (`settle`)", 1},
		{"`--cni-data-dir` (/var/lib/cni/network)", 1},
		{"| setting | default | what |\n| --- | --- | --- |\n| `hold` | `5m` | x |\n| `retention` | 2h | y |\n", 1},
		{"/etc/orphan-reaper/config.yaml. (/usr/share/orphan-reaper/orphan-reaper.rules.yaml) /opt/orphan-reaper/share/x", 0},
		{"/usr/share/orphan-reaper/rules.yaml", 1},
		{"`/etc/orphan-reaper/config.yml`, /usr/bin/orphan-reaper", 2},
		{"/var/lib/orphan-reapers", 1},
	} {
		faults, _ := valueFaults(c.text)
		if faults = append(faults, pathFaults(places, c.text)...); len(faults) != c.want {
			t.Errorf("%q: %q", c.text, faults)
		}
	}
}
