// Package human writes values as people read them: sizes, durations, times, counts, lines of
// a width, and the word that was meant where one was mistyped.
//
// It is pure: a string or a number in, a string out. It has no words about pods.
package human
