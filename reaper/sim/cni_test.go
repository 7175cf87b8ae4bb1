package sim

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// network is what CNI has written: a result cache for each sandbox, which goes with it, unless a DEL fails.
type network struct {
	files    []*cacheFile
	made     int
	archives map[string][]cni.File
	dates    map[string]policy.Instant
}

type cacheFile struct {
	sandbox string
	pod     *pod
	changed time.Time
	ino     uint64
}

// add is ADD: the file of a new sandbox, whose ID comes never again.
func (n *node) add(p *pod) (sandbox string) {
	n.net.made++
	sandbox = fmt.Sprintf("%064x", n.net.made)
	n.net.files = append(n.net.files, &cacheFile{sandbox, p, n.wall(), uint64(n.net.made)})
	return sandbox
}

// del is DEL, which fails now and then.
func (n *node) del(sandbox string) {
	if !n.oneIn(3) {
		n.net.files = slices.DeleteFunc(n.net.files, func(f *cacheFile) bool { return f.sandbox == sandbox })
	}
}

// runs reports whether the sandbox is ready, or something runs in it.
func (f *cacheFile) runs() bool {
	return slices.ContainsFunc(f.pod.sandboxes, func(s sandbox) bool { return s.id == f.sandbox && (s.ready || s.runs) })
}

// cniRooms are the rooms that a sweep asks, changes and keeps its archives in.
type cniRooms struct{ *node }

func (n *node) cniSweeps(r *reaper.Reaper, store *state.Store) {
	rooms := cniRooms{n}
	r.CNI = &cni.Sweeper{
		Prober: rooms, Remover: rooms, Archive: rooms, Ledger: ledger{store, n}, Clock: n, Meter: meter{}, Log: slog.New(slog.DiscardHandler),
	}
}

// SweepCNI has one look.
func (c cniRooms) SweepCNI(context.Context, bool) iter.Seq[cni.Look] {
	return func(yield func(cni.Look) bool) { yield(c.look()) }
}

// look reads the files first and asks the runtime then.
func (c cniRooms) look() cni.Look {
	if c.program.plant.sweep != nil {
		c.program.plant.sweep(c)
	}
	look := cni.Look{At: c.Now()}
	files := slices.Clone(c.net.files)
	r := c.reading()
	c.read(r.readRuntime)
	c.read(r.readKubelet)
	r.list.Gauges = policy.KubeletGauges{}
	look.Node = r.nodeFacts()
	for _, of := range r.of {
		for _, s := range of.sandboxes {
			look.Listed = append(look.Listed, s.ID)
		}
	}
	for _, f := range files {
		file := cni.File{
			Kind: cni.Cache, Dir: "results", Name: "net-" + f.sandbox, ID: cni.FileID{Ino: f.ino}, Container: f.sandbox, UID: f.pod.uid, Changed: f.changed,
		}
		runs := f.runs()
		truth := func(yes bool) policy.Truth { return known(yes, nil, "", "").Truth }
		file.Set(cni.Tied, policy.Yes, "", "")
		file.Facts[cni.Listed] = known(slices.Contains(look.Listed, f.sandbox), r.boxErr, "cri.sock", "")
		file.Set(cni.Alive, truth(runs), "", "")
		file.Set(cni.Netns, truth(runs), "", "")
		file.Set(cni.Foreign, policy.No, "", "")
		look.Files = append(look.Files, file)
	}
	return look
}

func (c cniRooms) StillCNI(_ context.Context, files []cni.File) {
	for i := range files {
		if !slices.ContainsFunc(c.net.files, func(f *cacheFile) bool { return f.ino == files[i].ID.Ino }) {
			files[i].Err = "it is gone"
		}
	}
}

// RemoveCNI runs beside the loop, which waits for it: nothing else of the world goes on meanwhile.
func (c cniRooms) RemoveCNI(_ context.Context, permit policy.Permit, files []cni.File) []cni.File {
	var outs []cni.File
	for _, f := range files {
		if !permit.MayRemove() {
			return cni.Ended(files, policy.Refused, errDoubt)
		}
		outs = append(outs, c.unlink(f))
	}
	return outs
}

func (c cniRooms) unlink(f cni.File) cni.File {
	i := slices.IndexFunc(c.net.files, func(g *cacheFile) bool { return g.ino == f.ID.Ino })
	if i < 0 {
		f.Result = policy.Gone
		return f
	}
	c.oracle.unlinks(c.node, c.net.files[i])
	c.net.files = slices.Delete(c.net.files, i, i+1)
	f.Result = policy.Done
	return f
}

func (c cniRooms) RestoreCNI(context.Context, policy.Permit, []cni.File) []cni.File { return nil }

func (c cniRooms) Archive(name string, at policy.Instant, files []cni.File) error {
	c.reach(stepWrite, "")
	c.net.archives[name], c.net.dates[name] = slices.Clone(files), at
	return nil
}

func (c cniRooms) Archives() ([]cni.ArchiveState, error) {
	var all []cni.ArchiveState
	for name, files := range c.net.archives {
		all = append(all, cni.ArchiveState{Name: name, At: c.net.dates[name], Files: int64(len(files))})
	}
	slices.SortFunc(all, func(a, b cni.ArchiveState) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (c cniRooms) ReadArchive(name string, each func(cni.File) error) error {
	for _, f := range c.net.archives[name] {
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

func (c cniRooms) DropArchive(name string) error {
	delete(c.net.archives, name)
	return nil
}
