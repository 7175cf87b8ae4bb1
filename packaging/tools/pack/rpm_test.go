package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/ulikunitz/xz"
)

// laid writes packaging/nfpm.yaml as packages.sh does, and each file that it names, into a new working directory.
func laid(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, "work", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range regexp.MustCompile(`src: ([^, }]+)`).FindAllSubmatch(text, -1) {
		if src := string(m[1]); src == "tree/usr/share/orphan-reaper" {
			write(src+"/rules.yaml", "rules")
		} else {
			write(src, "content of "+src)
		}
	}
	for _, m := range regexp.MustCompile(`(?:postinstall|preremove|postremove): (\S+)`).FindAllSubmatch(text, -1) {
		write(string(m[1]), "# "+string(m[1]))
	}
	write("../changelog.rpm.yaml", "- {semver: 1.2.3-1, date: 2026-01-02T03:04:05Z, packager: a <a@b>, changes: [{note: One.}, {note: Two.}]}\n")
	fill := strings.NewReplacer("@ARCH@", "arm64", "@VERSION@", "1.2.3~rc.1", "@MTIME@", "2026-01-02T03:04:05Z", "@PACKAGER@", "rpm")
	write("nfpm.yaml", fill.Replace(string(text))+"license: Apache-2.0\n")
	t.Chdir(filepath.Join(dir, "work"))
}

// header is a header of an RPM: what its tags have, as the strings of each, and the bytes.
// Its format: https://rpm-software-management.github.io/rpm/manual/format_header.html.
type header struct {
	tags map[int][]string
	raw  []byte
}

func parseHeader(t *testing.T, b []byte) header {
	t.Helper()
	if !bytes.HasPrefix(b, []byte{0x8e, 0xad, 0xe8, 1}) {
		t.Fatalf("no header: %x", b[:16])
	}
	number := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
	entries, store := number(8), 16+16*number(8)
	h := header{map[int][]string{}, b[:store+number(12)]}
	for i := range entries {
		at := 16 + 16*i
		tag, kind, value := number(at), number(at+4), store+number(at+8)
		for n := range number(at + 12) {
			switch kind {
			case 3: // 16 bits
				h.tags[tag] = append(h.tags[tag], fmt.Sprint(binary.BigEndian.Uint16(b[value+2*n:])))
			case 4: // 32 bits
				h.tags[tag] = append(h.tags[tag], fmt.Sprint(number(value+4*n)))
			case 6, 8, 9: // strings
				text, _, _ := bytes.Cut(b[value:], []byte{0})
				h.tags[tag] = append(h.tags[tag], string(text))
				value += len(text) + 1
			}
		}
	}
	return h
}

// packed returns the header of the RPM and the names in its payload, and checks both digests.
func packed(t *testing.T) (h header, payload []string) {
	t.Helper()
	laid(t)
	if err := run([]string{"rpm", "nfpm.yaml", "out.rpm"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("out.rpm")
	if err != nil {
		t.Fatal(err)
	}
	const lead = 96
	signature := parseHeader(t, b[lead:])
	rest := b[lead+(len(signature.raw)+7)/8*8:]
	h = parseHeader(t, rest)
	if got := fmt.Sprintf("%x", sha256.Sum256(h.raw)); got != signature.tags[273][0] {
		t.Errorf("the header has the digest %s, and %v is written", got, signature.tags[273])
	}
	rest = rest[len(h.raw):]
	if got := fmt.Sprintf("%x", sha256.Sum256(rest)); got != h.tags[5092][0] {
		t.Errorf("the payload has the digest %s, and %v is written", got, h.tags[5092])
	}
	unpacked, err := xz.NewReader(bytes.NewReader(rest))
	if err != nil {
		t.Fatal(err)
	}
	for r := cpio.NewReader(unpacked); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return h, payload
		}
		if err != nil {
			t.Fatal(err)
		}
		payload = append(payload, f.Name)
	}
}

// TestNames: no name in the payload is absolute, so that cpio unpacks it where it is called. The header has the same files
// where they are installed, and the package has each directory that is only its own.
func TestNames(t *testing.T) {
	h, payload := packed(t)
	var installed []string
	for i, base := range h.tags[1117] {
		var dir int
		if _, err := fmt.Sscan(h.tags[1116][i], &dir); err != nil {
			t.Fatal(err)
		}
		installed = append(installed, h.tags[1118][dir]+base)
	}
	if len(payload) < 15 || len(payload) != len(installed) {
		t.Fatalf("the payload has %v, the header %v", payload, installed)
	}
	for i, name := range payload {
		if !strings.HasPrefix(name, "./") || name != "."+installed[i] {
			t.Errorf("the payload has %s, the header %s", name, installed[i])
		}
		for dir := path.Dir(installed[i]); strings.Contains(dir, "orphan-reaper"); dir = path.Dir(dir) {
			if !slices.Contains(installed, dir) {
				t.Errorf("%s is in the directory %s, which the package does not have", name, dir)
			}
		}
	}
}

// TestHeader: the values that rpm reads, and which would make no RPM fail if they were missing.
func TestHeader(t *testing.T) {
	h, _ := packed(t)
	for tag, want := range map[int]string{
		1000: "orphan-reaper", 1001: "1.2.3~rc.1", 1002: "1", 1006: "1767323045", 1014: "Apache-2.0", 1022: "aarch64", 1125: "xz",
		1024: "# scripts/rpm.post", 1025: "# scripts/rpm.preun", 1026: "# scripts/rpm.postun",
		1080: "1767323045", 1081: "a <a@b> - 1.2.3-1", 1082: "- One.\n- Two.",
	} {
		if got := h.tags[tag]; !slices.Equal(got, []string{want}) {
			t.Errorf("tag %d is %q, want %q", tag, got, want)
		}
	}
	var requires []string
	for i, name := range h.tags[1049] {
		requires = append(requires, fmt.Sprint(name, " ", h.tags[1048][i]))
	}
	for _, want := range []string{"systemd 0", "systemd 7168", "/bin/sh 7168", "rpmlib(PayloadFilesHavePrefix) 16777226", "rpmlib(TildeInVersions) 16777226"} {
		if !slices.Contains(requires, want) {
			t.Errorf("%s is not required: %v", want, requires)
		}
	}
	file := slices.Index(h.tags[1117], "config.yaml")
	if got := []string{h.tags[1037][file], h.tags[1030][file], h.tags[1034][file]}; !slices.Equal(got, []string{"17", "33188", "1767323045"}) {
		t.Errorf("config.yaml has flags, mode and time %v", got)
	}
}

// TestRefused: what pack would leave out silently is an error, and no package is written.
func TestRefused(t *testing.T) {
	for name, change := range map[string][2]string{
		"a signature": {"\nrpm:\n", "\nrpm:\n  signature: {key_file: key}\n"},
		"a type":      {"\ncontents:\n", "\ncontents:\n  - {src: scripts/rpm.post, dst: /usr/bin/link, type: symlink}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			laid(t)
			text, err := os.ReadFile("nfpm.yaml")
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(text), change[0], change[1], 1)
			if err := os.WriteFile("nfpm.yaml", []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			err = run([]string{"rpm", "nfpm.yaml", "out.rpm"})
			if err == nil || !strings.Contains(err.Error(), "cannot make the rpm: ") {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Lstat("out.rpm"); !os.IsNotExist(err) {
				t.Errorf("out.rpm: %v", err)
			}
		})
	}
}
