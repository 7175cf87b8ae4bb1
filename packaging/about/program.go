package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// static fails where a program asks for a dynamic linker or a library: it would not start on
// a distribution older than the one it was built on.
func static(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", program, err)
	}
	defer f.Close() //nolint:errcheck // read only
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is not static: it has a segment %s; build it with CGO_ENABLED=0", program, p.Type)
		}
	}
	if s := f.SectionByType(elf.SHT_DYNAMIC); s != nil {
		return fmt.Errorf("%s is not static: it has a section %s; build it with CGO_ENABLED=0", program, s.Name)
	}
	return nil
}

// The part of CycloneDX 1.5 that is used: https://cyclonedx.org/docs/1.5/json/.
type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []depends   `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type depends struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// sbom lists what the linker put into the program, by the build information in it.
func sbom(program, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the build information of %s: %w", program, err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	main := component{
		Type: "application", Name: filepath.Base(program), Version: version, PURL: purl(info.Main.Path, version),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
	}
	main.Ref = main.PURL
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: metadata{at.Format(time.RFC3339), main}}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, component{Type: "library", Name: "std", Version: goVersion, PURL: purl("std", goVersion)})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}} // of the module, as in go.sum
		}
		b.Components = append(b.Components, c)
	}
	all := depends{Ref: main.Ref}
	for i := range b.Components {
		b.Components[i].Ref = b.Components[i].PURL
		all.On = append(all.On, b.Components[i].PURL)
	}
	b.Dependencies = []depends{all}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// purl is the package URL of a module: https://github.com/package-url/purl-spec.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// licenceFile matches what a module's authors ask to be kept with copies of it.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)

// licenses writes the licences and notices of Go and of each module in the program. A module
// without any is an error: nobody may pass it on.
func licenses(program, goroot string, modules io.Reader) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the build information of %s: %w", program, err)
	}
	dirs := map[string]string{}
	lines := bufio.NewScanner(modules)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 {
			dirs[f[0]+" "+f[1]] = f[2]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("The licences of what is linked into orphan-reaper. Its own is Apache-2.0.\n")
	if err := appendLicences(&b, "Go "+info.GoVersion, goroot); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		name := m.Path + " " + m.Version
		if dirs[name] == "" {
			return nil, fmt.Errorf("cannot find the files of %s: go mod download gets them", name)
		}
		if err := appendLicences(&b, name, dirs[name]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func appendLicences(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !licenceFile.MatchString(e.Name()) })
	if len(entries) == 0 {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("-", 78), name, e.Name(), bytes.TrimSpace(text))
	}
	return nil
}
