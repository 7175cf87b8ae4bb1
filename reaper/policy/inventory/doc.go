// Package inventory counts the pods of one look by state, for people and for metrics.
//
// No verdict rests on a count, so policy does not import this package. One doubt about a pod is
// a doubt about the number, which is then not given.
package inventory
