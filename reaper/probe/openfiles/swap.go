package openfiles

import (
	"bytes"
	"fmt"
	"os"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// swaps finds the files in pods that are swap space. The kernel holds them, and refuses to
// unlink them. A line of /proc/swaps, proc_swaps(5):
//
//	Filename        Type   Size    Used   Priority
//	/dir/swap\040file file   524284  0      -2
//
// The path is told as a mountinfo's are. One that leads nowhere is in another mount namespace,
// or that of the machine of which this node is a part.
func (s *scan) swaps() error {
	text, err := os.ReadFile(s.Swaps)
	if beneath.Gone(err) {
		return nil // a kernel without swap
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 2 || string(f[1]) != "file" {
			continue
		}
		path := procfs.Unescape(f[0])
		id, err := s.places.ask("swap: "+path, func() answered { return s.places.statBelow("/", path) })
		s.kernelHolds(fmt.Sprintf("%s is swap space, and the kernel lets nobody remove it: swapoff '%[1]s'", clean.Name(path)), path, id, err == nil)
	}
	return nil
}
