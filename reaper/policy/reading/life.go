package reading

// Life is what runtime and kernel show of the life of one pod while a look is taken. What one
// of them did not tell is false, and so is no sign of it.
type Life struct {
	Ready              bool // the runtime has a sandbox of it that is ready
	Sandbox, Container bool // the runtime has one in whatever state
	Cgroup             bool // the pod has a cgroup
	Process            bool // a process is in it
}

// PassOver returns why the pod plainly lives, "" where its directory has to be walked. A pod that
// plainly lives is kept in any case, and the walk costs more than all the rest of the look. A pod
// that somebody asked for by its UID is walked all the same, and so is a parked one.
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

// Any reports whether something of the pod may still use its volumes: of VolumeUser it is Lives.
func (l Life) Any() bool { return l.Sandbox || l.Container || l.Process }

// Here reports whether the pod is this node's for certain; a list that has it is then this node's,
// too. A sandbox alone does not show that: a copied disk has old ones. Only this kernel has the
// cgroup.
func (l Life) Here() bool { return l.Sandbox && l.Cgroup }
