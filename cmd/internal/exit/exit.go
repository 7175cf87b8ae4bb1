package exit

import (
	"errors"
	"fmt"
)

// The exit codes of the command line's contract.
const (
	DoneCode      = 0 // done, nothing left to say
	FailedCode    = 1
	UsageCode     = 2 // wrong usage or configuration
	AttentionCode = 3 // done, and something is kept that a person should look at
)

// Error ends the program with a code and, where err is set, a word.
type Error struct {
	Code int
	Err  error
	Hint string // what to do about it
}

// Error returns the word, which may be empty.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error behind the code.
func (e *Error) Unwrap() error { return e.Err }

// Attention says by the exit code alone that a person should look at what is kept.
func Attention(needed bool) error {
	if !needed {
		return nil
	}
	return &Error{Code: AttentionCode}
}

// Usagef is an error in how the program was called.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: UsageCode, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Failf is a failure with a word on what to do.
func Failf(hint, format string, args ...any) error {
	return &Error{Code: FailedCode, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Code gives each error its code: the one it carries, else 1.
func Code(err error) int {
	if err == nil {
		return DoneCode
	}
	if s, ok := errors.AsType[*Error](err); ok {
		return s.Code
	}
	return FailedCode
}
