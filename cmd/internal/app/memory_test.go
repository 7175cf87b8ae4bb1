package app

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, file, text string
		want               int64
	}{
		"v2":           {"0::/a\n", "a/memory.max", "536870910\n", 429496728},
		"v2, no limit": {"0::/a\n", "a/memory.max", "max\n", math.MaxInt64},
		"v1":           {"3:cpu:/b\n2:memory:/a\n0::/\n", "memory/a/memory.limit_in_bytes", "1000\n", 800},
		"none":         {"", "x/y", "1", math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"self/cgroup": c.cgroup, c.file: c.text} {
				path := filepath.Join(dir, file)
				testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
			}
			if got := memoryLimit(dir, dir); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestGiveBack checks that mappings of the program's file leave memory.
func TestGiveBack(t *testing.T) {
	for what, prot := range map[string]int{"instructions": unix.PROT_READ | unix.PROT_EXEC, "constants": unix.PROT_READ} {
		pages := mapProgram(t, 1<<20, prot)
		for i := 0; i < len(pages); i += os.Getpagesize() {
			_ = bytes.Clone(pages[i : i+1]) // loads the page
		}
		before := resident(t, pages)
		releaseMemory()
		if after := resident(t, pages); before != len(pages) || after != 0 {
			t.Errorf("%s: %d bytes in memory, %d before", what, after, before)
		}
	}
}

// TestGiveBackKeepsChanges checks that a changed page of a read-only mapping, as one with relocations, keeps its
// content.
func TestGiveBackKeepsChanges(t *testing.T) {
	page := mapProgram(t, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE)
	page[0] = 'x'
	testkit.Must(t, unix.Mprotect(page, unix.PROT_READ))
	releaseMemory()
	if page[0] != 'x' {
		t.Errorf("a changed page has the file's content: %q", page[:4])
	}
}

// mapProgram maps the beginning of the program's file again, as the kernel does at its start.
func mapProgram(t *testing.T, size, prot int) []byte {
	t.Helper()
	exe, err := os.Open("/proc/self/exe")
	testkit.Must(t, err)
	defer closeQuietly(exe)
	pages, err := unix.Mmap(int(exe.Fd()), 0, size, prot, unix.MAP_PRIVATE)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, unix.Munmap(pages)) })
	return pages
}

// resident returns the resident size of the mapping from smaps, in bytes.
func resident(t *testing.T, pages []byte) int {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	testkit.Must(t, err)
	defer closeQuietly(f)
	begin, ours := fmt.Sprintf("%x-", uintptr(unsafe.Pointer(unsafe.SliceData(pages)))), false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if !strings.HasSuffix(fields[0], ":") {
			ours = strings.HasPrefix(fields[0], begin)
		}
		if ours && fields[0] == "Rss:" {
			kb, err := strconv.Atoi(fields[1])
			testkit.Must(t, err)
			return kb << 10
		}
	}
	t.Fatal("smaps does not show the mapping")
	return 0
}
