package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/quarantine"
)

func newUnmountCommand(a *app) *cobra.Command {
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use: "unmount UID", Short: "Unmount what keeps a dead pod's directory busy", Args: needPods(1),
		Long: `Unmount what is mounted in the directory of a pod that is dead but for that: the
kubelet has reported it, or that it waits for its volumes, within 30 seconds.
The command shows the mounts, asks, and unmounts the innermost first. What is in
use stays: nothing is unmounted lazily or by force. What lies in memory (tmpfs)
is lost, as when the kubelet ends a pod.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.unmount(cmd, args, dryRun, yes) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be unmounted, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.addOutput(cmd)
	return cmd
}

// errDryRun ends the command after what was found.
var errDryRun = errors.New("dry run")

func (a *app) unmount(cmd *cobra.Command, args []string, dryRun, yes bool) error {
	ctx, to := cmd.Context(), acts
	if dryRun {
		to = reads
	}
	n, err := a.open(cmd, to)
	if err != nil {
		return err
	}
	defer n.Close()
	uids, err := n.pods(ctx, args)
	if err != nil {
		return err
	}
	s, err := a.once(ctx, n, reaper.Options{Only: uids})
	if err != nil {
		return err
	}
	if err := onNode(s.Node); err != nil {
		return err
	}
	n.sources.follow(ctx, s.Node, false) // the operator may need longer than a report counts
	agree := func(u reaper.Unmounting) error {
		switch {
		case dryRun:
			return errDryRun
		case yes:
			return nil
		case !a.terminal():
			return usagef("use --yes", "there is no terminal on which to ask")
		}
		if err := show.Unmount(a.stderr, u); err != nil {
			return err
		}
		return a.ask(fmt.Sprintf("Unmount these %d?", len(u.Mounts)), "unmount")
	}
	u, err := n.Unmount(ctx, uids[0], n.by, &unmounter{disk: n.disk}, agree)
	if _, refused := errors.AsType[*reaper.RefusedError](err); refused {
		return &failure{codeFailed, fmt.Errorf("cannot unmount: %w", err), "`orphan-reaper explain " + string(uids[0]) + "` shows the pod"}
	}
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	if err := a.print(u, func(w io.Writer) error { return show.Unmount(w, u) }); err != nil {
		return err
	}
	return needs(!dryRun && !u.Done())
}

// onNode returns an error unless this process is in the mount namespace of the kubelet: unmounting in another one, such as that
// of a pod, changes nothing for the kubelet.
func onNode(n judge.Node) error {
	if n.Kubelet.PID == 0 {
		return nil // the verdict says so
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	kubelets, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", n.Kubelet.PID))
	if err != nil {
		return fmt.Errorf("cannot find out whether this is the mount namespace of the kubelet: %w", err)
	}
	if own != kubelets {
		return failf("run it on the node, in a root shell", "cannot unmount from here: this process is not in the mount namespace of the kubelet")
	}
	return nil
}

// unmounter is the quarantine as reaper.Unmounter.
type unmounter struct {
	disk   *quarantine.Quarantine
	mounts map[int]quarantine.Mount // by ID
}

// Mounts returns the mounts below a pod's directory.
func (u *unmounter) Mounts(uid parsers.PodUID, id judge.FileID) ([]reaper.Mount, error) {
	found, err := u.disk.Mounts(uid, id)
	if err != nil {
		return nil, err
	}
	u.mounts = map[int]quarantine.Mount{}
	var all []reaper.Mount
	for _, m := range found {
		u.mounts[m.ID] = m
		all = append(all, reaper.Mount{ID: m.ID, Path: m.Mountpoint, Type: m.FSType, Source: m.Source, Keeps: m.Keeps})
	}
	return all, nil
}

// Unmount unmounts one of them.
func (u *unmounter) Unmount(ctx context.Context, permit judge.Permit, uid parsers.PodUID, id judge.FileID, m reaper.Mount) (judge.Result, error) {
	return u.disk.Unmount(ctx, permit, uid, id, u.mounts[m.ID])
}
