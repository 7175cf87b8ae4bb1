package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// mostManifests is far above the few that a node has. Each has a few KiB and may have
// maxConfig; the kubelet reads up to 10 MiB.
const mostManifests = 512

// manifest is a static pod's manifest, as far as it says whose it is.
type manifest struct {
	file            string
	namespace, name string
	uid             string // metadata.uid, which the kubelet takes as it is; usually none
}

// staticSandbox is a sandbox in which the runtime runs a static pod.
type staticSandbox struct {
	uids    []string
	created int64 // nanoseconds since the epoch
}

// staticPods is what the manifests of the kubelet that runs now say in one look.
//
// A static pod's UID is a hash of its decoded manifest, the node's name and the file's
// path. What is hashed is the printed form of the kubelet's own Go type of a pod, which
// gains fields with releases (kubernetes#67537), and the hash function has changed too; so
// no other program can compute it, and whether a manifest owns a UID is found by names.
type staticPods struct {
	files     kubeletFiles
	origin    string
	node      string // what the kubelet appends to the manifests' names
	manifests []manifest
	unsure    string // why there may be more static pods than manifests
	err       error  // why a manifest could not be read
}

// staticPods reads the manifests. It is asked after the listing, like everything else.
func (p *Probe) staticPods(ctx context.Context, k *kubelet) *staticPods {
	if k == nil {
		return &staticPods{origin: p.cfg.ProcDir, unsure: "no kubelet is known whose static pods could be read"}
	}
	s, err := bounded.Do(ctx, p.guard, "static pods", func() *staticPods { return readStaticPods(k) })
	if err != nil {
		return &staticPods{err: fmt.Errorf("cannot read the static pods' manifests: %w", err)}
	}
	return s
}

func readStaticPods(k *kubelet) *staticPods {
	s := &staticPods{files: k.files, origin: k.String()}
	source, err := k.manifestSource()
	if err != nil {
		s.err = fmt.Errorf("the kubelet (PID %d) does not tell where its static pods are: %w", k.id.PID, err)
		return s
	}
	if len(source.paths) > 0 {
		s.origin = strings.Join(source.paths, ", ")
	}
	if source.url != "" {
		s.unsure = "the kubelet has static pods from a URL too"
	}
	if s.node = k.flags.last("hostname-override"); s.node == "" {
		s.node, _ = os.Hostname() // without it no pod is found to run, and more is kept
	}
	s.node = strings.ToLower(strings.TrimSpace(s.node))
	for _, path := range source.paths {
		err := s.read(path)
		if errors.Is(err, fs.ErrNotExist) && k.name != nameK3s {
			// The kubelet takes a path that is not there for an empty directory. k3s makes its
			// own, so there it means that we look at the wrong place.
			err = nil
		}
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("cannot read the static pods' manifests: %w", err)
		}
	}
	return s
}

// read reads what the kubelet would: the path may be one file or a directory, symlinks are
// followed, names that begin with a dot and directories are passed over, and whatever a
// file is called it is taken for a manifest.
func (s *staticPods) read(path string) error {
	info, err := s.files.stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.add(path)
	}
	names, err := s.manifestNames(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if e := s.add(filepath.Join(path, name)); e != nil && err == nil {
			// Without ErrNotExist: a file that is not there any more is just being replaced.
			err = errors.New(e.Error())
		}
	}
	return err
}

