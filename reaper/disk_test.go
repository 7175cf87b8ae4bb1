package reaper

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
	"github.com/orphan-reaper/orphan-reaper/reaper/quarantine"
)

// onDisk is a world whose pods directory, quarantine and ledger are on a disk.
type onDisk struct {
	*world
	*quarantine.Quarantine
	t *testing.T
}

// Scan is the world's, of the pods that the disk has.
func (r *onDisk) Scan(ctx context.Context, only, also []parsers.PodUID) judge.Snapshot {
	ids := map[parsers.PodUID]judge.FileID{}
	for uid := range r.pods {
		id, _, err := r.Where(uid, string(uid)+".1")
		if err != nil {
			r.t.Fatal(err)
		}
		if ids[uid] = id; id == (judge.FileID{}) {
			delete(r.pods, uid)
		}
	}
	s := r.world.Scan(ctx, only, also)
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Present == judge.Yes {
			p.ID = ids[p.UID]
		}
	}
	return s
}

// Where is the quarantine's.
func (r *onDisk) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine judge.FileID, err error) {
	return r.Quarantine.Where(uid, entry)
}

// TestOnDisk has two dead pods and a living one on a real disk with the real quarantine and ledger: from the first report
// until retention has passed. A user's file in a CSI volume stays until the end, and so does all of the living pod.
func TestOnDisk(t *testing.T) {
	const living = parsers.PodUID("0badf00d-0003-4aaa-8bbb-cccc00000003")
	dir := t.TempDir()
	pods, state := filepath.Join(dir, "pods"), filepath.Join(dir, "state")
	files := map[string]bool{ // and whether the file stays
		string(one) + "/volumes/kubernetes.io~csi/pv/mount/precious":     true,
		string(one) + "/volumes/kubernetes.io~empty-dir/cache/f":         false,
		string(two) + "/volumes/kubernetes.io~secret/token/f":            false,
		string(living) + "/volumes/kubernetes.io~empty-dir/cache/f":      true,
		string(living) + "/volumes/kubernetes.io~secret/token/namespace": true,
	}
	for name := range files {
		path := filepath.Join(pods, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	q, err := quarantine.Open(quarantine.Config{PodsDir: pods, Dir: filepath.Join(dir, "orphan-reaper")})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Movable(); err != nil {
		t.Fatal(err)
	}
	store, err := ledger.Open(state, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &onDisk{newWorld(one, two, living), q, t}
	w.pods[living].alive = true
	d := w.daemon()
	d.Scanner, d.Disk, d.Ledger = w, q, store
	w.run(t.Context(), t, d, 10*time.Minute)
	w.run(t.Context(), t, d, 2*time.Hour)

	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = ledger.OpenReadOnly(state, ledger.Options{}); err != nil {
		t.Fatal(err)
	}
	entries := slices.Collect(maps.Values(store.Entries()))
	if len(entries) != 1 || entries[0].UID != one || entries[0].Phase != judge.Retained || len(entries[0].Left) != 1 {
		t.Fatalf("entries: %+v", entries)
	}
	for name, stays := range files {
		path := filepath.Join(pods, strings.Replace(name, string(one), "../orphan-reaper/"+entries[0].Name, 1))
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
}
