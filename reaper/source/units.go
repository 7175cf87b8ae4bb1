package source

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Units are the units in which kubelets were found to run, besides the usual ones.
type Units struct {
	find func(context.Context) []string // nil where there is nothing to find
	log  *slog.Logger

	mu  sync.Mutex
	all []string
}

// NewUnits returns the units that find finds; nil finds none.
func NewUnits(find func(context.Context) []string, log *slog.Logger) *Units {
	return &Units{find: find, log: log}
}

// Find returns the units. One that was found stays: a kubelet that is being restarted
// shows none.
func (u *Units) Find(ctx context.Context) []string {
	if u.find == nil {
		return nil
	}
	now := u.find(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, unit := range now {
		if !slices.Contains(parsers.KubeletUnits(), unit) && !slices.Contains(u.all, unit) {
			u.all = append(u.all, unit)
			u.log.InfoContext(ctx, "a kubelet runs in this unit, whose journal is read too", slog.String("unit", unit))
		}
	}
	return slices.Clone(u.all)
}

// RunsKubelet reports whether a kubelet was found in the unit.
func (u *Units) RunsKubelet(unit string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.all, unit)
}
