package program

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// defaultPods are those of a node without FILE.
const defaultPods = `
web-0       a35b97e0-1f4d-4b62-9e83-c8d70a12f504  living  emptydir secret cni=cbr0
shop-1      5b6c2f88-93d1-4a0e-8f0b-27f4c6e0d311  living  csi mount cni=cbr0
kube-proxy  7f8e47b71a845b4eb634a44a94e20069      static
cart-0      1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01  dead    csi secret cni=cbr0
orders-0    4a90d1b7-03e2-4f0c-8a56-2b9be1f3d702  dead    csi-data
build-9     6e02b7d4-7c35-4d0b-b1a8-9a40f6d2c805  ended   emptydir
reports-0   7c2e8f14-b6a9-4d38-a1c7-90d5e6b48f03  dead    csi mount
`

// stateOf describes a state. The kubelet reports what it does not list, unless a volume is in its manager or mounted.
type stateOf struct {
	sandbox    sandboxState
	containers []containerState
	process    bool // in its cgroup
	cgroup     bool // without process
	listed     bool // by the kubelet
	inManager  bool // a volume is in the kubelet's volume manager
	static     bool // from a manifest of the node
}

type sandboxState uint8

const (
	noSandbox sandboxState = iota
	sandboxReady
	sandboxNotReady
)

type containerState uint8

const (
	containerCreated containerState = iota
	containerRunning
	containerExited
	containerUnknown
)

// states are the states of FILE.
var states = map[string]stateOf{
	"living":     {sandbox: sandboxReady, containers: []containerState{containerRunning}, process: true, listed: true},
	"static":     {sandbox: sandboxReady, containers: []containerState{containerRunning}, process: true, listed: true, static: true},
	"waiting":    {cgroup: true, listed: true},
	"completed":  {listed: true},
	"ended":      {sandbox: sandboxNotReady, containers: []containerState{containerExited}},
	"dead":       {},
	"in-manager": {inManager: true},
	"lost":       {process: true, listed: true},
	"unknown":    {sandbox: sandboxReady, containers: []containerState{containerCreated, containerUnknown}, cgroup: true, listed: true},
}

// plainWords are the words of FILE without a value.
var plainWords = []string{
	"csi", "csi-data", "nfs-data", "emptydir", "secret", "subpath", "block",
	"mount", "mount-elsewhere", "mount-subpath", "staged", "process", "cgroup", "young",
}

// volumeWords make a volume of which the kubelet finds something.
var volumeWords = []string{"csi", "csi-data", "nfs-data", "emptydir", "secret", "files"}

// podSpec is a line of FILE.
type podSpec struct {
	Name, UID, State string
	Words            []string // without values, in their order
	Files            int      // of files=N
	Network          string   // of cni=NET
}

func (p *podSpec) has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(p.Words, w) })
}

func (p *podSpec) state() stateOf { return states[p.State] }

// fromNode reports whether the pod is from a manifest of the node. Such pods have UIDs without dashes.
func (p *podSpec) fromNode() bool { return p.state().static || !strings.Contains(p.UID, "-") }

// parsePods parses FILE. Empty lines and lines that begin with # are skipped.
func parsePods(file, text string) ([]podSpec, error) {
	var all []podSpec
	for number, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, err := parsePod(line)
		if err == nil {
			err = isNew(all, p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number+1, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// isNew returns an error if a pod has the name or the UID of another.
func isNew(all []podSpec, p podSpec) error {
	for _, other := range all {
		if other.Name == p.Name {
			return fmt.Errorf("the name %s is already used", p.Name)
		}
		if other.UID == p.UID {
			return fmt.Errorf("the UID %s is already that of %s", p.UID, other.Name)
		}
	}
	return nil
}

var (
	podName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)
	networkName = regexp.MustCompile(`^[a-zA-Z0-9][-a-zA-Z0-9_.]*$`)
)

func parsePod(line string) (podSpec, error) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return podSpec{}, errors.New("want NAME UID STATE [WORD…]")
	}
	p := podSpec{Name: f[0], UID: f[1], State: f[2]}
	state, ok := states[p.State]
	switch {
	case !podName.MatchString(p.Name):
		return p, fmt.Errorf("%q is no name of a pod: use a-z, 0-9, . and -", p.Name)
	case strings.ContainsAny(p.UID, "/\x00") || p.UID == "." || p.UID == ".." || len(p.UID) > 255:
		return p, fmt.Errorf("%q cannot be the name of a directory", p.UID)
	case !ok:
		return p, fmt.Errorf("%q is no state: use one of %s", p.State, strings.Join(stateNames(), ", "))
	case state.static && strings.Contains(p.UID, "-"):
		return p, fmt.Errorf("the static pod %s has the UID %s: use one without dashes", p.Name, p.UID)
	}
	for _, word := range f[3:] {
		if err := p.add(word); err != nil {
			return p, err
		}
	}
	p.complete()
	return p, nil
}

func stateNames() []string {
	return []string{"living", "static", "waiting", "completed", "ended", "dead", "in-manager", "lost", "unknown"}
}

func (p *podSpec) add(word string) error {
	key, value, valued := strings.Cut(word, "=")
	switch {
	case p.has(key):
		return fmt.Errorf("the word %s is there twice", key)
	case key == "files" && valued:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: use files=N with a number of files", word)
		}
		p.Files = n
	case key == "cni" && valued:
		if !networkName.MatchString(value) {
			return fmt.Errorf("%q: use cni=NET with the name of a network", word)
		}
		p.Network = value
	case !slices.Contains(plainWords, word):
		return fmt.Errorf("%q is no word: use %s, files=N or cni=NET", word, strings.Join(plainWords, ", "))
	}
	p.Words = append(p.Words, key)
	return nil
}

// complete adds a volume where the state or a word needs one: without any volume a kubelet removes an orphaned pod's
// directory by itself. A kubelet would also remove an empty mount point that is mounted elsewhere only.
func (p *podSpec) complete() {
	s := p.state()
	switch {
	case p.has("staged") && !p.has("csi", "csi-data"):
		p.Words = append(p.Words, "csi")
	case p.has(volumeWords...):
	case p.has("mount-elsewhere"):
		p.Words = append(p.Words, "csi-data")
	case s.listed:
		p.Words = append(p.Words, "emptydir")
	case p.has("mount") || s.inManager || !p.has("subpath", "mount-subpath"):
		p.Words = append(p.Words, "csi")
	}
}
