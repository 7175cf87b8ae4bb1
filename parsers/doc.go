// Package parsers turns text into values: kubelet log lines in every transport
// into sightings, and strings into pod UIDs.
//
// It never opens a file, never reads the clock, makes no system call and imports
// nothing else of this module: whoever has bytes may ask what they say. What a
// line says is a hint and never proof (docs/how-it-decides.md); this package only
// makes sure that the words are the kubelet's own, and not words that the kubelet,
// or another program, quotes.
package parsers
