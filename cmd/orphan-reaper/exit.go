package main

import (
	"errors"
	"fmt"
)

// The exit codes of the command line's contract.
const (
	exitDone      = 0 // done, nothing left to say
	exitFailed    = 1
	exitUsage     = 2 // wrong usage or configuration
	exitAttention = 3 // done, and something is kept that a person should look at
)

// statusError ends the program with a code and, where err is set, a word.
type statusError struct {
	code int
	err  error
	hint string // what to do about it
}

// Error returns the word, which may be empty.
func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error behind the code.
func (e *statusError) Unwrap() error { return e.err }

// attention says by the exit code alone that a person should look at what is kept.
func attention(needed bool) error {
	if !needed {
		return nil
	}
	return &statusError{code: exitAttention}
}

// usagef is an error in how the program was called.
func usagef(hint, format string, args ...any) error {
	return &statusError{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// failf is a failure with a word on what to do.
func failf(hint, format string, args ...any) error {
	return &statusError{code: exitFailed, err: fmt.Errorf(format, args...), hint: hint}
}

// exitCode gives each error its code: the one it carries, else 1.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.code
	}
	return exitFailed
}
