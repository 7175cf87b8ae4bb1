package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// CheckWaived returns an error, in words for the user, where it would be wrong to say
// that there is neither kubelet nor runtime here: a kubelet with this root directory
// runs, or something listens at one of the sockets. It asks once, at the start, and in
// doubt refuses.
//
// A socket that refuses the connection (ECONNREFUSED) is no reason: nothing listens, and
// the file is what a runtime left when it was killed or uninstalled. A runtime that is
// merely down could come back, but its kubelet runs on meanwhile and is found.
func CheckWaived(ctx context.Context, procDir, rootDir string, sockets []string) error {
	err, hung := bounded.Do(ctx, new(bounded.Guard), "waived", func() error {
		if err := noKubelet(procDir, rootDir); err != nil {
			return err
		}
		for _, path := range sockets {
			if err := nobodyListens(ctx, path); err != nil {
				return err
			}
		}
		return nil
	})
	if hung != nil {
		err = fmt.Errorf("cannot find out whether a kubelet or a runtime is here: %w", hung)
	}
	if err != nil {
		return fmt.Errorf("--runtime-endpoint none is refused: %w", err)
	}
	return nil
}

func noKubelet(procDir, rootDir string) error {
	ks, err := scanner{procDir: procDir, thorough: true}.find(rootDir)
	if err != nil {
		return fmt.Errorf("cannot find out whether a kubelet runs: %w", err)
	}
	if len(ks.ours) > 0 {
		return fmt.Errorf("a kubelet runs here: %s", ks.ours[0])
	}
	return nil
}

func nobodyListens(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("cannot find out whether a runtime is here: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil // nothing can listen there
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("cannot find out whether a runtime is here: %w", err)
	}
	_ = conn.Close() // nothing was sent
	return fmt.Errorf("a runtime listens at %s", path)
}
