package wire

import (
	"context"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// countFailures has the loop's failures counted where they happen. A look that failed shows in the
// metrics file at once: nothing else is written before a look succeeds.
func countFailures(r *reaper.Reaper, m *metricsFile) {
	r.Prober = countedProber{r.Prober, m}
	r.Ledger = countedLedger{r.Ledger, m}
	if r.CNI != nil {
		r.CNI.Ledger = r.Ledger
	}
	r.Teller = countedTeller{r.Teller, m}
}

type countedProber struct {
	reaper.Prober

	m *metricsFile
}

func (p countedProber) Look(ctx context.Context, in []policy.EntryState, only []parsers.PodUID) (policy.Look, error) {
	look, err := p.Prober.Look(ctx, in, only)
	if err != nil && ctx.Err() == nil {
		p.m.Failure(audit.OpLook)
		_ = p.m.Flush() // it tells by itself
	}
	return look, err
}

type countedLedger struct {
	reaper.Ledger

	m *metricsFile
}

func (l countedLedger) Append(rs ...policy.Record) ([]policy.Record, error) {
	rs, err := l.Ledger.Append(rs...)
	if err != nil {
		l.m.Failure(audit.OpLedger)
	}
	return rs, err
}

type countedTeller struct {
	reaper.Teller

	m *metricsFile
}

func (t countedTeller) Tell(r policy.Record) error {
	err := t.Teller.Tell(r)
	if err != nil {
		t.m.Failure(audit.OpJournal)
	}
	return err
}
