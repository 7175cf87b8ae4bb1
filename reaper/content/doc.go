// Package content has the class of each path in a pod directory: what the kubelet made and what may be a user's.
//
// It takes names, types, sizes and the text of a few small files. It opens nothing and imports nothing of ours. A path
// that no rule names is Data, which only an operator removes.
package content
