package cni

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// ArchivePrefix begins the name of every archive of CNI files.
const ArchivePrefix = "cni-"

// The archives of one sweep are a batch. The first of them is named by its time, cni-DATE-TIME-MILLISECONDS, and so is the batch; the
// others are numbered after it.
const batchParts = 4

// batchArchive names the n-th archive of a batch, the first being number 1.
func batchArchive(batch string, n int) string {
	if n <= 1 {
		return batch
	}
	return fmt.Sprintf("%s-%03d", batch, n)
}

// BatchOf returns the batch of an archive.
func BatchOf(archive string) string {
	parts := strings.Split(archive, "-")
	return strings.Join(parts[:min(len(parts), batchParts)], "-")
}

// Undo is the command that undoes a whole sweep, by the name of any of its archives: each record of a sweep names the same one.
func Undo(archive string) string {
	return "orphan-reaper quarantine restore --batch " + BatchOf(archive)
}

// ArchiveState is one archive of CNI files, as quarantine list shows it.
type ArchiveState struct {
	Name  string
	At    time.Time
	Files int64
	Bytes int64  // of the files' contents
	Err   string // why it cannot be read; then only the name is known
}

// reaped returns the pods whose directories were removed and confirmed dead.
func reaped(entries map[string]*policy.EntryState) map[parsers.PodUID]bool {
	pods := map[parsers.PodUID]bool{}
	for _, e := range entries {
		if e.Phase == policy.PhaseConfirmed || e.Phase == policy.PhasePurging || e.Phase == policy.PhaseGone && e.Taken != nil {
			pods[e.UID] = true
		}
	}
	return pods
}

// RemovingRecord is written to the ledger before the first file of a batch is removed.
func RemovingRecord(archive string, files []File, n policy.Node, now policy.Instant) policy.Record {
	r := policy.Record{Kind: policy.KindCNIRemoving, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID}
	for i := range files {
		count(&r, &files[i])
	}
	return r
}

// RemovedRecord has the results of a batch.
func RemovedRecord(archive string, ended []File, n policy.Node, now policy.Instant) policy.Record {
	r := policy.Record{Kind: policy.KindCNIRemoved, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID, Undo: Undo(archive)}
	failed := 0
	for i := range ended {
		switch f := &ended[i]; f.Result {
		case policy.Done:
			count(&r, f)
		case policy.Refused, policy.Failed:
			failed++
			firstError(&r, f)
		case policy.Gone, policy.Partly, policy.Conflict:
		}
	}
	moreErrors(&r, failed)
	return r
}

func firstError(r *policy.Record, f *File) {
	if r.Err == "" {
		r.Err = fmt.Sprintf("%s: %s", f.Path(), f.Err)
	}
}

func moreErrors(r *policy.Record, failed int) {
	if failed > 1 {
		r.Err += fmt.Sprintf(" (and %d more)", failed-1)
	}
}

// mostPods bounds how many pods a record names; the archive has them all.
const mostPods = 20

func count(r *policy.Record, f *File) {
	if r.Taken == nil {
		r.Taken = map[string]policy.Tally{}
	}
	t := r.Taken[string(f.Kind)]
	t.Add(policy.Tally{Entries: 1, Bytes: f.ID.Size})
	r.Taken[string(f.Kind)] = t
	if f.BrokenCache() {
		r.Repaired++
		if f.Runtime != "" && !slices.Contains(r.Runtimes, f.Runtime) {
			r.Runtimes = append(r.Runtimes, f.Runtime)
		}
	}
	if f.PodName == "" {
		return
	}
	if pod := f.Namespace + "/" + f.PodName; len(r.Pods) < mostPods && !slices.Contains(r.Pods, pod) {
		r.Pods = append(r.Pods, pod)
	}
}

// MostRestored bounds the files of a restore that are reported one by one, of those that are there now and of those that are not. All
// of them are counted: an archive's files may be 300,000, and 150 MB.
const MostRestored = 1000

// Restored is the result of a restore.
type Restored struct {
	// Done counts the files that came back, Gone those that were there already, and Failed those that are not there.
	Done, Gone, Failed int
	Outcomes           []File

	record policy.Record
}

// Add counts some of the files.
func (r *Restored) Add(ended []File) {
	for i := range ended {
		f := &ended[i]
		switch f.Result {
		case policy.Done:
			r.Done++
			count(&r.record, f)
		case policy.Gone:
			r.Gone++
		case policy.Refused, policy.Failed, policy.Partly, policy.Conflict:
			r.Failed++
			firstError(&r.record, f)
			if r.Failed <= MostRestored {
				r.Outcomes = append(r.Outcomes, f.bare())
			}
			continue
		}
		if r.Done+r.Gone <= MostRestored {
			r.Outcomes = append(r.Outcomes, f.bare())
		}
	}
}

// All is how many files there were.
func (r *Restored) All() int { return r.Done + r.Gone + r.Failed }

// More is how many of them are not among Outcomes.
func (r *Restored) More() int { return r.All() - len(r.Outcomes) }

// Record returns the record of an operator's restore, from which archive or of which pod.
func (r *Restored) Record(which string, now policy.Instant) policy.Record {
	rec := r.record
	rec.Kind, rec.At, rec.Archive = policy.KindCNIRestored, now, which
	moreErrors(&rec, r.Failed)
	return rec
}
