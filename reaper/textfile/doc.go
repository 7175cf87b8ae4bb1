// Package textfile finds the directory from which this node's node exporter reads textfiles:
// the one that a running node exporter was told, else the one in the file of its arguments, else
// the first of the usual places that is there.
//
// It makes no directory and writes nothing: audit writes the metrics where it says.
package textfile
