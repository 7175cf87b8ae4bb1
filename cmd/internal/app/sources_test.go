package app

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const orphanLine = `E0331 15:47:45.892216    3416 kubelet_volumes.go:140] Orphaned pod "0badf00d-6131-4aaa-8bbb-cccc00006131" found, but volume ` +
	`paths are still present on disk`

// TestUnitsFound: a unit in which a kubelet was found is believed; where
// the operator named units, nothing is looked for and any command of theirs is believed.
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
		t.Error("believed before it was found")
	}
	found.Find(t.Context())
	for unit, comm := range map[string]string{"k3s-shop.service": "k3s-server", "kubelet.service": "kubelet"} {
		if _, ok := parse(line(unit, comm)); !ok {
			t.Errorf("%s is not believed", unit)
		}
		if _, ok := parse(line(unit, "logger")); ok {
			t.Errorf("logger in %s is believed", unit)
		}
	}
	byHand := newUnits(named, slog.New(slog.DiscardHandler))
	if byHand.Find(t.Context()) != nil {
		t.Error("looks for units beside those that were named")
	}
	if _, ok := newParse(named, byHand)(line("node.service", "anything")); !ok {
		t.Error("a unit that was named is not believed")
	}
}
