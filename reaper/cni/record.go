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

// batchParts is the number of parts in the name of a batch, cni-DATE-TIME-MILLISECONDS. The archives of one sweep are
// a batch: the first has the name of the batch, the others have a number after it.
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

// Undo returns the command that undoes the whole sweep of an archive. All archives of a sweep have the same one.
func Undo(archive string) string {
	return "orphan-reaper quarantine restore --batch " + BatchOf(archive)
}

// ArchiveState describes one archive for "quarantine list".
type ArchiveState struct {
	Name  string
	At    policy.Instant
	Files int64
	Bytes int64  // of the files' contents
	Err   string // why it cannot be read; then only Name is set
}

// DropIn returns how long the archive still stays, and false if its age is unknown, since it cannot be read.
func (a *ArchiveState) DropIn(retention time.Duration, now policy.Instant) (time.Duration, bool) {
	return retention - now.Age(a.At), a.Err == ""
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

// RemovingRecord returns the record of the intent, which is written before the first file of a batch is removed.
func RemovingRecord(archive string, files []File, n policy.Node, now policy.Instant) policy.Record {
	r := policy.Record{Kind: policy.KindCNIRemoving, At: now, Entry: archive, Archive: archive, Kubelet: n.KubeletID}
	for i := range files {
		count(&r, &files[i])
	}
	return r
}

// RemovedRecord returns the record of the results of a batch.
func RemovedRecord(archive string, ended []File, n policy.Node, now policy.Instant) policy.Record {
	var sum results
	for i := range ended {
		sum.add(&ended[i])
	}
	r := sum.summary(policy.KindCNIRemoved, archive, now)
	r.Entry, r.Kubelet, r.Undo = archive, n.KubeletID, Undo(archive)
	return r
}

// results sums the results of files.
type results struct {
	// Done counts the files that were removed or restored, Gone those for which nothing was to do, and Failed the others.
	Done, Gone, Failed int

	record policy.Record
}

func (s *results) add(f *File) {
	switch f.Result {
	case policy.Done:
		s.Done++
		count(&s.record, f)
	case policy.Gone:
		s.Gone++
	case policy.Refused, policy.Failed, policy.Partly, policy.Conflict:
		if s.Failed++; s.Failed == 1 {
			s.record.Err = fmt.Sprintf("%s: %s", f.Path(), f.Err)
		}
	}
}

// summary returns the record of all added files.
func (s *results) summary(kind policy.Kind, archive string, now policy.Instant) policy.Record {
	r := s.record
	r.Kind, r.At, r.Archive = kind, now, archive
	if s.Failed > 1 {
		r.Err += fmt.Sprintf(" (and %d more)", s.Failed-1)
	}
	return r
}

// mostPods limits the pods that a record names; the archive has all.
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

// MostRestored limits the files of a restore that are reported one by one: that many of those that exist now and that
// many others. All are counted: a restore may have 300,000 files of 150 MB.
const MostRestored = 1000

// Restored is the result of a restore.
type Restored struct {
	results

	Outcomes []File
}

// Add adds the results of files.
func (r *Restored) Add(ended []File) {
	for i := range ended {
		f := &ended[i]
		r.add(f)
		n := r.Failed
		if f.Result == policy.Done || f.Result == policy.Gone {
			n = r.Done + r.Gone
		}
		if n <= MostRestored {
			r.Outcomes = append(r.Outcomes, f.withoutData())
		}
	}
}

// All returns the number of files.
func (r *Restored) All() int { return r.Done + r.Gone + r.Failed }

// More returns how many files are not in Outcomes.
func (r *Restored) More() int { return r.All() - len(r.Outcomes) }

// Record returns the record of an operator's restore. which is the archive or the pod.
func (r *Restored) Record(which string, now policy.Instant) policy.Record {
	return r.summary(policy.KindCNIRestored, which, now)
}
