// Package term writes text for people: to a terminal of its width with colours, or into a pipe as lines
// that a program can read. It has the tables, the JSON that moves no terminal, and the one line that says
// how far the work is.
//
// It writes to the stream that it was given and asks only that stream for its size. What is said, and
// of what, is package view's.
package term
