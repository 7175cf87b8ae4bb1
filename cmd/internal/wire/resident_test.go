package wire

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestGiveBack: the instructions leave memory, and the program goes on.
func TestGiveBack(t *testing.T) {
	before := textResident(t)
	giveBack()
	if after := textResident(t); after >= before {
		t.Errorf("%d KiB of instructions in memory, %d before", after, before)
	}
}

// textResident adds up what smaps says of this program's executable mappings, in KiB.
func textResident(t *testing.T) (sum int) {
	t.Helper()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(f)
	text := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) > 1 && strings.Contains(fields[0], "-") {
			text = fields[1] == "r-xp" && fields[len(fields)-1] == exe
		}
		if text && fields[0] == "Rss:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += kb
		}
	}
	if sum == 0 {
		t.Fatal("smaps shows no instructions of this program")
	}
	return sum
}
