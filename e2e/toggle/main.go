// Command toggle mounts a directory on others and unmounts it again, as fast as it can, until it is told to
// end. Then it leaves nothing mounted.
//
//	toggle SOURCE PATTERN
//
// The others are those that match the pattern, at any time. If one is moved away while it is mounted on, toggle
// waits for it. At the end it prints how often it has mounted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if err := toggle(os.Args[1], os.Args[2]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "toggle:", err)
		os.Exit(1)
	}
}

func toggle(source, pattern string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mounted := map[string]bool{}
	for mounts := 0; ; {
		targets, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, target := range targets {
			if ctx.Err() == nil && !mounted[target] && syscall.Mount(source, target, "", syscall.MS_BIND, "") == nil {
				mounted[target] = true
				mounts++
			}
		}
		for target := range mounted {
			switch err := syscall.Unmount(target, 0); {
			case err == nil:
				delete(mounted, target)
			case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EINVAL):
				// A process has it open, or it was moved away, and comes back with the mount.
			default:
				return err
			}
		}
		if ctx.Err() != nil {
			if len(mounted) == 0 {
				fmt.Println(mounts)
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
