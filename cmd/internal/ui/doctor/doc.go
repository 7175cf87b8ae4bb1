// Package doctor has what the command doctor shows: one screen that says why a kubelet complains,
// and what a person has to do.
//
// It is one of the views: it opens nothing and reads no clock. What becomes of a pod, and whether a person
// has something to do, package diagnosis says; the words for a reason are the table's of package ui.
package doctor
