// Command image makes the image that the DaemonSet runs: an OCI image layout in a tar, with one
// image for each architecture, without a registry and without a container engine.
// packaging/packages.sh calls it; it is in no package.
//
// It reads the trees that it is given and writes to stdout. Of the trees it takes names, contents
// and what is executable, and it reads no clock, so that the same commit always gives the same
// bytes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const usage = `usage: image VERSION EPOCH REVISION TREE...
TREE is the root of one image, with the program as TREE/orphan-reaper, which also says for what architecture it is`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) < 4 {
		return errors.New(usage)
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read the time %q: want seconds since 1970", args[1])
	}
	r := release{version: args[0], at: time.Unix(seconds, 0).UTC(), revision: args[2]}
	text, err := r.layout(args[3:])
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}
