// Package exit has the exit codes of the command line, and errors that carry an exit code and a hint on what to do.
//
// It prints nothing and ends no process: main does.
package exit

import (
	"errors"
	"fmt"
)

// The exit codes.
const (
	DoneCode      = 0
	FailedCode    = 1
	UsageCode     = 2 // wrong usage or configuration
	AttentionCode = 3 // done, and something needs an operator
)

// Error is an error with an exit code. If Err is nil, it has no message.
type Error struct {
	Code int
	Err  error
	Hint string // what to do about it
}

// Error returns the message, or the code if there is none.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error behind the code.
func (e *Error) Unwrap() error { return e.Err }

// Attention returns an error with AttentionCode and no message if an operator is needed, else nil.
func Attention(needed bool) error {
	if !needed {
		return nil
	}
	return &Error{Code: AttentionCode}
}

// Usagef returns an error in how the program was called.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: UsageCode, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Failf returns a failure with a hint on what to do.
func Failf(hint, format string, args ...any) error {
	return &Error{Code: FailedCode, Err: fmt.Errorf(format, args...), Hint: hint}
}

// WithHint returns an error whose text has the hint, too.
func WithHint(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		return fmt.Errorf("%w; %s", err, e.Hint)
	}
	return err
}

// Code returns the exit code of an error: the one that it carries, else 1.
func Code(err error) int {
	if err == nil {
		return DoneCode
	}
	if s, ok := errors.AsType[*Error](err); ok {
		return s.Code
	}
	return FailedCode
}
