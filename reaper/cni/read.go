package cni

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

const (
	// readTime bounds the reading of all files: the server of a directory may be gone.
	readTime = 2 * time.Minute
	// mostFiles bounds the files of one sweep. The next one reads the rest, once these are gone.
	mostFiles = 1_000_000
	// mostNetworks bounds the directories of host-local: a user who may create network attachments can name any number.
	mostNetworks = 4096
	mostKept     = 10
	// addTime is longer than a runtime takes to make a sandbox: the kubelet ends RunPodSandbox after 4 minutes.
	addTime = 10 * time.Minute
)

// directory is a directory with files of one kind.
type directory struct {
	path  string
	base  string // as configured; it may be behind links
	steps []string
	kind  kind
}

func newDirectory(k kind, base string, steps ...string) directory {
	return directory{path.Join(base, path.Join(steps...)), base, steps, k}
}

// open opens the directory one step at a time. A mount on the way is allowed: some nodes have the caches on a tmpfs.
func (d *directory) open(open *fdpath.Opener) (*fdpath.Dir, error) {
	dir, err := open.Open(d.base)
	for _, step := range append([]string{"."}, d.steps...) {
		if err != nil {
			return nil, fdpath.OpenError(d.path, err)
		}
		next, e := dir.Cross(step)
		dir.Close()
		dir, err = next, e
	}
	if err != nil {
		return nil, fdpath.OpenError(d.path, err)
	}
	return dir, nil
}

// marks are what is remembered of a file's content and age.
type marks uint16

const (
	known        marks = 1 << iota // of a sandbox: else it is an empty address file
	broken                         // empty, NULs, or no JSON
	kubelets                       // it has the kubelet's argument
	ofCleaned                      // of a pod that we have cleaned
	ofAnother                      // of a pod that we have not cleaned
	netnsGone                      // it has a network namespace that is gone
	netnsThere                     // one that is there
	netnsUnknown                   // one of which that is not known
	beforeBoot                     // it is older than this boot
	beforeAdd                      // it is older than addTime
	oldEnough                      // it is older than cni_older_than
)

// file is one file. A node may have 300,000 of them, so its name is made again of its parts.
type file struct {
	id    sandboxID
	seen  fdpath.Seen
	net   uint32 // its network, in found.texts
	last  uint32 // an address, or the interface of a cache file
	dir   uint16
	marks marks
}

func (f *file) has(m marks) bool { return f.marks&m != 0 }

// found is all that one sweep has read before it asks the runtimes.
type found struct {
	dirs     []directory
	files    []file
	texts    []string
	index    map[string]uint32 // of texts
	conf     confs
	networks map[string]*network // of host-local
	unread   map[string]bool     // those of which not every address was read; "": all that have none here
	stored   map[sandboxID]bool  // in the stores of other engines
	doubt    error               // why it is not known what is in the stores
	status   reaper.CNIStatus
}

func (f *found) text(s string) uint32 {
	i, ok := f.index[s]
	if !ok {
		i = uint32(len(f.texts))
		f.texts, f.index[s] = append(f.texts, s), i
	}
	return i
}

// name returns a file's name in its directory.
func (f *found) name(x *file) string {
	switch f.dirs[x.dir].kind {
	case cache:
		return f.texts[x.net] + "-" + x.id.String() + "-" + f.texts[x.last]
	case multus, flannel:
		return x.id.String()
	case address:
	}
	return f.texts[x.last]
}

func (f *found) path(x *file) string { return f.dirs[x.dir].path + "/" + f.name(x) }

// keep notes a file that is kept since something about it is unknown.
func (f *found) keep(name, why string) {
	if len(f.status.Kept) < mostKept {
		f.status.Kept = append(f.status.Kept, reaper.CNIFile{Path: bounded.Name(name), Reason: why})
	}
}

func (f *found) problem(err error) {
	if err != nil && len(f.status.Problems) < mostKept {
		f.status.Problems = append(f.status.Problems, err.Error())
	}
}

// reader reads all files. It shares nothing with the sweeper, which may abandon it.
type reader struct {
	*found

	open    *fdpath.Opener
	root    *nodeRoot
	now     judge.Instant
	mark    time.Time // of the boot
	older   time.Duration
	cleaned parsers.PodSet
	dir     *fdpath.Dir // that is read
	done    map[judge.FileID]bool
}

var errManyFiles = errors.New("there are more files than one sweep reads; the next one goes on")

// read reads every file of CNI, and what the node has beside them.
func (s *Sweeper) read(ctx context.Context, rootDir string, now judge.Instant, cleaned parsers.PodSet) (*found, error) {
	f := &found{index: map[string]uint32{}, networks: map[string]*network{}, unread: map[string]bool{}, conf: readConfs(s.cfg.ConfDir)}
	f.problem(f.conf.problem)
	root, err := s.openRoot(rootDir)
	if err != nil {
		return f, err
	}
	defer root.close()
	f.stored, f.doubt = root.inStores(s.open)
	r := &reader{
		found: f, open: s.open, root: root, now: now, mark: root.bootMark(s.open, now), older: s.cfg.OlderThan, cleaned: cleaned,
		done: map[judge.FileID]bool{},
	}
	for _, d := range []directory{
		newDirectory(cache, s.cfg.Dir, "results"),
		newDirectory(cache, s.cfg.Dir, "cache", "results"), // dockershim and cri-dockerd
		newDirectory(cache, s.cfg.Dir, "multus", "results"),
		newDirectory(multus, s.cfg.Dir, "multus"),
		newDirectory(flannel, s.cfg.Dir, "flannel"),
	} {
		f.problem(r.readDir(ctx, d))
	}
	for name, n := range f.conf.networks {
		if n.dir != "" {
			r.readNetwork(ctx, newDirectory(address, n.dir, name))
		}
	}
	if err := r.readNetworks(ctx, newDirectory(address, s.cfg.Dir, "networks")); err != nil {
		f.problem(err)
		f.unread[""] = true
	}
	return f, context.Cause(ctx)
}

