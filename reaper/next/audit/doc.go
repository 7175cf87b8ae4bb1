// Package audit writes what the program did to the journal, and keeps its metrics.
package audit
