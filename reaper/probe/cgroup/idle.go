package cgroup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// FindIdle finds the pods whose cgroups have no process, and those that have one, among those
// that the runtime runs no sandbox of: a pod that runs is not asked about. What cannot be read
// is neither.
func (r *Reader) FindIdle(ctx context.Context, c *Answer, w, ready map[parsers.PodUID]bool) {
	ask := map[parsers.PodUID][]string{}
	for uid := range w {
		if paths := c.all[uid]; len(paths) > 0 && !ready[uid] {
			ask[uid] = paths
		}
	}
	if len(ask) == 0 || c.Err != nil {
		return
	}
	type found struct{ idle, busy map[parsers.PodUID]bool }
	all, err := bounded.Do(ctx, r.Guard, "cgroups", func() found {
		f := found{map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}}
		for uid, paths := range ask {
			f.idle[uid], f.busy[uid] = processesIn(ctx, paths)
		}
		return f
	})
	if err == nil {
		c.Idle, c.Busy = all.idle, all.busy
	}
}

// HasProcess reports whether a process is in one of the pod's cgroups.
func (c *Answer) HasProcess(ctx context.Context, uid parsers.PodUID) bool {
	if c.Busy[uid] {
		return true
	}
	_, busy := processesIn(ctx, c.all[uid])
	return busy
}

func processesIn(ctx context.Context, paths []string) (idle, busy bool) {
	idle = true
	for _, path := range paths {
		some, err := populated(ctx, path)
		if some && err == nil {
			return false, true
		}
		idle = idle && (err == nil || beneath.Gone(err))
	}
	return idle, false
}

// populated reports whether a process is in the cgroup or in one below it. Version 2 has
// cgroup.events for it (cgroups(7)). In version 1 each has its own list.
func populated(ctx context.Context, path string) (bool, error) {
	if text, err := os.ReadFile(filepath.Join(path, "cgroup.events")); err == nil {
		if !bytes.Contains(text, []byte("populated ")) {
			return false, errors.New("cgroup.events does not show whether it is populated")
		}
		return !bytes.Contains(text, []byte("populated 0")), nil
	}
	some, err := hasProcess(path)
	if some || err != nil {
		return some, err
	}
	var first error
	err = walkCgroups(ctx, path, func(at, name string) (below bool) {
		has, err := hasProcess(filepath.Join(at, name))
		if err != nil && first == nil {
			first = err
		}
		some = some || has
		return !some && first == nil
	})
	return some, errors.Join(first, err)
}

// hasProcess reads no more than a byte of cgroup.procs. A directory without this file is no
// cgroup, and nothing is known.
func hasProcess(path string) (bool, error) {
	f, err := os.Open(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		if _, stat := os.Lstat(path); stat == nil {
			return false, errors.New("no cgroup: " + err.Error())
		}
		return false, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	n, err := f.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}
