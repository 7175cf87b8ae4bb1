package sim

import (
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

type cniFiles struct{}

func (n *node) cniSweeps(*reaper.Reaper, *state.Store) {}
