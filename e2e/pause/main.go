// Command pause is the one program in the suite's image. Without arguments it is a pod sandbox: it waits for
// its end. With directories it is an application with data: it creates a file in each, keeps writing beside it,
// and fails as soon as a file is missing, so that a pod that lost something shows as a container that ended.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lost is the exit code of an application that misses its files.
const lost = 3

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	tick := time.NewTicker(200 * time.Millisecond)
	born := strconv.FormatInt(time.Now().UnixNano(), 10)
	// A name and flags are all that a stand-in for a kubelet has.
	dirs := slices.DeleteFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "--") })
	for _, dir := range dirs {
		keep(os.WriteFile(filepath.Join(dir, "born"), []byte(born), 0o600))
	}
	for {
		select {
		case <-end:
			return
		case now := <-tick.C:
			for _, dir := range dirs {
				b, err := os.ReadFile(filepath.Join(dir, "born"))
				if err == nil && string(b) != born {
					err = fmt.Errorf("%s/born holds %q, not %q", dir, b, born)
				}
				keep(err)
				keep(os.WriteFile(filepath.Join(dir, "beat"), []byte(now.String()), 0o600))
			}
		}
	}
}

func keep(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(lost)
	}
}
