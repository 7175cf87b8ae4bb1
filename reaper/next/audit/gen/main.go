// Command gen writes the message catalog: go generate ./...
package main

import (
	"os"

	"github.com/orphan-reaper/orphan-reaper/reaper/next/audit"
)

func main() {
	if err := os.WriteFile(os.Args[1], []byte(audit.Catalog()), 0o644); err != nil {
		panic(err)
	}
}
