package judge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Advice is an operator's next step.
type Advice struct {
	Do string `json:"do"`
	// Commands are for a shell, in this order. None of them refuses as long as the verdict is true.
	Commands []string `json:"commands,omitempty"`
}

// first are the reasons with an advice, in the order in which they are ended: while one of them keeps the pod, the commands of
// those behind it refuse.
var first = [...]ReasonName{
	NotAUID, NoKubelet, NotVisible, Stuck, BreakerOpen, WasRestored, BadDirectory, HasCgroup, IsStaged, IsMounted, CannotMove, NotReported,
}

// advice returns the next step for a pod that is kept, chosen by all its reasons.
func (c *Case) advice(v Verdict, facts Facts) *Advice {
	if v.Decision != Keep {
		return nil
	}
	for _, r := range table {
		if f := facts[r.fact]; f.Truth == Unknown && !f.Busy && c.Pod.UID != "" {
			return &Advice{Do: "Repair what could not be read (" + r.fact.String() + "): " + f.Detail}
		}
	}
	has := func(n ReasonName) bool {
		return slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Reason == n })
	}
	for _, n := range first {
		if !has(n) {
			continue
		}
		a := n.Advice(c.Node, c.Pod.UID)
		switch n {
		case IsMounted:
			return c.unmount(a, facts)
		case HasCgroup:
			if !c.Log.lasts(c.Now) {
				return nil // the kubelet destroys it
			}
		case NotReported:
			if slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Reason != NotReported && r.Reason != OnHold }) {
				return nil
			}
			if Credible(c.Log.Volumes, c.Node, c.Now) == "" { // it reports the pod: it has volumes of it, and unmounts these
				return nil
			}
		case NotAUID, CannotMove, BadDirectory:
			i := slices.IndexFunc(v.Reasons, func(r Reason) bool { return r.Reason == n })
			a.Do = strings.TrimSuffix(a.Do, ".") + ": " + v.Reasons[i].Detail
			if n == BadDirectory {
				a.Do += " (" + facts[Directory].Source + ")"
			}
		default:
		}
		return a
	}
	return nil
}

// advice returns the next step for a pod. If this process can change nothing, no command about the pod works before that ends.
func (in *Input) advice(c Case, v Verdict, facts Facts) *Advice {
	a := c.advice(v, facts)
	if why, stopped := in.Permit.Stopped(); a != nil && stopped && why.Reason == NotVisible {
		return why.Reason.Advice(c.Node, c.Pod.UID)
	}
	return a
}

// unmount returns the advice for a pod with a mount in it, nil if `unmount` refuses for another reason. A kubelet is silent
// about most of these pods: then it has to report all first.
func (c *Case) unmount(a *Advice, facts Facts) *Advice {
	if v, _ := c.judge(facts, Reported, Mounted, Eligible); v.Decision != Remove {
		return nil
	}
	if f := facts[Mounted]; !f.Alive { // `unmount` finds only what is below the pod's directory
		return &Advice{Do: "The pod seems dead, and a process has something of it mounted, or has its UID in a mount. End that process, or unmount it in its mount namespace: " + f.Detail}
	}
	if Unmountable(*c).Decision == Remove {
		return a
	}
	a.Do = "The pod seems dead, something is still mounted in it, and the kubelet is silent about it. Have the kubelet report it, unmount, and switch the kubelet back:"
	a.Commands = []string{fill(verbose, c.Node, c.Pod.UID), a.Commands[0], fill(usual, c.Node, c.Pod.UID)}
	return a
}

// advice returns the next step for an entry: of restore and purge those that are not refused.
func (j *JudgedEntry) advice(in Input) *Advice {
	p, ok := in.Snapshot.Pod(j.UID)
	if !ok || len(j.Reasons) == 0 {
		return nil
	}
	last := j.Reasons[len(j.Reasons)-1].Reason
	a := last.Advice(in.Snapshot.Node, j.UID)
	switch last {
	case StepFailed:
		a.Do = strings.TrimSuffix(a.Do, ".") + ": " + j.Err
		return a
	case InUse:
		if j.Phase != InConflict && j.Phase != Quarantined {
			return &Advice{Do: "The pod goes on with its new directory. When it has ended, purge what is in quarantine."}
		}
	case HoldsData, Retention:
	default:
		return nil
	}
	why, _ := in.Permit.Stopped()
	obstacle := ""
	a.Commands = slices.DeleteFunc(a.Commands, func(command string) bool {
		refused := ""
		if replace := strings.HasSuffix(command, " --replace"); strings.Contains(command, " restore ") {
			_, refused = RestoreOrder(j.Entry, *p, replace, nil)
		} else if _, refused = PurgeOrder(j.Entry, *p, nil); why.Reason == NotVisible { // see Standing.Gate
			return true
		}
		if obstacle == "" {
			obstacle = refused
		}
		return refused != ""
	})
	if len(a.Commands) == 0 && obstacle != "" {
		a.Do = strings.TrimSuffix(a.Do, ":") + " Neither is possible now: " + obstacle
	}
	return a
}

// Advice returns what to do about a reason, with the placeholders filled in, nil if there is nothing to do.
func (n ReasonName) Advice(node Node, uid parsers.PodUID) *Advice {
	t := n.Text()
	if t.Do == "" {
		return nil
	}
	a := &Advice{Do: t.Do}
	for _, c := range t.Commands {
		if strings.Contains(c, "{unit}") && (node.Kubelet.Unit == "" || strings.Trim(node.Kubelet.Unit, plain) != "") {
			continue // it runs in no unit that is known, or that a shell reads as it is
		}
		a.Commands = append(a.Commands, fill(c, node, uid))
	}
	return a
}

// fill puts values into the placeholders of a command. None of them needs quoting in a shell.
func fill(command string, node Node, uid parsers.PodUID) string {
	name := node.Name
	if name == "" || strings.Trim(name, plain) != "" {
		name = "NODE"
	}
	return strings.NewReplacer("{uid}", string(uid), "{node}", name, "{v}", strconv.Itoa(node.Kubelet.Verbosity), "{unit}", node.Kubelet.Unit,
		"{cgroup}", strings.ReplaceAll(string(uid), "-", "[-_]")).Replace(command)
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
