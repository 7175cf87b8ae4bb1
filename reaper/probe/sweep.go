package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/look"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
)

// cni reads what CNI left. The runtimes at sockets are asked where their network configurations are.
func (p *Probe) cni(sockets []string) *look.Reader {
	c := &p.cfg
	return &look.Reader{
		CacheDirs: c.CNICacheDirs, DataDirs: c.CNIDataDirs, ConfDir: c.CNIConfDir, ConfDirSet: c.CNIConfDirSet, NodeRoot: c.NodeRoot,
		Sockets: sockets, NetnsDirs: c.NetnsDirs, TaskDirs: c.CNITaskDirs, Stores: c.CNIStores,
		ProcDir: c.ProcDir, Now: c.Clock.Now, Open: p.open, Guard: p.guard,
	}
}

// confSockets are the sockets of those runtimes, none where the operator chose the directory.
func (p *Probe) confSockets(ctx context.Context) []string {
	if p.cfg.CNIConfDirSet {
		return nil
	}
	found, err := p.runtimes().Sockets(ctx)
	if err != nil {
		return nil
	}
	return found.Paths
}

// CNIDirs returns the directories in and below which CNI keeps its files.
func (p *Probe) CNIDirs() []string {
	return p.cni(p.confSockets(context.Background())).Dirs()
}

// StillCNI looks at files once more before they are archived, and sets Err of those that are gone, or
// others by now.
func (p *Probe) StillCNI(ctx context.Context, files []cni.File) {
	p.cni(nil).Still(ctx, files)
}

// CNISweep is one pass over what CNI left. It is used by one goroutine.
type CNISweep struct {
	p        *Probe
	contents bool
	sweep    *look.Sweep
}

// SweepCNI begins a pass. Nothing is read until Next. With contents the files come with all that a
// restore needs.
func (p *Probe) SweepCNI(contents bool) *CNISweep { return &CNISweep{p: p, contents: contents} }

// Close closes what the sweep has open.
func (s *CNISweep) Close() {
	if s.sweep != nil {
		s.sweep.Close()
	}
}

// Next returns the next chunk, and false when all was read or ctx has ended. It returns in
// bounded time whatever hangs: what has not answered by then is Unknown.
//
// Each chunk is read before anything is asked, so that no answer is older than its files.
func (s *CNISweep) Next(ctx context.Context) (cni.Look, bool) {
	if s.sweep == nil {
		s.sweep = s.p.cni(s.p.confSockets(ctx)).Sweep(s.contents)
	}
	chunk, ok := s.sweep.Read(ctx)
	if !ok {
		return cni.Look{}, false
	}
	defer chunk.Close()
	look := s.sweep.Look(ctx, chunk, s.p.askForCNI(ctx, chunk.Dir()))
	return look, ctx.Err() == nil
}

// askForCNI asks the other rooms at once; each part has its own time and its own error.
func (p *Probe) askForCNI(ctx context.Context, dir *bounded.Handle) look.Asked {
	var a look.Asked
	var found kubelet.Answer
	var wg sync.WaitGroup
	wg.Go(func() { a.Lists, a.Sockets, a.Unasked = p.runtimes().Lists(ctx) })
	wg.Go(func() { found = p.kubelets().Find(ctx) })
	wg.Go(func() { a.Cgroups = look.Cgroups(p.cgroups().ContainerIDs(ctx)) })
	wg.Wait()
	a.Node = policy.Node{Kubelet: found.Runs, FreeBytes: -1, FreeInodes: -1, Agrees: found.Agrees}
	if found.Running != nil {
		a.Node.KubeletID = found.Running.ID
	}
	if found.Runs.Truth == policy.Unknown && !p.cfg.Waive {
		a.Errors = append(a.Errors, errors.New(found.Runs.Detail))
	}
	if a.Unasked != nil && !errors.Is(a.Unasked, runtime.ErrNotAsked) {
		a.Errors = append(a.Errors, a.Unasked)
	}
	if dir != nil {
		a.Node.MayEnforce = p.mayEnforceOn(ctx, dir, found.Runs)
	}
	return a
}

// mayEnforceOn asks for the file system of an open directory.
func (p *Probe) mayEnforceOn(ctx context.Context, h *bounded.Handle, kubelet policy.Fact) policy.Fact {
	f, err := bounded.On(ctx, p.guard, "namespaces", h, func(fd int) policy.Fact { return p.mayEnforce(kubelet, askMount(fd)) })
	if err != nil {
		f.Detail = fmt.Sprintf("cannot find out whether these are the node's namespaces: %v", err)
	}
	return f
}
