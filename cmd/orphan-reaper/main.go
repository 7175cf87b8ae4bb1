// Command orphan-reaper removes the directories of orphaned pods from a Kubernetes node,
// and reports what it removed, what it kept, and why.
//
// Each command reads its flags and arguments, makes one call (cmd/internal/app) and shows one view (cmd/internal/ui). The
// package opens nothing of the node and has no rules: those are in reaper/policy.
package main

import (
	"os"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
)

func main() {
	person := app.Person{LoginUID: "/proc/self/loginuid", SudoUser: os.Getenv("SUDO_USER")}
	os.Exit(runAs(person, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
