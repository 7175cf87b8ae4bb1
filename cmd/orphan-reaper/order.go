package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// order carries out an operator's order on pods in quarantine, and shows its results. hint is for an order that is refused.
func (a *app) order(cmd *cobra.Command, args []string, do func(*opened, []parsers.PodUID) ([]judge.Event, error), hint string) error {
	n, err := a.open(cmd, acts)
	if err != nil {
		return err
	}
	defer n.Close()
	uids, err := choose(args, n.quarantined(), "is in quarantine")
	if err != nil {
		return err
	}
	events, err := do(n, uids)
	if len(events) > 0 {
		err = errors.Join(err, a.print(events, func(w io.Writer) error { return show.Done(w, events) }))
	}
	if _, refused := errors.AsType[*reaper.RefusedError](err); refused {
		return &failure{codeFailed, err, hint}
	}
	return err
}

// terminal reports whether an operator can answer on stdin.
func (a *app) terminal() bool {
	f, ok := a.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask asks on the terminal, and returns an error unless the answer is the word.
func (a *app) ask(question, word string) error {
	_, _ = fmt.Fprintf(a.stderr, "%s Type %s to go on: ", question, word)
	answer, err := bufio.NewReader(io.LimitReader(a.in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != word {
		return failf("", "nothing was changed: the answer was not %s", word)
	}
	return nil
}
