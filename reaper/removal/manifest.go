package removal

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// writeManifest writes the manifest beside the future entry. It does not sync it: the ledger is synced, and only an
// operator who has lost the ledger needs the manifest.
func (b *batch) writeManifest(a policy.Action) error {
	taken, err := b.h.quar.Exists(a.Entry)
	if err != nil {
		return beneath.PathError("statx", b.r.quarPath(a.Entry), err)
	}
	if taken {
		return beneath.PathError("renameat2", b.r.quarPath(a.Entry), errEntryTaken)
	}
	name := a.Entry + manifestSuffix
	b.before("openat", name)
	fd, err := change.Create(b.h.quar, name)
	if errors.Is(err, unix.EEXIST) {
		// A run was killed before its rename.
		b.dropManifest(a.Entry)
		fd, err = change.Create(b.h.quar, name)
	}
	if err == nil {
		if err = change.Close(fd, change.Write(fd, a.Manifest)); err != nil {
			b.dropManifest(a.Entry)
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) { // a full disk must not stop what makes room on it
		b.notes = append(b.notes, beneath.PathError("write", b.r.quarPath(name), err))
	} else if err != nil {
		return explain(beneath.PathError("write", b.r.quarPath(name), err))
	}
	return nil
}

// dropStrays removes the manifests whose entry is not in quarantine: their unlink failed, or a run was killed before
// it. A stray manifest would promise a restore that is impossible. The ledger has no intent of this removal, since a
// manifest is a copy of a ledger record.
func (b *batch) dropStrays() {
	if b.h.quarErr != nil {
		return
	}
	names, err := b.r.quarNames(b.h)
	if err != nil {
		b.notes = append(b.notes, err)
		return
	}
	for _, name := range names {
		entry, ok := strings.CutSuffix(name, manifestSuffix)
		_, listed := slices.BinarySearch(names, entry)
		if uid, _, _ := strings.Cut(entry, "."); !ok || listed || validate(parsers.PodUID(uid), entry) != nil {
			continue // not ours, or beside its entry
		}
		if taken, err := b.h.quar.Exists(entry); err == nil && !taken {
			b.dropManifest(entry)
		}
	}
}

// dropManifest removes the manifest of an entry that is not in quarantine. An error is logged and stops nothing,
// since the next batch tries again (dropStrays).
func (b *batch) dropManifest(entry string) {
	name := entry + manifestSuffix
	b.before("unlinkat", name)
	switch err := change.Unlinkat(b.h.quar, name, 0); {
	case err == nil:
		b.movedQuar = true
	case !errors.Is(err, unix.ENOENT):
		b.notes = append(b.notes, beneath.PathError("unlinkat", b.r.quarPath(name), err))
	}
}
