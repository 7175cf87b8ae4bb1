package summary

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func rec(seq int64, kind policy.Kind, days int, taken map[string]policy.Tally) policy.Record {
	return policy.Record{Seq: seq, Kind: kind, At: policy.Instant{Wall: noon.AddDate(0, 0, days)}, Taken: taken}
}

// TestTable checks that each record counts once, on its day, and that a record without a change counts for nothing.
func TestTable(t *testing.T) {
	records := []policy.Record{
		rec(1, policy.KindParking, 0, nil), rec(2, policy.KindParked, 0, nil),
		rec(3, policy.KindStripped, 0, map[string]policy.Tally{"skeleton": {Entries: 5, Bytes: 20}}),
		rec(4, policy.KindRemoved, 1, map[string]policy.Tally{"data": {Entries: 1, Bytes: 1000}}),
		rec(5, policy.KindCNIRemoved, 1, map[string]policy.Tally{"address": {Entries: 3, Bytes: 30}, "cache": {Entries: 6, Bytes: 60}}),
		rec(6, policy.KindCleared, 1, nil), rec(7, policy.KindPutBack, 1, nil), rec(8, policy.KindRestored, 1, nil),
		rec(9, policy.KindUnmounted, 1, nil), rec(10, policy.KindFailed, 1, nil),
		rec(11, policy.KindCNIRestored, 1, map[string]policy.Tally{"address": {Entries: 1, Bytes: 10}, "cache": {Entries: 1, Bytes: 10}}),
		{Seq: 12, Kind: policy.KindRemoved, Leaf: "volumes/v", At: policy.Instant{Wall: noon.AddDate(0, 0, 1)}},
	}
	var table Table
	for range 2 { // a repeated pass, or a ledger that is read again
		for _, r := range records {
			table.Add(r)
		}
	}
	a := AccountOf(table, reported.Messages{}, noon, noon.AddDate(0, 0, 2))
	want := Done{Parked: 1, Removed: 1, PutBack: 2, Cleared: 1, CNIFiles: 9, Addresses: 3, CNIBack: 2, Entries: 13, Bytes: 1090, Failed: 1}
	if a.Done != want || len(a.Days) != 2 || a.Short() || table.Seq != 12 {
		t.Errorf("%+v", a)
	}
	if a = AccountOf(table, reported.Messages{}, noon.AddDate(0, 0, 1), noon.AddDate(0, 0, 2)); a.Parked != 0 || a.Removed != 1 || len(a.Days) != 1 {
		t.Errorf("the second day alone: %+v", a)
	}
	back := Table{Seq: 10}
	back.Add(records[10])
	if a = AccountOf(back, reported.Messages{}, noon, noon.AddDate(0, 0, 2)); a.Entries != 0 || a.Bytes != 0 || a.CNIBack != 2 || a.Days[0].Bytes != -20 {
		t.Errorf("removed before that time and put back after it: %+v", a)
	}
}

// TestTableGap checks that after missing records the table has the time since when it is complete.
func TestTableGap(t *testing.T) {
	var table Table
	table.Add(rec(1, policy.KindParked, 0, nil))
	table.Add(rec(2, policy.KindParked, 1, nil))
	if !table.Since.Equal(noon) {
		t.Errorf("%s", table.Since)
	}
	table.Add(rec(9, policy.KindParked, 5, nil))
	table.Add(rec(10, policy.KindParked, 6, nil))
	a := AccountOf(table, reported.Messages{}, noon.AddDate(0, 0, 4), noon.AddDate(0, 0, 7))
	if !a.Since.Equal(noon.AddDate(0, 0, 5)) || !a.Short() {
		t.Errorf("since %s, short %t", a.Since, a.Short())
	}
	if a = AccountOf(Table{}, reported.Messages{}, noon, noon); !a.Short() {
		t.Error("without records the range counts as complete")
	}
	table = Table{}
	for day := range mostDays + 5 {
		table.Add(rec(int64(day+1), policy.KindParked, day, nil))
	}
	if len(table.Days) != mostDays || table.Since.Format(time.DateOnly) != table.Days[0].Day {
		t.Errorf("%d days, since %s", len(table.Days), table.Since)
	}
}

// TestEstimate checks the estimate of avoided lines: one every 2 s since the first message stopped, less all that
// were written.
func TestEstimate(t *testing.T) {
	messages := reported.Messages{
		Days: []reported.Day{
			{Day: "2026-03-01", First: noon, Pods: 2, Lines: 100, Bytes: 20000},
			{Day: "2026-03-02", First: noon.AddDate(0, 0, 1), Pods: 1, Lines: 50, Bytes: 10000},
		},
		Pods: map[parsers.PodUID]reported.PodLines{"a": {Lines: 7, Bytes: 1400, Last: policy.Instant{Wall: noon}}},
	}
	a := AccountOf(Table{}, messages, noon, noon.AddDate(0, 0, 2))
	if a.Quiet.Pods != 3 || a.Quiet.Lines != 150 || a.Going != 7 || a.GoingPods != 1 || !a.GoingLast.Equal(noon) || a.Estimate != 2*43200-157 ||
		a.EstimateBytes != 200*a.Estimate || a.GoingBytes != 1400 {
		t.Errorf("%+v", a)
	}
	if a = AccountOf(Table{}, messages, noon, noon.Add(time.Minute)); a.Estimate != 0 {
		t.Errorf("%d lines avoided in a minute with more lines", a.Estimate)
	}
	if a = AccountOf(Table{}, reported.Messages{}, noon, noon.AddDate(1, 0, 0)); a.Estimate != 0 {
		t.Errorf("%d lines avoided without messages", a.Estimate)
	}
}