func (s *staticPods) manifestNames(dir string) ([]string, error) {
	f, err := s.files.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	entries, err := beneath.List(int(f.Fd()), mostManifests+1)
	if err == nil && len(entries) > mostManifests {
		err = fmt.Errorf("%s holds more than %d files", dir, mostManifests)
	}
	var names []string
	for _, d := range entries {
		if !strings.HasPrefix(d.Name, ".") {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

func (s *staticPods) add(file string) error {
	info, err := s.files.stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil // the kubelet passes it over
	}
	text, err := s.files.read(file)
	if err != nil {
		return err
	}
	m, err := parseManifest(text)
	if err != nil {
		return fmt.Errorf("%s: %w", clean.Name(file), err)
	}
	if m != nil {
		m.file = clean.Name(file)
		s.manifests = append(s.manifests, *m)
	}
	return nil
}

// parseManifest returns nil for an object of another kind, which the kubelet refuses. What
// does not even say its kind may be a manifest that is just being written.
func parseManifest(text []byte) (*manifest, error) {
	var pod struct {
		Kind     string `yaml:"kind"`
		Metadata struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
			UID       string `yaml:"uid"`
		} `yaml:"metadata"`
	}
	read := yaml.Unmarshal
	if json.Valid(text) {
		read = json.Unmarshal // JSON may be indented with tabs, which YAML may not
	}
	if err := read(text, &pod); err != nil {
		return nil, err
	}
	switch m := pod.Metadata; {
	case pod.Kind == "":
		return nil, errors.New("it names no kind")
	case pod.Kind != "Pod":
		return nil, nil //nolint:nilnil // no pod is an answer, not an error
	case m.Name == "":
		return nil, errors.New("the pod has no name")
	case m.Namespace == "":
		return &manifest{namespace: "default", name: m.Name, uid: m.UID}, nil
	default:
		return &manifest{namespace: m.Namespace, name: m.Name, uid: m.UID}, nil
	}
}

// fact answers whether a manifest owns the pod's UID; certain says that the evidence has
// the pod's own name.
func (s *staticPods) fact(e *policy.Evidence, certain bool, running map[podName][]staticSandbox) policy.Fact {
	f := policy.Fact{Origin: s.origin}
	var maybe string
	for _, m := range s.manifests {
		switch truth, words := m.owns(e, certain, s.node, running); truth {
		case policy.Yes:
			f.Truth, f.Detail = policy.Yes, words
			return f
		case policy.Unknown:
			maybe = words
		case policy.No:
			if words != "" {
				f.Detail = words
			}
		}
	}
	switch {
	case len(e.UID) != policy.StaticUIDLen:
		f.Truth = policy.No // and no manifest states it: whatever could not be read, the kubelet gives no such UID
	case s.err != nil:
		f.Detail = s.err.Error()
	case s.unsure != "":
		f.Detail = s.unsure
	case maybe != "":
		f.Detail = maybe
	default:
		f.Truth = policy.No
	}
	return f
}

// owns says whether the manifest owns the UID, with words for people.
//
// One that the runtime runs under another UID, in a sandbox younger than the directory,
// does not: the directory has the UID that the same manifest had in an older kubelet, or
// an older manifest of that name. The sandbox must be ready: a new UID's pod may wait
// while the old one's sandbox is still listed.
func (m manifest) owns(e *policy.Evidence, certain bool, node string, running map[podName][]staticSandbox) (policy.Truth, string) {
	switch {
	case m.uid != "" && m.uid == string(e.UID):
		return policy.Yes, m.file + " states this UID"
	case m.uid != "", len(e.UID) != policy.StaticUIDLen:
		return policy.No, ""
	}
	fits := m.fits(e)
	if certain && !fits {
		return policy.No, ""
	}
	names := []podName{{m.namespace, m.name + "-" + node}}
	if certain {
		names = append(names, podName{e.Namespace, e.PodName})
	}
	for _, n := range names {
		if uid := since(running[n], e); uid != "" {
			return policy.No, fmt.Sprintf("%s is the manifest of %s, which the runtime runs under another UID: %s", m.file, n.name, uid)
		}
	}
	if fits {
		return policy.Yes, m.file + " is this pod's manifest"
	}
	return policy.Unknown, "the pod's name is not known, and " + m.file + " may be its manifest"
}

// fits says whether the pod may have its name from the manifest: the kubelet appends the
// node's name. A name without a namespace, from etc-hosts, counts as well.
func (m manifest) fits(e *policy.Evidence) bool {
	return (e.Namespace == m.namespace || e.Namespace == "") &&
		(e.PodName == m.name || strings.HasPrefix(e.PodName, m.name+"-"))
}

// since returns the UID of a sandbox that is another pod's and was made after the
// directory, "" where there is none or the directory's birth is not known.
func since(sandboxes []staticSandbox, e *policy.Evidence) string {
	for _, s := range sandboxes {
		if e.ID.Btime > 0 && s.created > e.ID.Btime && !slices.Contains(s.uids, string(e.UID)) {
			return clean.Name(s.uids[0])
		}
	}
	return ""
}

// anyStatic says whether one of the wanted UIDs is one that the kubelet itself gives.
func (w wanted) anyStatic() bool {
	for uid := range w {
		if len(uid) == policy.StaticUIDLen {
			return true
		}
	}
	return false
}
