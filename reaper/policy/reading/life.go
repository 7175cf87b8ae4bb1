package reading

// Life is what runtime and kernel show of the life of one pod while a look is taken. What one
// of them did not tell is false, and so is no sign of it.
type Life struct {
	Ready              bool // the runtime has a sandbox of it that is ready
	Sandbox, Container bool // the runtime has one in whatever state
	Cgroup             bool // the pod has a cgroup
	Process            bool // a process is in it
}

// PassOver says why the pod plainly lives, "" where it may be dead. It is kept in any case then,
// and its directory need not be walked, which costs more than all else of the look. Whoever asks
// for one pod gets all of it, and of what lies in quarantine all is read.
func (l Life) PassOver(askedFor, parked bool) string {
	switch {
	case askedFor, parked:
		return ""
	case l.Ready:
		return "not read: the pod lives, its sandbox is ready"
	case l.Process:
		return "not read: the pod lives, a process is in its cgroup"
	}
	return ""
}

// Any says whether something of the pod may still use its volumes: of VolumeUser it is Lives.
func (l Life) Any() bool { return l.Sandbox || l.Container || l.Process }

// Here says whether the pod is this node's for certain, and so is a list that has it: the image of
// a disk that was copied has old sandboxes, and only this kernel has the cgroup.
func (l Life) Here() bool { return l.Sandbox && l.Cgroup }
