package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ready is the word that the node's process says on descriptor 3 once it stands; anything
// else is why the kernel does not allow it.
const ready = "ready\n"

// ownTree gives this process, the first of its namespaces, a name, a /proc and a tmpfs of its own.
func ownTree(dir string) error {
	// Nothing may come to the host: as root the tree is shared with it at first.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := unix.Sethostname([]byte("node-1")); err != nil {
		return fmt.Errorf("cannot name the node: %w", err)
	}
	// Refused where parts of the host's /proc are hidden, as in most containers.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64m"); err != nil {
		return fmt.Errorf("cannot mount a tmpfs: %w", err)
	}
	return nil
}

// mountBind mounts a volume into a pod and makes the mount point, as a CSI driver does.
func mountBind(volume, target string) error {
	if err := os.MkdirAll(target, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(volume, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount a volume: %w", err)
	}
	return nil
}

// runNode is the demo inside its namespaces. refused says why better ones are not there.
func runNode(dir, binary, refused string) error {
	plain := os.Getenv("DEMO_PLAIN") != ""
	tell := os.NewFile(3, "answer")
	if !plain {
		if err := ownTree(dir); err != nil {
			_, _ = fmt.Fprintln(tell, err) // without an answer it counts as refused, too
			return nil
		}
	}
	if _, err := tell.WriteString(ready); err != nil {
		return err
	}
	if err := tell.Close(); err != nil {
		return err
	}
	n := &node{dir: dir, plain: plain}
	d := &demo{node: n, teller: newTeller(os.Stdout), refused: refused}
	defer d.end()
	return d.story(binary)
}
