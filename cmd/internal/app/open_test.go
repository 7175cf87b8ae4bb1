package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAsked checks whether the kubelet and the API server are asked, and whether the latter's silence keeps every
// pod, which a reload changes.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		text, kubeconfig, node, certificate string
		need                                bool
	}{
		{"", "", "", "", false},
		{"api_unreachable: keep\n", "", "", "", false},
		{"kubeconfig: /k\nnode_name: n-1.example\n", "/k", "n-1.example", "", true},
		{"kubeconfig: /k\napi_unreachable: ignore\n", "/k", "", "", false},
		{"kubelet_client_certificate: /c\n", "", "", "/c", false},
	} {
		cfg, err := loadFile(t, c.text)
		testkit.Must(t, err)
		p := probing(cfg, nil, nil)
		if p.Kubeconfig != c.kubeconfig || p.NodeName != c.node || p.KubeletClientCertificate != c.certificate || p.KubeletClientKey != "" ||
			p.KubeletTokenFile != "" {
			t.Errorf("%q: %+v", c.text, p)
		}
		if need := Rules(cfg).NeedAPI; need != c.need {
			t.Errorf("%q: needs the API server: %t", c.text, need)
		}
	}
	was, err := loadFile(t, "kubeconfig: /k\n")
	testkit.Must(t, err)
	next, err := loadFile(t, "kubeconfig: /k\napi_unreachable: ignore\n")
	testkit.Must(t, err)
	live, restart := was.Diff(next)
	if strings.Join(live, " ") != "api_unreachable" || restart != nil || Rules(was.With(next, live)).NeedAPI {
		t.Errorf("live settings %v, restart settings %v", live, restart)
	}
}

func loadFile(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(t.Context(), config.Input{File: file})
}

const orphanLine = `E0331 15:47:45.892216    3416 kubelet_volumes.go:140] Orphaned pod "0badf00d-6131-4aaa-8bbb-cccc00006131" found, but volume ` +
	`paths are still present on disk`

// TestUnitsFound checks that the lines of a unit in which a kubelet was found count. If the operator has configured
// units, no other is searched for, and any command in them counts.
func TestUnitsFound(t *testing.T) {
	line := func(unit, comm string) parsers.Line {
		return parsers.Line{Text: []byte(orphanLine), Source: "journald", Journal: &parsers.JournalFields{Unit: unit, Comm: comm, UID: "0"}}
	}
	named, err := config.Load(t.Context(), config.Input{Usual: os.DevNull, Given: map[string][]string{"journal-unit": {"node.service"}}})
	testkit.Must(t, err)
	usual := config.Config{}
	found := source.NewUnits(func(context.Context) []string { return []string{"k3s-shop.service"} }, slog.New(slog.DiscardHandler))
	parse := newParse(usual, found)
	if _, ok := parse(line("k3s-shop.service", "k3s-server")); ok {
		t.Error("the unit counts before it was found")
	}
	found.Find(t.Context())
	for unit, comm := range map[string]string{"k3s-shop.service": "k3s-server", "kubelet.service": "kubelet"} {
		if _, ok := parse(line(unit, comm)); !ok {
			t.Errorf("%s does not count", unit)
		}
		if _, ok := parse(line(unit, "logger")); ok {
			t.Errorf("logger in %s counts", unit)
		}
	}
	byHand := newUnits(named, slog.New(slog.DiscardHandler))
	if byHand.Find(t.Context()) != nil {
		t.Error("searches for units beside the configured ones")
	}
	if _, ok := newParse(named, byHand)(line("node.service", "anything")); !ok {
		t.Error("a configured unit does not count")
	}
}

// TestNoNode checks that a missing root directory, or one that is not a directory, is reported with the action, in
// the same words whatever failed first.
func TestNoNode(t *testing.T) {
	here := config.Config{RootDir: t.TempDir()}
	for err, want := range map[error]bool{fs.ErrNotExist: true, unix.ENOTDIR: true, unix.EIO: false} {
		s, hinted := errors.AsType[*exit.Error](noNode(here, fmt.Errorf("cannot list: %w", err)))
		if hinted != want || hinted && (!strings.Contains(s.Hint, "--root-dir") || !strings.Contains(s.Error(), "cannot list")) {
			t.Errorf("%v: %+v", err, s)
		}
	}
	file := testkit.File(t, "file", "")
	for root, want := range map[string]string{"/nonexistent": "", file: ": it is no directory"} {
		cfg := config.Config{RootDir: root}
		for _, err := range []error{RootThere(cfg), noNode(cfg, fmt.Errorf("cannot list: %w", fs.ErrNotExist))} {
			if want := "cannot find the kubelet's root directory " + root + want; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", root, err, want)
			}
		}
	}
}

var errBroken = errors.New("broken")

// broken implements the loop's interfaces, and every call fails.
type broken struct {
	reaper.Prober
	reaper.Ledger
}

func (broken) Look(context.Context, []policy.EntryState, []parsers.PodUID) (policy.Look, error) {
	return policy.Look{}, errBroken
}

func (broken) Append(...policy.Record) ([]policy.Record, error) { return nil, errBroken }
func (broken) Record(policy.Record) error                       { return errBroken }

// TestCountFailures checks that failures in the loop are counted, and that the file has a failed look at once, since
// no later look may succeed.
func TestCountFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.prom")
	m := newMetricsFile(t.Context(), config.Config{MetricsFile: path}, "v0", slog.New(slog.DiscardHandler), slog.LevelInfo)
	r := metered{broken{}, broken{}, broken{}, config.Config{}, m}
	for range 2 {
		if _, err := r.Append(); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}
	for range 2 {
		if err := r.Record(policy.Record{}); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}
	if _, err := r.Look(t.Context(), nil, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	for _, want := range []string{`{operation="ledger"} 2`, `{operation="journal"} 2`, `{operation="look"} 1`} {
		if !strings.Contains(string(text), "orphan_reaper_failures_total"+want) {
			t.Errorf("%s is not in the file", want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := r.Look(ended, nil, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	m.Flush()
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `{operation="look"} 1`) {
		t.Errorf("a look that was interrupted by a stop counts as failed: %v", err)
	}
}
