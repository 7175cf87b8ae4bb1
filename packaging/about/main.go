// Command about writes what a package says about itself beside its files: the bill of
// materials of the program in it, the licences of what is linked into that, and its changes
// in the form that a package manager reads; and of what a release was made. packaging/packages.sh
// and packaging/release.sh call it; it is in no package.
//
// It reads the program that was built and the modules that go list names, writes to stdout,
// and reads no clock, so that the same commit always gives the same bytes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const usage = `usage: about static PROGRAM                                      fail if it needs a dynamic linker
       about sbom PROGRAM VERSION EPOCH                          CycloneDX JSON
       about licenses PROGRAM GOROOT <MODULES                    "PATH VERSION DIR", one module a line
       about changelog deb|rpm VERSION EPOCH MAINTAINER <CHANGELOG.md
       about provenance VERSION COMMIT BUILDER PROGRAM... <SHA256SUMS   in-toto statement with SLSA's provenance`

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "about:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	for len(args) < 5 {
		args = append(args, "")
	}
	var text []byte
	var err error
	switch args[0] {
	case "static":
		err = static(args[1])
	case "sbom":
		text, err = withTime(args[3], func(at time.Time) ([]byte, error) { return sbom(args[1], args[2], at) })
	case "licenses":
		text, err = licenses(args[1], args[2], stdin)
	case "changelog":
		text, err = withTime(args[3], func(at time.Time) ([]byte, error) {
			releases, err := readChangelog(stdin, args[2], at)
			if err != nil {
				return nil, err
			}
			if args[1] == "rpm" {
				return rpmChangelog(releases, args[4])
			}
			return debChangelog(releases, args[4]), nil
		})
	case "provenance":
		text, err = build(args[1], args[2], args[3], args[4:], stdin)
	default:
		err = errors.New(usage)
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// withTime reads the seconds since 1970 that SOURCE_DATE_EPOCH gives.
func withTime(epoch string, write func(time.Time) ([]byte, error)) ([]byte, error) {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cannot read the time %q: want seconds since 1970", epoch)
	}
	return write(time.Unix(seconds, 0).UTC())
}
