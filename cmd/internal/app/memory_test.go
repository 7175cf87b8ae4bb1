package app

import (
	"math"
	"os"
	"path/filepath"
	"testing"

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
