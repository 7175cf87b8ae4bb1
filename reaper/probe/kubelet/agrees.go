package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Agrees says whether what the operator set agrees with the kubelets that run: the root
// directory and the runtime's socket. A kubelet's own word is the better one on both, and
// a wrong one makes facts of another node: a socket that does not know the pods, or a
// directory whose pods nobody wants. Every look asks the same anew.
func (r *Reader) Agrees(ctx context.Context) policy.Fact {
	return r.Find(ctx).Agrees
}

// moved says whether a new start would look at the root directory of the one kubelet that
// runs, and this one does not. At the boot of a node whose kubelet comes late (k0s, microk8s)
// there was none to ask.
func (r *Reader) moved(ks kubelets) bool {
	return !r.Waive && !r.RootDirSet && len(ks.ours) == 0 && len(ks.others) == 1 && !ks.others[0].files.apart
}

// agrees compares what was found; doubt says why that may not be all.
//
// What was left to the kubelet cannot contradict it, but for the root directory: it was
// looked for once, at the start, and a guess or a kubelet of before is no choice.
func (r *Reader) agrees(ks kubelets, doubt error) policy.Fact {
	f := policy.Fact{Origin: r.ProcDir}
	switch {
	case r.Waive:
		f.Truth, f.Origin, f.Detail = policy.Yes, "--runtime-endpoint", "none: there is no kubelet to agree with"
		return f
	case doubt != nil && r.RootDirSet:
		f.Detail = fmt.Sprintf("cannot tell whether the kubelet agrees with --root-dir %s: %v", r.RootDir, doubt)
		return f
	case doubt != nil:
		f.Detail = fmt.Sprintf("cannot tell the kubelet's root directory: %v; set --root-dir", doubt)
		return f
	}
	if truth, words := r.rootAgrees(ks); truth != policy.Yes {
		f.Truth, f.Detail = truth, words
		return f
	}
	for _, k := range ks.ours {
		if truth, words := r.endpointAgrees(k); truth != policy.Yes {
			f.Truth, f.Detail = truth, words
			return f
		}
	}
	f.Truth, f.Detail = policy.Yes, "no kubelet runs that could say otherwise"
	if len(ks.ours) > 0 {
		f.Detail = "nothing that is set says otherwise than " + list(ks.ours)
	}
	return f
}

// rootAgrees says whether the root directory is that of a kubelet that runs, or of none
// that could say otherwise.
func (r *Reader) rootAgrees(ks kubelets) (policy.Truth, string) {
	hidden := slices.ContainsFunc(ks.others, func(k *Kubelet) bool { return k.hidden })
	switch {
	case len(ks.others) == 0:
		return policy.Yes, ""
	case r.RootDirSet && len(ks.ours) > 0:
		return policy.Yes, "" // the operator has chosen among them
	case r.RootDirSet && hidden:
		return policy.Unknown, fmt.Sprintf("cannot tell whether the kubelet agrees with --root-dir %s: k3s hides its command line, and its configuration "+
			"file says otherwise: %s; write kubelet-arg: [root-dir=%s] there, if that is its root directory", r.RootDir, list(ks.others), r.RootDir)
	case r.RootDirSet:
		return policy.No, fmt.Sprintf("--root-dir is %s, and the kubelet that runs has another: %s; leave --root-dir out, or set it to the kubelet's",
			r.RootDir, list(ks.others))
	case len(ks.ours) > 0 || len(ks.others) > 1:
		return policy.No, fmt.Sprintf("several kubelets run, and --root-dir names none of them: %s; set --root-dir to the root directory of the one that is meant",
			list(slices.Concat(ks.ours, ks.others)))
	case ks.others[0].files.apart:
		return policy.No, fmt.Sprintf("the kubelet has a mount namespace of its own, where its root directory is another than %s here: %s; "+
			"set --root-dir to where that directory is here", r.RootDir, ks.others[0])
	}
	return policy.No, fmt.Sprintf("the root directory was %s when orphan-reaper started, and the kubelet that runs now has another: %s; restart orphan-reaper",
		r.RootDir, ks.others[0])
}

// endpointAgrees compares --runtime-endpoint with what the kubelet was told, by flag, file
// or drop-in. A kubelet that was told nothing contradicts nothing.
func (r *Reader) endpointAgrees(k *Kubelet) (policy.Truth, string) {
	ours := r.RuntimeEndpoint
	if ours == "" || ours == cri.EndpointAuto || ours == cri.EndpointNone {
		return policy.Yes, ""
	}
	theirs, err := k.runtimeEndpoint()
	switch {
	case err != nil:
		return policy.Unknown, fmt.Sprintf("cannot tell whether the kubelet (PID %d) agrees with --runtime-endpoint %s: %v; %s",
			k.ID.PID, ours, err, adviceReadable)
	case theirs == "":
		return policy.Yes, ""
	}
	same, err := k.sameSocket(theirs, ours)
	switch {
	case err != nil:
		return policy.Unknown, fmt.Sprintf("cannot tell whether --runtime-endpoint %s is the socket of the kubelet (PID %d), %s: %v",
			ours, k.ID.PID, clean.Name(theirs), err)
	case !same:
		return policy.No, fmt.Sprintf("--runtime-endpoint is %s, and the kubelet (PID %d) uses %s; leave --runtime-endpoint out, or set it to the kubelet's",
			ours, k.ID.PID, clean.Name(theirs))
	}
	return policy.Yes, ""
}

// adviceReadable is what a person can do where the kubelet's own files cannot be read: to
// set the same in our configuration does not help, since that could not be checked.
const adviceReadable = "put that right, or restart the kubelet with a configuration that can be read"

// sameSocket says whether two endpoints are the same socket: by path, as where the runtime
// is down, or by what lies there, as where one path leads through a symlink.
func (k Kubelet) sameSocket(theirs, ours string) (bool, error) {
	a, okA := cri.SocketPath(theirs)
	b, okB := cri.SocketPath(ours)
	if !okA || !okB {
		return false, nil // the kubelet's is no socket of this machine (tcp, npipe)
	}
	if !k.files.apart && k.files.err == nil && filepath.Clean(a) == filepath.Clean(b) {
		return true, nil
	}
	if same, err := k.sameFile(a, b); err != nil || same {
		return same, err
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false, nil
	}
	// The runtime is down and has taken its socket along, or it is another one.
	return k.sameFile(filepath.Dir(a), filepath.Dir(b))
}

// namedSocket is the socket that the kubelet was told to use. Where it sees other files
// than we, the path must lead to the same socket here.
func (k Kubelet) namedSocket(endpoint string) cri.Sockets {
	from := fmt.Sprintf("the kubelet (PID %d)", k.ID.PID)
	s := cri.NamedSocket(endpoint, from)
	if s.Err != nil || !k.files.apart && k.files.err == nil {
		return s
	}
	same, err := k.sameFile(s.Paths[0], s.Paths[0])
	if err == nil && !same {
		err = errors.New("the kubelet has a mount namespace of its own, where that is another socket than here; " +
			"set --runtime-endpoint to where it is here")
	}
	if err != nil {
		s.Err = s.Explain(s.Paths[0], err)
	}
	return s
}
