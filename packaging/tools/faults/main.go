// Command faults plants one fault at a time in a copy of a file, and reports which test catches it: make faults. The lists
// of faults are in the files of this directory, one a room. It is in no package.
//
// The tree is never changed: go test reads the changed file by its -overlay (go help build). An overlay changes the build ID
// of what it replaces, so no result of the program without the fault is used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// kind is what went wrong with faults of this kind, as an earlier trial found: no test noticed them.
type kind string

const (
	politeStop kind = "polite stop" // the daemon is stopped by SIGTERM between two steps
	durability kind = "durability"  // what is synced, by whom and in which order
	operator   kind = "operator"    // an operator's command is carried out that must be refused
	guard      kind = "guard"       // against something that a test has to make first
	refused    kind = "refused"     // what must be refused happens
	model      kind = "model"       // clocks that jump, PIDs that return, rules that a model may share with the program
	audit      kind = "audit"       // what reaches the journal
	partial    kind = "partial"     // scans of few pods
	slip       kind = "slip"        // everything else
)

// fault is one planted fault.
type fault struct {
	kind     kind
	slip     string // what somebody did wrong: "Dead ignores a mount that could not be read"
	file, in string // the file, and the function, method (Type.Name), type, variable or constant that has the text
	old, new string // the text, which is there once, and what it becomes
	// tests are the directories of the packages whose tests run, in this order. Empty: the file's own. A regular expression
	// after the directory and a space names the tests that run where the whole package takes long.
	tests []string
}

// lists has the faults of all rooms.
var lists = [][]fault{
	parsersFaults, judgeFaults, reaperFaults, quarantineFaults, ledgerFaults, logsFaults, fdpathFaults, contentFaults,
	nodeFaults, criFaults, boundedFaults, auditFaults, cniFaults, fleetFaults, configFaults, showFaults, cmdFaults,
}

func (f *fault) room() string { return path.Dir(f.file) }

func (f *fault) packages() []string {
	if len(f.tests) > 0 {
		return f.tests
	}
	return []string{f.room()}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root := flag.String("root", "../..", "the directory of the program's module")
	exec := flag.String("exec", "", "go test's -exec: with what a test runs")
	check := flag.Bool("check", false, "only check that the text of each fault is in the tree")
	only := flag.String("run", "", "only faults that match this regular expression by kind, file, function or slip")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("cannot read -run: %w", err)
	}
	var faults []fault
	var wrong []error
	for _, f := range slices.Concat(lists...) {
		if match.MatchString(fmt.Sprintf("%s: %s: %s: %s", f.kind, f.file, f.in, f.slip)) {
			faults = append(faults, f)
			_, err := f.plant(*root)
			wrong = append(wrong, err)
		}
	}
	if len(faults) == 0 {
		return errors.New("no fault matches -run")
	}
	if err := errors.Join(wrong...); err != nil || *check {
		return err
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := tester{root: *root, exec: *exec, dir: dir}
	if err := t.unchanged(ctx, faults); err != nil {
		return err
	}
	results, err := t.all(ctx, faults)
	if err != nil {
		return err
	}
	return report(results)
}

// each calls do for 0 to n-1, some at once: most tests wait for the disk. It ends with the first error.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// all tries the faults.
func (t *tester) all(ctx context.Context, faults []fault) ([]result, error) {
	results, wrong := make([]result, len(faults)), make([]error, len(faults))
	var done atomic.Int64
	err := each(ctx, len(faults), func(ctx context.Context, i int) error {
		f := faults[i]
		r, err := t.try(ctx, f)
		if err != nil && ctx.Err() == nil {
			wrong[i] = fmt.Errorf("%s, %s: %s: %w", f.file, f.in, f.slip, err)
		}
		if results[i] = r; err != nil {
			return ctx.Err()
		}
		fmt.Printf("%3d/%d  %-11s  %s: %s\n%9s%s, %.1f s\n", done.Add(1), len(faults), f.kind, f.room(), f.slip, "", r, r.took.Seconds())
		return nil
	})
	return results, errors.Join(append(wrong, err)...)
}

// unchanged runs the tests once without a fault: else a test that fails anyway would count as one that catches.
func (t *tester) unchanged(ctx context.Context, faults []fault) error {
	var all []string
	for _, f := range faults {
		all = append(all, f.packages()...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return each(ctx, len(all), func(ctx context.Context, i int) error {
		from := time.Now()
		failed, err := t.test(ctx, all[i], "")
		if err == nil && failed != "" {
			err = fmt.Errorf("%s: repair it first", failed)
		}
		if err != nil {
			return fmt.Errorf("the tests of %s fail without a fault: %w", all[i], err)
		}
		fmt.Printf("without a fault: %s passes, %.1f s\n", all[i], time.Since(from).Seconds())
		return nil
	})
}
