package ui

import (
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

// archiveTable writes one row for the archives of each sweep. One that cannot be read has a row of its own.
func (p *Printer) archiveTable(views []Archive, now time.Time) {
	if len(views) == 0 {
		return
	}
	var rows []Row
	batch := ""
	for i := 0; i < len(views); i++ {
		v := views[i]
		r := Row{Word: "archive", Title: clean.Text(v.Archive), Bytes: v.Bytes}
		if v.Error != "" {
			r.Notes = []string{clean.Text(v.Error)}
			rows = append(rows, r)
			continue
		}
		first := i
		for i+1 < len(views) && views[i+1].Error == "" && views[i+1].Batch == v.Batch {
			i++
			v.Files += views[i].Files
			r.Bytes += views[i].Bytes
		}
		batch = clean.Text(v.Batch)
		if n := i - first + 1; n > 1 {
			r.Title, r.Notes = batch, append(r.Notes, human.Count(n, "archive"))
		}
		r.Notes = append(r.Notes, human.Count(v.Files, "CNI file"), "purged "+inTime(views[i].PurgeAt.Sub(now))) // the last one
		rows = append(rows, r)
	}
	p.Table("", 11, "ARCHIVE OF CNI FILES", "FILES; PURGE", rows)
	if batch != "" {
		p.Aside(func() {
			p.Gap()
			p.Item("", "restore", 9, "", "Puts back all that the last of these sweeps removed: "+cni.Undo(batch))
		})
	}
}

// CNIOutcome is the result for one file that an operator restored.
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

// ArchiveRestored is the JSON of restoring an archive or a batch.
type ArchiveRestored struct {
	Outcomes []CNIOutcome  `json:"outcomes"`
	Totals   RestoreTotals `json:"totals"`
}

// NewArchiveRestored shows what became of the files of an archive.
func NewArchiveRestored(done cni.Restored) ArchiveRestored {
	views, totals := cniOutcomes(done)
	return ArchiveRestored{views, totals}
}

// CNIRestored writes how many files were put back.
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
