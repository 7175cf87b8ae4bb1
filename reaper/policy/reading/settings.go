package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Settings are what the operator set, and what was found in its place when the program started.
type Settings struct {
	Waive      bool // there is no kubelet
	RootDir    string
	RootDirSet bool   // the operator chose it
	Endpoint   string // --runtime-endpoint, "" where it names none
}

// Kubelet is a kubelet that runs, as far as settings are compared with it.
type Kubelet struct {
	Words  string // for display
	PID    int
	Hidden bool // it shows a title in place of its command line
	Apart  bool // it has a mount namespace of its own, where its root directory is another than here
	// Endpoint is asked only where Settings has one.
	Endpoint Endpoint
}

// Endpoint is the runtime's socket that a kubelet is set to use, by flag, file or drop-in.
type Endpoint struct {
	Told string // for display; "" if it has no setting
	Same bool   // it is the socket of Settings
	Err  error  // why that is not known, or if Told is empty why the setting is not known
}

// Moved reports whether a restart of this program would find another root directory: at the boot of a node whose kubelet
// comes late (k0s, microk8s) it was a guess.
func (s Settings) Moved(ours, others []Kubelet) bool {
	return !s.Waive && !s.RootDirSet && len(ours) == 0 && len(others) == 1 && !others[0].Apart
}

// Agree reports whether the settings agree with the kubelets that run. Ours have the root directory, others another; doubt
// is why there may be more. A wrong socket or directory would make facts of another node. A setting that was left to the
// kubelet cannot contradict it, but for the root directory, which was found once, at the start.
func (s Settings) Agree(origin string, ours, others []Kubelet, doubt error) policy.Fact {
	f := policy.Fact{Origin: origin}
	switch {
	case s.Waive:
		f.Truth, f.Origin, f.Detail = policy.Yes, "--runtime-endpoint", "none: there is no kubelet to agree with"
		return f
	case doubt != nil && s.RootDirSet:
		f.Detail = fmt.Sprintf("cannot find out whether the kubelet agrees with --root-dir %s: %v", s.RootDir, doubt)
		return f
	case doubt != nil:
		f.Detail = fmt.Sprintf("cannot find the kubelet's root directory: %v; set --root-dir", doubt)
		return f
	}
	if truth, words := s.rootAgrees(ours, others); truth != policy.Yes {
		f.Truth, f.Detail = truth, words
		return f
	}
	for _, k := range ours {
		if truth, words := s.endpointAgrees(k); truth != policy.Yes {
			f.Truth, f.Detail = truth, words
			return f
		}
	}
	f.Truth, f.Detail = policy.Yes, "no kubelet runs that could contradict"
	if len(ours) > 0 {
		f.Detail = "no setting contradicts " + wordsOf(ours)
	}
	return f
}

// rootAgrees reports whether the root directory is that of a kubelet that runs, or no kubelet has another.
func (s Settings) rootAgrees(ours, others []Kubelet) (policy.Truth, string) {
	hidden := slices.ContainsFunc(others, func(k Kubelet) bool { return k.Hidden })
	switch {
	case len(others) == 0:
		return policy.Yes, ""
	case s.RootDirSet && len(ours) > 0:
		return policy.Yes, "" // the operator has chosen among them
	case s.RootDirSet && hidden:
		return policy.Unknown, fmt.Sprintf("cannot find out whether the kubelet agrees with --root-dir %s: k3s hides its command line, and its configuration "+
			"file differs: %s; write kubelet-arg: [root-dir=%s] there, if that is its root directory", s.RootDir, wordsOf(others), s.RootDir)
	case s.RootDirSet:
		return policy.No, fmt.Sprintf("--root-dir is %s, and the kubelet that runs has another: %s; leave --root-dir out, or set it to the kubelet's",
			s.RootDir, wordsOf(others))
	case len(ours) > 0 || len(others) > 1:
		return policy.No, fmt.Sprintf("several kubelets run, and --root-dir names none of them: %s; set --root-dir to the root directory of the one that is meant",
			wordsOf(slices.Concat(ours, others)))
	case others[0].Apart:
		return policy.No, fmt.Sprintf("the kubelet has a mount namespace of its own, where its root directory is another than %s here: %s; "+
			"set --root-dir to where that directory is here", s.RootDir, others[0].Words)
	}
	return policy.No, fmt.Sprintf("the root directory was %s when orphan-reaper started, and the kubelet that runs now has another: %s; restart orphan-reaper",
		s.RootDir, others[0].Words)
}

// endpointAgrees compares --runtime-endpoint with the kubelet's setting, if it has one.
func (s Settings) endpointAgrees(k Kubelet) (policy.Truth, string) {
	e := k.Endpoint
	switch {
	case s.Endpoint == "":
		return policy.Yes, ""
	case e.Told == "" && e.Err != nil:
		return policy.Unknown, fmt.Sprintf("cannot find out whether the kubelet (PID %d) agrees with --runtime-endpoint %s: %v; %s",
			k.PID, s.Endpoint, e.Err, AdviceReadable)
	case e.Told == "":
		return policy.Yes, ""
	case e.Err != nil:
		return policy.Unknown, fmt.Sprintf("cannot find out whether --runtime-endpoint %s is the socket of the kubelet (PID %d), %s: %v",
			s.Endpoint, k.PID, e.Told, e.Err)
	case !e.Same:
		return policy.No, fmt.Sprintf("--runtime-endpoint is %s, and the kubelet (PID %d) uses %s; leave --runtime-endpoint out, or set it to the kubelet's",
			s.Endpoint, k.PID, e.Told)
	}
	return policy.Yes, ""
}

// AdviceReadable is for a kubelet whose own files cannot be read. A setting of ours could not be checked against them.
const AdviceReadable = "put that right, or restart the kubelet with a configuration that can be read"

func wordsOf(ks []Kubelet) string {
	var words []string
	for _, k := range ks {
		words = append(words, k.Words)
	}
	return strings.Join(words, "; ")
}
