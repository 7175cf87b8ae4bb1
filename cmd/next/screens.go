package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/loop"
)

// The screens, until show has them.

func plain(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(v)
}

func showScan(w io.Writer, s loop.Status) error                        { return plain(w, s) }
func showSweep(w io.Writer, s loop.Status) error                       { return plain(w, s) }
func showDoctor(w io.Writer, s loop.Status) error                      { return plain(w, s) }
func showExplain(w io.Writer, _ loop.Status, e loop.Explanation) error { return plain(w, e) }
func showQuarantine(w io.Writer, s loop.Status) error                  { return plain(w, s) }
func showEvents(w io.Writer, events []judge.Event) error               { return plain(w, events) }
func showUnmount(w io.Writer, u loop.Unmounting) error                 { return plain(w, u) }

func showResumed(w io.Writer, was bool) error {
	_, err := fmt.Fprintf(w, "was open: %t\n", was)
	return err
}

func showProgress(w io.Writer, s loop.Status, wait time.Duration) {
	_, _ = fmt.Fprintf(w, "next scan in %s\n", wait.Round(time.Second))
}
