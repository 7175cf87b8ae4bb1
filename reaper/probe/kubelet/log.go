package kubelet

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// Logs returns the regular files that kubelets have for their standard error or output
// (StandardError=append:FILE, nohup, runit): nothing of that comes to the journal. A
// file counts only where its path leads to it from here, too. What cannot be read in
// good time is left out: these are more places to listen, and no verdict depends on having all.
func Logs(ctx context.Context, procDir string) []string {
	logs, err := bounded.Do(ctx, new(bounded.Guard), "kubelet", func() (logs []string) {
		ks, err := scanner{procDir: procDir}.kubelets()
		if err != nil {
			return nil
		}
		for _, k := range ks {
			for _, fd := range [...]string{"2", "1"} {
				path, ok := regularFile(procDir + "/" + strconv.Itoa(k.ID.PID) + "/fd/" + fd)
				if ok && !slices.Contains(logs, path) {
					logs = append(logs, path)
				}
			}
		}
		return logs
	})
	if err != nil {
		return nil
	}
	return logs
}

// regularFile returns the path of the regular file to which a link of /proc leads.
func regularFile(link string) (string, bool) {
	path, err := os.Readlink(link)
	if err != nil || !strings.HasPrefix(path, "/") {
		return "", false
	}
	open, err := os.Stat(link)
	named, err2 := os.Stat(path)
	return path, err == nil && err2 == nil && open.Mode().IsRegular() && os.SameFile(open, named)
}
