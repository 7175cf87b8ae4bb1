package testkit

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Node makes the files of a node in Base, a temporary directory. Names are relative to it.
type Node struct {
	T    *testing.T
	Base string
}

// Path returns the absolute path of a name.
func (n *Node) Path(rel string) string { return filepath.Join(n.Base, rel) }

// PodDir returns the name of a pod's directory.
func (n *Node) PodDir(uid parsers.PodUID) string { return "kubelet/pods/" + string(uid) }

// Mkdir makes directories and their parents.
func (n *Node) Mkdir(rels ...string) {
	n.T.Helper()
	for _, rel := range rels {
		Must(n.T, os.MkdirAll(n.Path(rel), 0o755))
	}
}

// Write writes a file, and makes its parents.
func (n *Node) Write(rel, text string) {
	n.T.Helper()
	n.Mkdir(filepath.Dir(rel))
	Must(n.T, os.WriteFile(n.Path(rel), []byte(text), 0o600))
}

// Symlink makes a symbolic link, and its parents.
func (n *Node) Symlink(target, rel string) {
	n.T.Helper()
	n.Mkdir(filepath.Dir(rel))
	Must(n.T, os.Symlink(target, n.Path(rel)))
}

// NewUID returns a random UID of a pod from the API server.
func NewUID() parsers.PodUID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return parsers.PodUID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// Open opens a file until the test ends.
func Open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	Must(t, err)
	t.Cleanup(func() { Must(t, f.Close()) })
	return f
}
