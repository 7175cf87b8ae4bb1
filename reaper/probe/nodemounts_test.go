package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestReadMounts: a user's mount whose path is longer than a block takes away nothing from the others.
func TestReadMounts(t *testing.T) {
	text := "21 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n" +
		fmt.Sprintf("22 21 0:9 / /home/%s rw - fuse f rw\n", strings.Repeat("d/", 1<<20)) +
		"23 21 8:1 /a /my\\040disk rw,relatime master:7 - ext4 /dev/sda1 rw\n"
	got, err := readMounts(testkit.WriteText(t, t.TempDir()+"/mountinfo", text))
	must(t, err)
	if len(got) != 3 || got[0].ID != 21 || !slices.Equal(got[0].Peers, []string{"shared:1", "master:2"}) || len(got[1].Peers) != 0 ||
		got[2].Point != "/my disk" || !slices.Equal(got[2].Peers, []string{"master:7"}) || len(got[1].Point) > 32<<10 {
		t.Errorf("%d mounts: %.300v", len(got), got)
	}
	if _, err := readMounts(testkit.WriteText(t, t.TempDir()+"/mountinfo", "x 1 8:1 / / rw - ext4 d rw\n")); err == nil {
		t.Error("a mount without a number is read")
	}
}
