package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// successor: a dead pod and a living one have the same CSI volume. It is staged as long as the living one runs, and
// keeps the dead one only until its owner is found.
func successor(t *testing.T, n *node) {
	const driver, handle = "csi.e2e.example", "vol-1"
	const data = `{"attachmentID":"a","driverName":"` + driver + `","nodeName":"n","specVolID":"pv-1","volumeHandle":"` + handle + `"}`
	uid, next := n.uid("0badf00d-a000-4000-8000-00000000003_"), n.livingPods(t)[0].uid
	mount := func(path string) {
		t.Helper()
		if err := unix.Mount("e2e", mkdir(t, path), "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	plugin := filepath.Join(n.root, "plugins", "kubernetes.io", "csi", driver)
	t.Cleanup(func() { _ = os.RemoveAll(plugin) })
	staged := filepath.Join(plugin, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
	mount(filepath.Join(staged, "globalmount"))
	write(t, filepath.Join(staged, "vol_data.json"), `{"driverName":"`+driver+`","volumeHandle":"`+handle+`"}`)
	made := mkdir(t, filepath.Join(n.root, "planting", uid))
	volume := filepath.Join("volumes", "kubernetes.io~csi", "pv-1")
	write(t, filepath.Join(mkdir(t, filepath.Join(made, volume)), "vol_data.json"), data)
	write(t, filepath.Join(mkdir(t, filepath.Join(made, volume, "mount")), "in the way"), "")
	age(made)
	rename(t, made, filepath.Join(n.pods, uid))
	d := n.reap(t)
	d.awaitReason(t, uid, "staged")

	own := filepath.Join(n.pods, next, volume)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(n.pods, next, "volumes", "kubernetes.io~csi")) })
	mount(filepath.Join(own, "mount"))
	write(t, filepath.Join(own, "vol_data.json"), data)
	d.look()
	d.awaitCleaned(t, uid)
	if !exists(filepath.Join(own, "vol_data.json")) {
		t.Errorf("the successor has lost its volume:\n%s", d.Tail(20))
	}
}
