package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStatic: this test's own program is static, as it is built without cgo; what asks for
// a dynamic linker, like every distribution's shell, is refused.
func TestStatic(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := static("/bin/sh"); err == nil || !strings.Contains(err.Error(), "is not static") {
		t.Errorf("/bin/sh: %v", err)
	}
	if os.Getenv("CGO_ENABLED") != "0" {
		t.Skip("this test is built with cgo: set CGO_ENABLED=0")
	}
	if err := static(self); err != nil {
		t.Error(err)
	}
}

const changes = `# Changelog

- not a change

## [Unreleased]

## [1.1.0] - 2026-03-04

Words.

### Added

- One that is told in
  two lines, with ` + "`code`" + `.
- Another.

## [1.0.0] - 2026-01-02

- First.
`

func TestChangelog(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	releases, err := readChangelog(strings.NewReader(changes), "1.1.0", at)
	if err != nil {
		t.Fatal(err)
	}
	const deb = `orphan-reaper (1.1.0) unstable; urgency=medium

  * One that is told in two lines, with code.
  * Another.

 -- Me <me@host>  Wed, 06 May 2026 07:08:09 +0000

orphan-reaper (1.0.0) unstable; urgency=medium

  * First.

 -- Me <me@host>  Fri, 02 Jan 2026 00:00:00 +0000
`
	if got := string(debChangelog(releases, "Me <me@host>")); got != deb {
		t.Errorf("got\n%s\nwant\n%s", got, deb)
	}
	text, err := rpmChangelog(releases, "Me <me@host>")
	if err != nil {
		t.Fatal(err)
	}
	var rpm []struct {
		Semver  string
		Changes []struct{ Note string }
	}
	if err := json.Unmarshal(text, &rpm); err != nil || len(rpm) != 2 || rpm[0].Semver != "1.1.0" || rpm[1].Changes[0].Note != "First." {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := readChangelog(strings.NewReader("# Changelog\n\n## [Unreleased]\n"), "1", at); err == nil {
		t.Error("a changelog without a change is taken")
	}
	long := fold(strings.Repeat("word ", 60))
	for line := range strings.Lines(long) {
		if len(line) > 79 || !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "  * ") {
			t.Errorf("%q", line)
		}
	}
}

// TestLicences: what is linked in and has no licence stops the build.
func TestLicences(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := appendLicences(&b, "example.org/m v1.0.0", dir); err == nil {
		t.Error("a module without a licence is taken")
	}
	for name, text := range map[string]string{"LICENSE.txt": "May be used.\n", "NOTICE": "By me.\n", "licenses.go": "package m\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := appendLicences(&b, "example.org/m v1.0.0", dir); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "May be used.") || !strings.Contains(got, "By me.") || strings.Contains(got, "package m") {
		t.Errorf("%s", got)
	}
}

// TestBill: the bill of this test's own program names its module, Go, and the sum of the file.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := sbom(self, "1.0.0+1", time.Unix(0, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.Metadata.Timestamp != "1970-01-01T00:00:00Z" || !strings.HasSuffix(b.Metadata.Component.PURL, "@1.0.0%2B1") || len(b.Metadata.Component.Hashes[0].Content) != 64 {
		t.Errorf("%+v", b.Metadata)
	}
	if len(b.Components) == 0 || b.Components[0].Name != "std" || len(b.Dependencies[0].On) != len(b.Components) {
		t.Errorf("%+v", b.Components)
	}
}

// TestProvenance: the statement names the files with their digests, the commit, the builder, and the
// modules of this test's own program with the digests of go.sum.
func TestProvenance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0f", 32)
	args := []string{"provenance", "1.2.3", "c0ffee", "https://builder.example", self, self}
	var text bytes.Buffer
	if err := run(args, strings.NewReader(sum+"  a file\n"), &text); err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(text.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	of := s.Predicate.BuildDefinition.ResolvedDependencies
	if len(s.Subject) != 1 || s.Subject[0].Name != "a file" || s.Subject[0].Digest["sha256"] != sum || s.Predicate.RunDetails.Builder.ID != args[3] ||
		of[0].Digest["gitCommit"] != "c0ffee" || !strings.HasSuffix(of[0].URI, "@refs/tags/v1.2.3") {
		t.Errorf("%s", &text)
	}
	for i, m := range of[1:] {
		if strings.HasPrefix(m.URI, "pkg:golang/std@") == (len(m.Digest["dirHash"]) == 64) || i > 0 && m.URI <= of[i].URI {
			t.Errorf("module %d is %+v", i, m)
		}
	}
	for _, bad := range []string{"", "abc  file\n", sum + " file\n"} {
		if err := run(args, strings.NewReader(bad), &text); err == nil {
			t.Errorf("%q is taken for sums", bad)
		}
	}
	if err := run(args[:4], strings.NewReader(sum+"  a file\n"), &text); err == nil {
		t.Error("a statement without a program is made")
	}
}
