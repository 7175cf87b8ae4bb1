//go:build !generate

// Command orphan-reaper removes what is left of dead pods on a Kubernetes node, after their kubelet has reported them, and
// explains what it removed, what it kept, and why.
//
// Each command has a file: its flags, one call, one print. node.go opens what reads and changes the node, sources.go finds the
// kubelet's log, root.go prints every error. The rules are in reaper/judge, the screens in cmd/internal/show.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
