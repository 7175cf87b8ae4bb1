package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Limits of what is read. A kubelet has a few hundred pods, of some ten volumes each.
const (
	mostPods    = 50_000
	mostEntries = 2_000 // of one directory of a pod
)

// listPods returns the sorted names in the pods directory.
func (s *Scanner) listPods(context.Context) ([]string, error) {
	pods, err := s.podsDir()
	if err != nil {
		return nil, err
	}
	defer pods.Close()
	entries, err := pods.List(mostPods)
	if err != nil {
		return nil, fdpath.PathError("list", s.cfg.RootDir+"/pods", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	slices.Sort(names)
	return names, nil
}

// podsDir opens the pods directory to list it. A link is refused, since the kubelet's own paths would then be others.
func (s *Scanner) podsDir() (*fdpath.Dir, error) {
	root, err := s.open.Open(s.cfg.RootDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	pods, err := root.Cross("pods")
	if err != nil {
		return nil, fdpath.OpenError(s.cfg.RootDir+"/pods", err)
	}
	return pods, nil
}

// directory is what was read of one entry of the pods directory.
type directory struct {
	present  judge.Truth
	fact     judge.Fact
	id       judge.FileID
	skeleton judge.Skeleton
	only     judge.Truth // SkeletonOnly
	host     string      // the host name in etc-hosts
}

// readDirectories reads the directories of all pods of the scan, also of those that were not listed: a pod may have returned
// since. Of a pod in quarantine it also reads whether the directory has only what a kubelet makes first.
func (s *Scanner) readDirectories(ctx context.Context, c *scan) (map[string]directory, error) {
	found := make(map[string]directory, len(c.asked))
	if len(c.asked) == 0 {
		return found, nil
	}
	pods, err := s.podsDir()
	if err != nil {
		return nil, err
	}
	defer pods.Close()
	st, err := pods.Stat()
	if err != nil {
		return nil, fdpath.PathError("statx", s.cfg.RootDir+"/pods", err)
	}
	for _, name := range c.asked {
		if err := ctx.Err(); err != nil {
			return found, fmt.Errorf("cannot read the pods' directories in time: %w", err)
		}
		found[name] = s.readDirectory(pods, fdpath.DevOf(&st), name, c)
	}
	return found, nil
}

// readDirectory reads one entry of the pods directory, which lies on the device dev.
func (s *Scanner) readDirectory(pods *fdpath.Dir, dev uint64, name string, c *scan) directory {
	d := directory{present: judge.Yes, fact: judge.Fact{Truth: judge.No}}
	at, err := pods.Step(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		d.present, d.fact.Detail = judge.No, "it does not exist"
		return d
	case errors.Is(err, unix.EXDEV):
		d.fact.Detail = "it is a mount point"
		return d
	case fdpath.Is(err, unix.ENOTDIR, unix.ELOOP):
		d.fact.Detail = "it is no directory"
		return d
	case err != nil:
		if d.fact = (judge.Fact{Detail: fdpath.PathError("open", name, err).Error()}); !c.listed(name) {
			d.present = judge.Unknown
		}
		return d
	}
	defer at.Close()
	k := skeletonReader{sum: fnv.New64a()}
	if err = k.read(at); err != nil {
		d.fact = judge.Fact{Detail: "cannot read it: " + err.Error()}
		return d
	}
	d.id, d.skeleton = k.id, judge.Skeleton{Sum: k.sum.Sum64(), Youngest: k.youngest}
	if d.fact.Truth = judge.Yes; d.id.Dev != dev {
		d.fact.Truth, d.fact.Detail = judge.No, "it is another subvolume or file system"
	}
	if c.entries[parsers.PodUID(name)] {
		d.only = skeletonOnly(at, nil)
	}
	d.host = s.hostName(d.id, at)
	return d
}

// skeletonReader reads the directories that the kubelet makes first.
type skeletonReader struct {
	sum      hash.Hash64
	id       judge.FileID // of the pod's directory
	youngest time.Time
}

func (k *skeletonReader) read(pod *fdpath.Dir) error {
	st, err := pod.Stat()
	if err != nil {
		return fdpath.PathError("statx", "", err)
	}
	k.id = fdpath.IDOf(&st)
	k.add("", &st)
	for _, name := range [...]string{"containers", "volume-subpaths"} {
		st, err := pod.StatName(name)
		if err == nil {
			k.add(name, &st)
		} else if !fdpath.Gone(err) {
			return fdpath.PathError("statx", name, err)
		}
	}
	if err := k.below(pod, "plugins", nil); err != nil {
		return err
	}
	return k.below(pod, "volumes", k.plugin)
}

// below adds the directory name and the directories in it, and calls each for these.
func (k *skeletonReader) below(pod *fdpath.Dir, name string, each func(at *fdpath.Dir, plugin string) error) error {
	dir, err := pod.Step(name)
	if fdpath.Gone(err) {
		return nil
	}
	if err != nil {
		return fdpath.OpenError(name, err)
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return fdpath.PathError("statx", name, err)
	}
	k.add(name, &st)
	return eachName(dir, name, func(entry string) error {
		st, err := dir.StatName(entry)
		if err != nil {
			return ignoreGone(fdpath.PathError("statx", name+"/"+entry, err))
		}
		if k.add(name+"/"+entry, &st); each != nil && fdpath.IsDir(&st) {
			return each(dir, entry)
		}
		return nil
	})
}

// plugin reads when the volumes of one plugin were written. Of a CSI volume that is its vol_data.json: the kubelet writes it
// before each NodePublish (NewMounter in csi_plugin.go), and removes the empty mount directory beside it at its first try to
// clean an orphan, which is no sign of work.
func (k *skeletonReader) plugin(volumes *fdpath.Dir, plugin string) error {
	dir, err := volumes.Step(plugin)
	if err != nil {
		return ignoreGone(fdpath.OpenError("volumes/"+plugin, err))
	}
	defer dir.Close()
	return eachName(dir, "volumes/"+plugin, func(name string) error {
		st, err := dir.StatName(name)
		if err != nil {
			return ignoreGone(fdpath.PathError("statx", "volumes/"+plugin+"/"+name, err))
		}
		if plugin != csiPlugin || !fdpath.IsDir(&st) {
			k.written(&st)
			return nil
		}
		in, ok, err := dir.StatIn(name, content.VolData, &st)
		if ok {
			return k.csi(&st, &in, err)
		}
		volume, err := dir.Step(name)   // before Linux 5.8, and at a mount point
		if errors.Is(err, unix.EXDEV) { // a driver has mounted on the volume itself: the mounts keep the pod
			return nil
		}
		if err != nil {
			return ignoreGone(fdpath.OpenError("volumes/"+plugin+"/"+name, err))
		}
		defer volume.Close()
		in, err = volume.StatName(content.VolData)
		return k.csi(&st, &in, err)
	})
}

// csi notes when a CSI volume was written: by its vol_data.json, or by its directory if there is none.
func (k *skeletonReader) csi(dir, data *unix.Statx_t, err error) error {
	switch {
	case err == nil:
		k.written(data)
	case fdpath.Gone(err):
		k.written(dir)
	default:
		return err
	}
	return nil
}

// add adds the state of one directory to the sum.
func (k *skeletonReader) add(path string, st *unix.Statx_t) {
	var b [24]byte
	binary.NativeEndian.PutUint64(b[:], st.Ino)
	binary.NativeEndian.PutUint64(b[8:], uint64(fdpath.Nanos(st.Mtime)))
	binary.NativeEndian.PutUint64(b[16:], uint64(fdpath.Nanos(st.Ctime)))
	_, _ = k.sum.Write([]byte(path + "\x00")) // a hash returns no error
	_, _ = k.sum.Write(b[:])
}

func (k *skeletonReader) written(st *unix.Statx_t) {
	if at := time.Unix(0, fdpath.Nanos(st.Mtime)); at.After(k.youngest) {
		k.youngest = at
	}
}

// eachName calls do for each entry of the directory, until that returns an error.
func eachName(dir *fdpath.Dir, path string, do func(name string) error) error {
	entries, err := dir.List(mostEntries)
	if err != nil {
		return fdpath.PathError("list", path, err)
	}
	for _, e := range entries {
		if err := do(e.Name); err != nil {
			return err
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if fdpath.Gone(err) {
		return nil
	}
	return err
}

// skeletonOnly returns Yes if the directory has only directories and what a kubelet makes before a container runs
// (content.MadeFirst), and no mount.
func skeletonOnly(at *fdpath.Dir, path []string) judge.Truth {
	const deepest = 6
	entries, err := at.List(mostEntries)
	if err != nil {
		return judge.Unknown
	}
	for _, e := range entries {
		below := append(slices.Clone(path), e.Name)
		next, err := at.Step(e.Name)
		switch {
		case errors.Is(err, unix.EXDEV):
			return judge.No
		case fdpath.Is(err, unix.ENOTDIR, unix.ELOOP):
			st, err := at.StatName(e.Name)
			if err != nil {
				return judge.Unknown
			}
			if !content.MadeFirst(below, fdpath.Type(&st), fdpath.Size(&st)) {
				return judge.No
			}
			continue
		case err != nil:
			return judge.Unknown
		}
		only := judge.No
		if len(below) <= deepest {
			only = skeletonOnly(next, below)
		}
		if next.Close(); only != judge.Yes {
			return only
		}
	}
	return judge.Yes
}

// mostHosts bounds the host names in memory.
const mostHosts = 10_000

// hostName returns the pod's host name, for display. It is read once of each directory.
func (s *Scanner) hostName(id judge.FileID, pod *fdpath.Dir) string {
	host, ok := s.hosts[id]
	if !ok {
		host = readHostName(pod)
		if s.hosts == nil || len(s.hosts) >= mostHosts {
			s.hosts = map[judge.FileID]string{}
		}
		s.hosts[id] = host
	}
	return host
}

// readHostName returns the pod's host name: the last name of the last line in etc-hosts that is the kubelet's.
func readHostName(pod *fdpath.Dir) string {
	text, err := pod.ReadFile("etc-hosts", 64<<10)
	if err != nil || !bytes.HasPrefix(text, []byte("# Kubernetes-managed hosts file")) {
		return ""
	}
	host := ""
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) >= 2 && f[0][0] != '#' && !bytes.ContainsAny(f[0], "%") {
			host = string(f[len(f)-1])
		}
		if bytes.HasPrefix(line, []byte("# Entries added by HostAliases")) {
			break
		}
	}
	if host == "localhost" || len(host) > 253 || bytes.HasPrefix([]byte(host), []byte("ip6-")) || bytes.HasPrefix([]byte(host), []byte("fe00")) {
		return ""
	}
	return host
}

// freeShares are the free shares of a file system's space and inodes, negative where there is no such count.
type freeShares struct{ bytes, inodes float64 }

// readFree reads the free shares of the pods' file system.
func (s *Scanner) readFree(context.Context) (freeShares, error) {
	free, path := freeShares{-1, -1}, s.cfg.RootDir+"/pods"
	var st unix.Statfs_t
	if err := fdpath.Uninterrupted(func() error { return unix.Statfs(path, &st) }); err != nil {
		return free, fdpath.PathError("statfs", path, err)
	}
	if st.Blocks > 0 {
		free.bytes = float64(st.Bavail) / float64(st.Blocks)
	}
	if st.Files > 0 { // btrfs has no count of inodes
		free.inodes = float64(st.Ffree) / float64(st.Files)
	}
	return free, nil
}
