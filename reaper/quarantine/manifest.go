package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// manifestSuffix ends the name of the file beside an entry that describes it.
const manifestSuffix = ".json"

// manifest describes an entry for an operator who has not got our state directory. No code reads it: the ledger has the
// identity of each entry.
type manifest struct {
	About     string         `json:"about"`
	UID       parsers.PodUID `json:"uid"`
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod_name,omitempty"`
	Static    bool           `json:"static,omitempty"`
	From      string         `json:"from"`
	ID        judge.FileID   `json:"id"`
	Restore   string         `json:"restore"`
}

// writeManifest writes the manifest of an entry that is in quarantine. It exists only while its entry exists: it is written
// after the rename into quarantine and removed before the entry goes, so that none promises a restore that is impossible.
// If it is missing, only an operator without the ledger misses it. So it is not synced, and a full disk, which must not stop
// what makes room on it, is only logged.
func (b *batch) writeManifest(m judge.Move, entry, about string) {
	from := b.q.podsPath(string(m.UID))
	text, err := json.MarshalIndent(manifest{
		About: about, UID: m.UID, Namespace: m.Namespace, PodName: m.PodName, Static: m.Static, From: from, ID: m.ID,
		Restore: fmt.Sprintf("orphan-reaper quarantine restore %s; without orphan-reaper: mv -nT %s %s", m.UID, b.q.path(entry), from),
	}, "", "  ")
	name := entry + manifestSuffix
	b.q.at(b.quar, name)
	if err == nil {
		err = b.q.disk.create(b.quar.Dir, name, append(text, '\n'))
	}
	if errors.Is(err, unix.EEXIST) { // a run was killed after it made the file, and perhaps before it wrote it
		b.dropManifest(entry)
		err = b.q.disk.create(b.quar.Dir, name, append(text, '\n'))
	}
	if err != nil {
		b.notes = append(b.notes, fdpath.PathError("write", b.q.path(name), err))
	}
	b.changed(b.quar)
}

const (
	aboutMoved = "orphan-reaper moved this directory of a dead pod here; it removes what the kubelet made, and keeps what may be data"
	aboutOther = "the kubelet made this directory while the pod's older one was in quarantine; orphan-reaper has exchanged them"
)

// dropManifest removes the manifest of an entry.
func (b *batch) dropManifest(entry string) {
	name := entry + manifestSuffix
	b.q.at(b.quar, name)
	switch err := b.q.disk.unlink(b.quar.Dir, name); {
	case err == nil:
		b.changed(b.quar)
	case !errors.Is(err, unix.ENOENT):
		b.notes = append(b.notes, fdpath.PathError("unlinkat", b.q.path(name), err))
	}
}

func errAttr(err error) slog.Attr { return slog.String("error", err.Error()) }