// readNetworks reads the directory of each network of host-local.
func (r *reader) readNetworks(ctx context.Context, d directory) error {
	dir, err := d.open(r.open)
	if fdpath.Gone(err) {
		return r.missing(d.base)
	}
	if err != nil {
		return err
	}
	names, err := dir.List(mostNetworks)
	dir.Close()
	for _, e := range names {
		if e.Kind == unix.DT_DIR || e.Kind == unix.DT_UNKNOWN {
			r.readNetwork(ctx, newDirectory(address, d.base, append(slices.Clone(d.steps), e.Name)...))
		}
	}
	return err
}

// readNetwork reads the directory of one network. One that only the node has is no problem: it is not the administrator's fault
// that a container has none.
func (r *reader) readNetwork(ctx context.Context, d directory) {
	err := r.readDir(ctx, d)
	switch {
	case err == nil:
		return
	case errors.Is(err, errNotHere):
		r.keep(d.path, err.Error())
	default:
		r.problem(err)
	}
	r.unread[path.Base(d.path)] = true
}

var errNotHere = errors.New("the node has this directory, and it is not mounted in this container")

// missing returns an error if the node has the directory, and this process, in a container, does not.
func (r *reader) missing(base string) error {
	here, err := r.open.Open(base)
	here.Close()
	if err == nil {
		return nil
	}
	there, err := r.root.openDir(r.open, base)
	there.Close()
	if err != nil {
		return nil //nolint:nilerr // the node has none, too
	}
	return fmt.Errorf("cannot read %s: %w", bounded.Name(base), errNotHere)
}

// readDir reads the files of one directory, once even if it has several paths. One that does not exist has none.
func (r *reader) readDir(ctx context.Context, d directory) error {
	dir, err := d.open(r.open)
	if fdpath.Gone(err) {
		return r.missing(d.base)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	id, err := dir.ID()
	if err != nil || r.done[id] {
		return err
	}
	r.done[id] = true
	r.dir, r.dirs = dir, append(r.dirs, d)
	count := 0
	if err := dir.Each(func(fdpath.Entry) error { count++; return nil }); err == nil {
		r.files = slices.Grow(r.files, min(count, mostFiles)) // growing by steps would need twice the memory
	}
	err = dir.Each(func(e fdpath.Entry) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(r.files) >= mostFiles:
			return errManyFiles
		case e.Kind == unix.DT_DIR || d.kind == address && !isAddress(e.Name):
			return nil // such as multus/results, and host-local's lock
		}
		r.readFile(&d, e.Name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot read all of %s: %w", bounded.Name(d.path), err)
	}
	return nil
}

// readFile reads one file and remembers what it is judged by.
func (r *reader) readFile(d *directory, name string) {
	most := int64(mostCache)
	if d.kind == address {
		most = mostAddress
	}
	text, st, err := r.dir.ReadStat(name, most)
	if fdpath.Gone(err) {
		return
	}
	r.status.Files++
	var c content
	if err == nil {
		r.status.Bytes += fdpath.Size(&st)
		c = parse(d.kind, name, text)
	} else {
		c = unknown(err.Error())
	}
	if d.kind == address {
		c.network, c.ifName = path.Base(d.path), name
		r.tally(d, name, func(n *counts) { n.used++ })
	}
	if c.contradiction != "" {
		r.status.Unknown++
		r.keep(path.Join(d.path, name), c.contradiction)
		return
	}
	r.files = append(r.files, file{
		id: c.id, seen: fdpath.Seen{Ino: st.Ino, Ctime: fdpath.Nanos(st.Ctime)}, net: r.text(c.network), last: r.text(c.ifName),
		dir: uint16(len(r.dirs) - 1), marks: r.marksOf(&c, time.Unix(0, fdpath.Nanos(st.Mtime))),
	})
}

// marksOf returns what is remembered of a file with this content and time.
func (r *reader) marksOf(c *content, mtime time.Time) marks {
	m := mark(known, c.known) | mark(broken, c.broken) | mark(kubelets, c.kubelet)
	for _, uid := range c.uids {
		cleaned := r.cleaned[parsers.PodUID(uid)]
		m |= mark(ofCleaned, cleaned) | mark(ofAnother, !cleaned)
	}
	for _, name := range c.netns {
		gone, there := r.root.netns(r.open, name)
		m |= mark(netnsGone, gone) | mark(netnsThere, there) | mark(netnsUnknown, !gone && !there)
	}
	age := r.now.Wall.Sub(mtime)
	m |= mark(beforeAdd, age >= addTime) | mark(oldEnough, age >= r.older)
	// A clock that ran ahead at the boot and was set back makes files of this boot look older. Those of sandboxes that the
	// runtime has made show there, but not the one that it is making.
	return m | mark(beforeBoot, mtime.Before(r.mark) && (age >= addTime || mtime.Before(bootTime(r.now))))
}

func mark(m marks, is bool) marks {
	if is {
		return m
	}
	return 0
}
