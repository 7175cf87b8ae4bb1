package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

func newParseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "parse [FILE...]", Short: "Print the kubelet's reports in a log; reads no node",
		Long: `Read the lines of a log, stdin by default, and print one JSON object for each
report of an orphaned pod. On stderr it prints how many other lines have the
words of a report in a form that is not read.`,
		Example: "  journalctl -u kubelet -o json | orphan-reaper parse | jq -r .uid | sort -u",
		RunE: func(_ *cobra.Command, files []string) error {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // a read from a terminal does not end by itself
			return a.parse(files)
		},
	}
}

// parsed is one report. Count is nil if the line has no number of errors.
type parsed struct {
	File     string         `json:"file,omitempty"` // if several were named
	Line     int            `json:"line"`
	UID      parsers.PodUID `json:"uid"`
	Kind     string         `json:"kind"` // "removal" or "volumes"
	Reason   string         `json:"reason"`
	Count    *int           `json:"count"`
	PID      int            `json:"pid,omitempty"`
	Releases bool           `json:"strict"` // whether the line is in a form that may release a pod
	Words    string         `json:"words"`
}

// parse reads each file in turn. One that cannot be read does not stop the others.
func (a *app) parse(files []string) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	out := bufio.NewWriter(a.out)
	unread, errs := 0, []error{}
	for _, name := range files {
		if err := a.parseFile(name, len(files) > 1, out, &unread); err != nil {
			errs = append(errs, fmt.Errorf("cannot read %s: %w", name, err))
		}
		if out.Flush() != nil { // it is returned below
			break
		}
	}
	errs = append(errs, out.Flush())
	_, _ = fmt.Fprintf(a.stderr, "orphan-reaper: lines with the words of a report in a form that is not read: %d\n", unread)
	return errors.Join(errs...)
}

func (a *app) parseFile(name string, named bool, out *bufio.Writer, unread *int) error {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	encoder := json.NewEncoder(out)
	for found, err := range parsers.Scan(promptly{in, out}, unread) {
		if err != nil {
			return fmt.Errorf("line %d: %w", found.Number, err)
		}
		p := parsed{
			Line: found.Number, UID: found.UID, Kind: found.Kind.String(), Reason: found.Reason, PID: found.PID,
			Releases: found.Strict && found.Kind == parsers.Removal, Words: bounded.Text(found.Words),
		}
		if named {
			p.File = name
		}
		if found.Count != parsers.NoCount {
			p.Count = &found.Count
		}
		if encoder.Encode(p) != nil {
			return nil // Flush returns the error again
		}
	}
	return nil
}

// promptly flushes the output before each read, since a read may wait, as in journalctl -f | orphan-reaper parse.
type promptly struct {
	in  io.Reader
	out *bufio.Writer
}

// Read flushes and reads. The next write returns the error of a failed flush.
func (r promptly) Read(b []byte) (int, error) {
	_ = r.out.Flush()
	return r.in.Read(b)
}
