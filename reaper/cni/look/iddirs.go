package look

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// usualTaskDirs returns the directories with an entry for each running container: by namespace, containerd's bundles
// (shim v2, and v1 before containerd 2.0) and runc states, also those of distributions with their own containerd; the
// states of runc and crun without containerd; and the run directories of CRI-O and Podman. All are on tmpfs.
func usualTaskDirs() []string {
	dirs := []string{"/run/runc", "/run/crun", "/run/containers/storage/*-containers", "/run/docker/runtime-runc/*"}
	for _, state := range [...]string{
		"/run/containerd", "/run/k3s/containerd", "/run/k0s/containerd", "/var/snap/microk8s/common/run/containerd",
	} {
		dirs = append(dirs, state+"/io.containerd.runtime.v2.task/*", state+"/io.containerd.runtime.v1.linux/*", state+"/runc/*")
	}
	return dirs
}

// usualStores have an entry for each container of another engine. A store at another path does not hide a living
// container: a running one has a task or cgroup, and these engines tear down the network of a stopped one.
var usualStores = []string{
	"/var/lib/docker/containers",
	"/var/lib/containers/storage/*-containers", // Podman's and CRI-O's; CRI-O itself removes those that it does not list
	"/var/lib/nerdctl/*/containers/*",
}

// criNamespace is containerd's namespace for containers of the CRI; other namespaces belong to other engines.
const criNamespace = "k8s.io"

// idDirs are the container IDs for which some directories have an entry.
type idDirs struct {
	r     *Reader
	found map[string]idDir
	buf   []byte
	err   error
}

type idDir struct {
	path  string
	under string // the name that matched a "*" at the end
}

const (
	mostIDs      = 1_000_000
	mostBranches = 1000 // for each "*"
)

// idDirs reads directories with an entry for each container.
func (r *Reader) idDirs(ctx context.Context, patterns []string) idDirs {
	all := idDirs{found: map[string]idDir{}}
	var errs []error
	for _, pattern := range patterns {
		got, err := bounded.Do(ctx, r.Guard, "ids "+pattern, func() idDirs {
			d := idDirs{r: r, found: map[string]idDir{}, buf: make([]byte, 32<<10)}
			d.read("/", strings.Split(strings.Trim(filepath.Clean(pattern), "/"), "/"), "")
			return d
		})
		if err == nil {
			err = got.err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot read %s: %w", pattern, err))
		}
		maps.Copy(all.found, got.found)
	}
	all.err = policy.OneLine(errs...)
	return all
}

// read reads the directories that match the pattern rest below path.
func (d *idDirs) read(path string, rest []string, under string) {
	for len(rest) > 0 && !strings.Contains(rest[0], "*") {
		path, rest = filepath.Join(path, rest[0]), rest[1:]
	}
	fd, err := d.r.openUsual(path)
	if err != nil {
		d.fail(path, err)
		return
	}
	defer beneath.Close(fd)
	if len(rest) == 0 {
		d.fail(path, beneath.EachName(fd, d.buf, func(e beneath.Entry) bool {
			if parsers.IsContainerID(e.Name) {
				d.found[e.Name] = idDir{path, under}
			}
			return len(d.found) < mostIDs
		}))
		return
	}
	branches, err := beneath.List(fd, mostBranches)
	d.fail(path, err)
	for _, b := range branches {
		ok, err := filepath.Match(rest[0], b.Name)
		d.fail(path, err)
		if !ok {
			continue
		}
		if rest[0] == "*" && len(rest) == 1 {
			under = b.Name
		}
		d.read(filepath.Join(path, b.Name), rest[1:], under)
	}
}

// fail keeps the first error, except of a path that does not exist or is not a directory.
func (d *idDirs) fail(path string, err error) {
	if err != nil && d.err == nil && !beneath.Gone(err) && !errors.Is(err, unix.ENOTDIR) {
		d.err = fmt.Errorf("%s: %w", clean.Name(path), err)
	}
}
