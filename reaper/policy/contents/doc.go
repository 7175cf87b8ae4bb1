// Package contents holds the rules of what lies in a pod directory: of what class an entry is,
// which classes a removal may take and when, and in which directory a volume is mounted.
//
// It takes names, types, sizes and the text of a few small files, and opens none: probe and
// removal read them and ask for the class. What no rule here names is data, which only an operator
// purges. policy imports this package, and it imports nothing of ours.
package contents
