package main

import (
	"bufio"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
)

// home is where the project says that it lives, as in nfpm.yaml.
const home = "https://github.com/orphan-reaper/orphan-reaper"

// The part of an in-toto statement with SLSA's provenance that is used:
// https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// build says what somebody may check of a release: from which commit it was made, by whom, and of
// what. The files are those of sums, in the form of sha256sum. The modules are those of the programs,
// with the digests of go.sum, as the Go linker wrote them down.
func build(version, commit, builder string, programs []string, sums io.Reader) ([]byte, error) {
	if version == "" || commit == "" || builder == "" || len(programs) == 0 {
		return nil, errors.New(usage)
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	lines := bufio.NewScanner(sums)
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if _, err := hex.DecodeString(sum); !ok || err != nil || len(sum) != 64 {
			return nil, fmt.Errorf("cannot read the line %q: want what sha256sum writes", lines.Text())
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(s.Subject) == 0 {
		return nil, errors.New("there is no file to tell of: stdin is empty")
	}
	definition := &s.Predicate.BuildDefinition
	source := "git+" + home + "@refs/tags/v" + version
	definition.BuildType = home + "/blob/v" + version + "/packaging/release.sh"
	definition.ExternalParameters = map[string]string{"source": source}
	s.Predicate.RunDetails.Builder.ID = builder
	var modules []resource
	for _, program := range programs {
		more, err := linked(program)
		if err != nil {
			return nil, err
		}
		modules = append(modules, more...)
	}
	slices.SortFunc(modules, func(a, b resource) int { return cmp.Compare(a.URI, b.URI) })
	modules = slices.CompactFunc(modules, func(a, b resource) bool { return a.URI == b.URI })
	definition.ResolvedDependencies = append([]resource{{URI: source, Digest: map[string]string{"gitCommit": commit}}}, modules...)
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// linked are Go and the modules in a program. The source itself has no digest there: its commit has.
func linked(program string) ([]resource, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("cannot read the build information of %s: %w", program, err)
	}
	all := []resource{{URI: purl("std", strings.TrimPrefix(info.GoVersion, "go"))}}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Sum == "" {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			return nil, fmt.Errorf("cannot read the digest %q of %s: %w", m.Sum, m.Path, err)
		}
		// https://github.com/in-toto/attestation/blob/main/spec/v1/digest_set.md: dirHash is Go's h1, in hex.
		all = append(all, resource{URI: purl(m.Path, m.Version), Digest: map[string]string{"dirHash": hex.EncodeToString(sum)}})
	}
	return all, nil
}
