package ui

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Archive is one archive of CNI files.
type Archive struct {
	Archive string `json:"archive"`
	// Batch is that of all archives of the sweep.
	Batch string    `json:"batch"`
	At    time.Time `json:"at"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	// PurgeAt is when it is dropped by itself.
	PurgeAt time.Time `json:"purge_at"`
	Error   string    `json:"error,omitempty"`
}

func viewArchives(archives []cni.ArchiveState, c Context) []Archive {
	views := []Archive{}
	for _, a := range archives {
		views = append(views, Archive{a.Name, cni.BatchOf(a.Name), a.At.UTC(), a.Files, a.Bytes, a.At.Add(c.Retention).UTC(), a.Err})
	}
	return views
}

// batches puts the archives of each sweep together. One that cannot be read stays by itself.
func batches(views []Archive) (rows []Archive, archives []int) {
	for _, v := range views {
		last := len(rows) - 1
		if last >= 0 && v.Error == "" && rows[last].Error == "" && rows[last].Batch == v.Batch {
			rows[last].Files += v.Files
			rows[last].Bytes += v.Bytes
			rows[last].PurgeAt = v.PurgeAt // the last to go
			archives[last]++
			continue
		}
		rows, archives = append(rows, v), append(archives, 1)
	}
	return rows, archives
}

// archiveTable writes one row for each sweep.
func (p *Printer) archiveTable(views []Archive, now time.Time, path func(archive string) string) {
	if len(views) == 0 {
		return
	}
	p.Printf("\n%s\n", p.Paint(Bold, human.Pad("ARCHIVE OF CNI FILES", 38)+fmt.Sprintf("%9s %8s  PURGE", "FILES", "HOLDS")))
	rows, archives := batches(views)
	last := ""
	for i, v := range rows {
		if v.Error != "" {
			p.Printf("%s%s\n", human.Pad(clean.Text(v.Archive), 38), human.Short(clean.Text(v.Error), p.Columns-38))
			continue
		}
		goes := "now"
		if wait := v.PurgeAt.Sub(now); wait > 0 {
			goes = "in " + human.Age(wait)
		}
		name := clean.Text(v.Archive)
		if n := archives[i]; n > 1 {
			name = clean.Text(v.Batch) + " (" + human.Count(n, "archive") + ")"
		}
		last = clean.Text(v.Batch)
		p.Printf("%s%9s %8s  %s\n", human.Pad(name, 38), human.Thousands(v.Files), human.Size(v.Bytes), goes)
	}
	if last != "" {
		what := map[bool]string{true: "puts back all that this sweep removed.", false: "puts back all that the last of these sweeps removed."}[len(rows) == 1]
		p.Printf("%s%s\n", p.Paint(Green, human.Pad("restore", 9)), cni.Undo(last))
		p.Item("", "", 9, "", what)
	}
	p.Printf("%star tf %s\n", human.Pad("look", 9), human.ShellQuoted(clean.Text(path(views[len(views)-1].Archive))))
	p.Item("", "", 9, "", map[bool]string{true: "shows its files.", false: "shows the files of the last archive; the others lie beside it."}[len(views) == 1])
}

// CNIOutcome is what became of one file by a person's word.
type CNIOutcome struct {
	Path   string        `json:"path"`
	Result policy.Result `json:"result"`
	Error  string        `json:"error,omitempty"`
}

// RestoreTotals counts the files that a restore was about: its list may leave out some.
type RestoreTotals struct {
	Files  int `json:"files"`
	Done   int `json:"done"`
	Gone   int `json:"gone"`
	Failed int `json:"failed"`
	More   int `json:"more"` // files that are not in the list
}

func cniOutcomes(done cni.Restored) ([]CNIOutcome, RestoreTotals) {
	views := []CNIOutcome{}
	for _, o := range done.Outcomes {
		views = append(views, CNIOutcome{o.Path(), o.Result, o.Err})
	}
	return views, RestoreTotals{done.All(), done.Done, done.Gone, done.Failed, done.More()}
}

// ArchiveRestored is what the restore of an archive or a batch writes in JSON.
type ArchiveRestored struct {
	Outcomes []CNIOutcome  `json:"outcomes"`
	Totals   RestoreTotals `json:"totals"`
}

// NewArchiveRestored shows what became of the files of an archive.
func NewArchiveRestored(done cni.Restored) ArchiveRestored {
	views, totals := cniOutcomes(done)
	return ArchiveRestored{views, totals}
}

// CNIRestored says how many files came back.
func (p *Printer) CNIRestored(done cni.Restored) {
	if n := done.Done; n > 0 {
		p.Printf("put back: %s\n", human.Count(n, "CNI file"))
	}
	if n := done.Gone; n > 0 && n == done.All() {
		p.Printf("put back already: %s\n", human.Count(n, "CNI file"))
	} else if n > 0 {
		p.Printf("already there: %s\n", human.Count(n, "CNI file"))
	}
}
