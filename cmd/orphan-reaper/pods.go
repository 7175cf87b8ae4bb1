package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// leastDigits is how many digits name a pod, and mostCandidates how many pods an error lists.
const (
	leastDigits    = 4
	mostCandidates = 8
)

// needPods refuses a command without a pod.
func needPods(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("`orphan-reaper scan` lists the pods", "name a pod by its UID or the first %d or more digits of it", leastDigits)
		case most > 0 && len(args) > most:
			return usagef(cmd.CommandPath()+" --help", "%d pods were named, and the command takes %d", len(args), most)
		}
		return nil
	}
}

// pods returns the pods that the arguments name, of those that have a directory or are in quarantine.
func (n *opened) pods(ctx context.Context, args []string) ([]parsers.PodUID, error) {
	if len(args) == 0 {
		return nil, nil
	}
	dir := filepath.Join(n.cfg.RootDir, "pods")
	entries, err := bounded.Try(ctx, &bounded.Guard{}, dir, func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods: %w", err)
	}
	var known []parsers.PodUID
	for _, e := range entries {
		if uid, ok := parsers.ParsePodUID(e.Name()); ok {
			known = append(known, uid)
		}
	}
	return choose(args, append(known, n.quarantined()...), "has a directory or is in quarantine here")
}

// quarantined returns the pods in quarantine.
func (n *opened) quarantined() (uids []parsers.PodUID) {
	for _, e := range n.store.Entries() {
		uids = append(uids, e.UID)
	}
	return uids
}

// choose returns the pod that each argument names among the known ones: by its UID, or by the first digits of it. what is what
// they have in common.
func choose(args []string, known []parsers.PodUID, what string) ([]parsers.PodUID, error) {
	slices.Sort(known)
	known = slices.Compact(known)
	chosen := map[parsers.PodUID]bool{}
	for _, arg := range args {
		var found []parsers.PodUID
		for _, uid := range known {
			if strings.EqualFold(string(uid), arg) {
				found = []parsers.PodUID{uid}
				break
			}
			if strings.HasPrefix(string(uid), strings.ToLower(arg)) {
				found = append(found, uid)
			}
		}
		switch {
		case len(arg) < leastDigits:
			return nil, usagef(candidates(known), "%q is too short: name a pod by its UID or the first %d or more digits of it", arg, leastDigits)
		case len(found) == 0:
			return nil, usagef(candidates(known), "no pod %q %s", arg, what)
		case len(found) > 1:
			return nil, usagef(candidates(found), "%q is the beginning of several UIDs", arg)
		}
		chosen[found[0]] = true
	}
	return slices.Sorted(maps.Keys(chosen)), nil
}

// candidates lists the pods that an argument can name.
func candidates(uids []parsers.PodUID) string {
	if len(uids) == 0 {
		return ""
	}
	var names []string
	for _, uid := range uids[:min(len(uids), mostCandidates)] {
		names = append(names, string(uid))
	}
	list := "the pods are " + strings.Join(names, ", ")
	if more := len(uids) - mostCandidates; more > 0 {
		list += fmt.Sprintf(", and %d more", more)
	}
	return list
}
