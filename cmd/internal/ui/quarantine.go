package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// Context is what a screen needs besides the results.
type Context struct {
	Now                      policy.Instant
	Hold, Confirm, Retention time.Duration
	Place                    // for the commands of a reason
	// Daemon and Observe determine what removes eligible pods: the daemon, or a sweep in the configured mode.
	Daemon   summary.Daemon
	Observe  bool
	Unlisted []policy.EntryState // directories in quarantine that the ledger does not have
}

// The values of "purge" in JSON: how an entry ends.
const (
	purgeConfirming = "confirming"      // it waits for a sign of life first
	purgeRetention  = "after-retention" // at purge_at
	purgePerson     = "by-a-person"     // never by itself
)

// Entry is one quarantine entry.
type Entry struct {
	UID       string           `json:"uid"`
	Entry     string           `json:"entry"`
	Phase     policy.Phase     `json:"phase"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Since     *time.Time       `json:"since"`
	Bytes     int64            `json:"bytes"`
	Residue   []policy.Residue `json:"residue"`
	Reasons   []policy.Reason  `json:"reasons"`
	Why       []policy.Why     `json:"why"`
	Purge     string           `json:"purge"`
	// Leaf is the directory of the pod whose content the entry is; left out for a whole pod directory.
	Leaf string `json:"leaf,omitempty"`
	// Merge are the commands that merge the entry with the pod's present directory.
	Merge []string `json:"merge,omitempty"`
	// PurgeAt is when the entry is purged automatically, null if it is not. A full file system brings it forward.
	PurgeAt *time.Time `json:"purge_at"`

	since  time.Time
	elder  bool // in a conflict: the pod's earlier directory
	failed []policy.Why
	data   bool // it holds data that may be a user's
}

func viewEntry(e policy.EntryState, c Context) Entry {
	v := Entry{
		UID: string(e.UID), Entry: e.Entry, Phase: e.Phase, Namespace: e.Namespace, Name: e.PodName,
		Bytes: total(e.Left).Bytes, Residue: list(e.Left), Reasons: reasonsOf(e.Why), Why: list(e.Why),
		Leaf: e.Leaf, Merge: e.Merge, elder: e.IsElder(), failed: e.Failed, Purge: purgeConfirming, since: e.Parked.At.Wall, data: hasData(e.Left),
	}
	if e.Phase == policy.PhaseConfirmed {
		v.since = e.ConfirmedAt.Wall
	}
	if e.Phase == policy.PhaseConfirmed || e.Phase.OnlyByPerson() {
		v.Purge = purgePerson
	}
	// Ephemeral data is purged after retention even if data is kept.
	if left, ok := policy.PurgeIn(e, policy.Rules{Retention: c.Retention}, c.Now, false); ok {
		at := c.Now.Wall.Add(left).UTC()
		v.Purge, v.PurgeAt = purgeRetention, &at
	}
	if !v.since.IsZero() {
		v.Since = new(v.since.UTC())
	}
	return v
}

// fate describes when the entry is purged.
func (v *Entry) fate(now time.Time) string {
	switch {
	case v.Phase == policy.PhaseUnlisted:
		return "not in the ledger; if " + v.Entry + ".json is beside it, that names the pod; stays until you purge it"
	case v.Phase == policy.PhaseConflict && v.elder && len(v.Merge) == 0:
		return "its pod lives again; stays until you restore or purge it"
	case v.Phase == policy.PhaseConflict && v.elder:
		return "its pod lives again; stays until you purge it"
	case v.Phase == policy.PhaseConflict:
		return "made again while it was parked; stays until you purge it"
	case len(v.failed) > 0:
		return "failed: " + policy.WhyWords(v.failed) + "; once that is mended, the next run goes on"
	case v.Phase.Intent():
		return "begun and not finished; the next run goes on"
	case v.PurgeAt != nil && v.data:
		return "emptyDir " + v.in(now) + ", the rest when you purge it"
	case v.PurgeAt != nil:
		return "purged " + v.in(now)
	case v.Purge == purgePerson:
		return "when you purge it"
	}
	return "waits for a sign of life first"
}

// colour returns red for entries that are kept until an operator acts, yellow for those that wait for a sign of life.
func (v *Entry) colour() Colour {
	switch {
	case v.Phase.OnlyByPerson():
		return Red
	case v.Purge == purgeConfirming:
		return Yellow
	}
	return ""
}

func (v *Entry) in(now time.Time) string { return inTime(v.PurgeAt.Sub(now)) }

// inTime returns "in 3m" or "now".
func inTime(d time.Duration) string {
	if d > 0 {
		return "in " + human.Age(d)
	}
	return "now"
}

// Quarantine is the content of the quarantine.
type Quarantine struct {
	Quarantine []Entry   `json:"quarantine"`
	Archives   []Archive `json:"archives"`
	Stopped    *Stopped  `json:"stopped"`

	now     time.Time
	breaker *policy.Record
}

// NewQuarantine converts the content of the quarantine for display. breaker is the record that opened the breaker, nil if it is
// closed.
func NewQuarantine(entries []policy.EntryState, archives []cni.ArchiveState, breaker *policy.Record, c Context) Quarantine {
	v := Quarantine{
		Quarantine: []Entry{}, Archives: viewArchives(archives, c), Stopped: viewStopped(breaker),
		now: c.Now.Wall, breaker: breaker,
	}
	for _, e := range entries {
		v.Quarantine = append(v.Quarantine, viewEntry(e, c))
	}
	return v
}

// Quarantine writes the content of the quarantine.
func (p *Printer) Quarantine(v Quarantine) {
	if v.breaker != nil { // an operator who inspects the quarantine must know this first
		p.Aside(func() {
			p.Printf("%s\n", p.Paint(Red, "STOPPED since "+human.When(v.breaker.At.Wall)))
			p.Para("  ", audit.What(*v.breaker))
		})
	}
	p.entryTable(v.Quarantine, v.now)
	p.archiveTable(v.Archives, v.now)
}

// Stopped describes why the breaker is open, in JSON null while enforcing goes on.
type Stopped struct {
	Since time.Time    `json:"since"`
	UID   string       `json:"uid"`
	Why   []policy.Why `json:"why"`
}

func viewStopped(r *policy.Record) *Stopped {
	if r == nil {
		return nil
	}
	return &Stopped{Since: r.At.Wall.UTC(), UID: string(r.UID), Why: list(r.Why)}
}

// entrySum returns the number of entries, their measured size, and how many need an operator.
func entrySum(views []Entry) string {
	var bytes int64
	unknown, conflicts, data, least := 0, 0, 0, false
	for i := range views {
		v := &views[i]
		bytes += v.Bytes
		least = least || partial(v.Residue)
		if len(v.Residue) == 0 {
			unknown++
		}
		if v.Phase == policy.PhaseConflict {
			conflicts++
		}
		if v.data {
			data++
		}
	}
	parts := []string{human.Count(len(views), "entry")}
	if unknown < len(views) {
		parts[0] += ", " + size(bytes, least)
	}
	for _, part := range []struct {
		n     int
		words string
	}{{unknown, "of a size not yet known"}, {conflicts, "in conflict"}, {data, "with data that may be a user's"}} {
		if part.n > 0 {
			parts = append(parts, human.Thousands(part.n)+" "+part.words)
		}
	}
	return strings.Join(parts, "; ")
}

// entryRows returns one row for each entry: its phase, UID and name, what is left of it, and when it is purged.
func entryRows(views []Entry, now time.Time) (rows []Row) {
	entries := map[string]int{}
	for i := range views {
		entries[views[i].UID]++
	}
	for i := range views {
		v := &views[i]
		r := Row{
			Word: string(v.Phase), Colour: v.colour(), Title: clean.Text(v.UID), Name: podName(v.Namespace, v.Name),
			Bytes: v.Bytes, Unread: len(v.Residue) == 0, // not yet read
		}
		if v.Phase == policy.PhaseConflict || entries[v.UID] > 1 {
			r.Notes = append(r.Notes, "entry "+clean.Text(v.Entry))
		}
		if v.Leaf != "" {
			r.Notes = append(r.Notes, "what lay in "+clean.Text(v.Leaf))
		}
		if v.Since != nil {
			r.Notes = append(r.Notes, human.Age(now.Sub(v.since))+" ago")
		}
		r.Notes = append(r.Notes, v.fate(now))
		if partial(v.Residue) {
			r.Notes = append(r.Notes, partialNote)
		}
		rows = append(rows, r)
	}
	return rows
}

func (p *Printer) entryTable(views []Entry, now time.Time) {
	if len(views) == 0 {
		p.Printf("Nothing lies in quarantine.\n")
		return
	}
	p.Table("PHASE", 11, "POD", "NAME; SINCE; PURGE", entryRows(views, now))
	p.Aside(func() {
		p.Gap()
		p.Printf("%s\n", entrySum(views))
		conflict := func(e Entry) bool { return e.Phase == policy.PhaseConflict }
		if slices.ContainsFunc(views, conflict) {
			p.Item("", "conflict", 9, "", "Shows what its pod has now, and how to merge the two: orphan-reaper explain UID")
		}
		if slices.ContainsFunc(views, func(e Entry) bool { return !conflict(e) }) {
			p.Item("", "restore", 9, "", "Puts a pod back: orphan-reaper quarantine restore UID")
			p.Item("", "purge", 9, "", "Removes it permanently: orphan-reaper quarantine purge UID")
		}
	})
}

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
		v := Archive{Archive: a.Name, Batch: cni.BatchOf(a.Name), At: a.At.Wall.UTC(), Files: a.Files, Bytes: a.Bytes, Error: a.Err}
		if left, ok := a.DropIn(c.Retention, c.Now); ok {
			v.PurgeAt = c.Now.Wall.Add(left).UTC()
		}
		views = append(views, v)
	}
	return views
}

// archiveTable writes one row for the archives of each sweep, and one for each archive that cannot be read.
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

// RestoreTotals counts the files of a restore. The list may leave out some.
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

// NewArchiveRestored converts the result of restoring an archive for display.
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
