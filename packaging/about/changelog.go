package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// release is one section of CHANGELOG.md.
type release struct {
	version string
	at      time.Time
	changes []string // one paragraph each
}

// sectionLine begins a release: "## [1.2.3] - 2026-01-31", or "## [1.2.3] - Unreleased".
var sectionLine = regexp.MustCompile(`^## \[(.+)\](?: - (\d{4}-\d{2}-\d{2}))?`)

// readChangelog reads the releases, the newest first. The first that tells any change is the
// version that is packaged now, whatever its heading says.
func readChangelog(r io.Reader, version string, at time.Time) ([]release, error) {
	var all []release
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			next := release{version: m[1], at: at}
			if m[2] != "" {
				day, err := time.Parse(time.DateOnly, m[2])
				if err != nil {
					return nil, fmt.Errorf("cannot read the date of %s: %w", m[1], err)
				}
				next.at = day
			}
			all = append(all, next)
			continue
		}
		if len(all) == 0 {
			continue // what stands above the first release
		}
		last := &all[len(all)-1]
		switch text, item := strings.CutPrefix(line, "- "); {
		case item:
			last.changes = append(last.changes, plain(text))
		case strings.HasPrefix(line, "  ") && len(last.changes) > 0:
			last.changes[len(last.changes)-1] += " " + plain(strings.TrimSpace(line))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for len(all) > 0 && len(all[0].changes) == 0 {
		all = all[1:]
	}
	if len(all) == 0 {
		return nil, errors.New("the changelog tells no change")
	}
	all[0].version, all[0].at = version, at
	return all, nil
}

// plain takes the marks of Markdown out.
func plain(text string) string { return strings.NewReplacer("`", "", "**", "").Replace(text) }

// debChangelog writes the form of deb-changelog(5).
func debChangelog(releases []release, maintainer string) []byte {
	var b bytes.Buffer
	for i, r := range releases {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "orphan-reaper (%s) unstable; urgency=medium\n\n", r.version)
		for _, c := range r.changes {
			b.WriteString(fold(c))
		}
		fmt.Fprintf(&b, "\n -- %s  %s\n", maintainer, r.at.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	}
	return b.Bytes()
}

// fold breaks a change into lines of 78 columns at most.
func fold(text string) string {
	var b strings.Builder
	line := "  *"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 78 {
			b.WriteString(line + "\n")
			line = "   "
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// rpmChangelog writes the YAML from which nfpm makes an RPM's changelog. JSON is YAML.
func rpmChangelog(releases []release, packager string) ([]byte, error) {
	type change struct {
		Note string `json:"note"`
	}
	type entry struct {
		Version  string    `json:"semver"`
		Date     time.Time `json:"date"`
		Packager string    `json:"packager"`
		Changes  []change  `json:"changes"`
	}
	var all []entry
	for _, r := range releases {
		e := entry{Version: r.version, Date: r.at, Packager: packager}
		for _, c := range r.changes {
			e.Changes = append(e.Changes, change{c})
		}
		all = append(all, e)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}
