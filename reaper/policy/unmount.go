package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Mount is a mount below a pod's directory, in the node's own mount namespace.
type Mount struct {
	ID     uint64 `json:"id"`                  // of mountinfo; the kernel uses it again after an unmount
	Unique uint64 `json:"unique_id,omitempty"` // of statx (Linux 6.8), never used again; 0 if it is not known
	Path   string `json:"path"`                // from the pod directory on
	Type   string `json:"type"`
	Source string `json:"source"`
	Dev    string `json:"device"` // major:minor of the file system
	Root   string `json:"root"`   // the directory of the file system that is mounted
	Parent uint64 `json:"-"`      // the ID of the mount that has the mount point
	// Copies are the IDs of the same mount in other namespaces. It goes from those as well, or stays in all.
	Copies []uint64 `json:"-"`
	// Shares are mounts at other places that receive what is unmounted here, for display.
	Shares []string `json:"-"`
	// Users are others with a mount of the same volume: "pod UID" or "PID N".
	Users []string `json:"-"`
	// Deleted is true if it shows a file that has no other name, or a loop device of one: without it that would be lost.
	Deleted bool `json:"-"`
	// Stays is why the mount is not unmounted, "" if nothing speaks against it.
	Stays string `json:"stays,omitempty"`
}

// Is reports whether both are the same mount at the same place.
func (m Mount) Is(o Mount) bool {
	return m.sameID(o) && m.Path == o.Path && m.Dev == o.Dev && m.Root == o.Root && m.Type == o.Type && m.Source == o.Source
}

func (m Mount) sameID(o Mount) bool {
	return m.ID == o.ID && (m.Unique == o.Unique || m.Unique == 0 || o.Unique == 0)
}

// Words describes the mount for display.
func (m Mount) Words() string {
	from := m.Source
	if m.Root != "/" {
		from = strings.TrimSpace(m.Root + " of " + m.Source)
	}
	return fmt.Sprintf("%s (%s, %s)", clean.Name(m.Path), clean.Name(m.Type), clean.Name(from))
}

// memoryTypes are file systems that are gone with their last mount.
var memoryTypes = []string{"tmpfs", "ramfs", "hugetlbfs", "bpf", "devpts", "mqueue", "binder"}

// InMemory reports whether what the mount holds is lost with its last mount.
func (m Mount) InMemory() bool { return slices.Contains(memoryTypes, m.Type) }

const csiPlugin = "kubernetes.io~csi"

// csiVolume returns the name of the CSI volume that is mounted, "" for any other mount.
func (m Mount) csiVolume() string {
	parts := strings.Split(m.Path, "/")
	if len(parts) < 3 || parts[0] != "volumes" && parts[0] != "volumeDevices" || parts[1] != csiPlugin {
		return ""
	}
	return parts[2]
}

// CSI reports whether a CSI driver has mounted it.
func (m Mount) CSI() bool { return m.csiVolume() != "" }

// PodMounts is what is mounted of one pod.
type PodMounts struct {
	// Mounts are those below its directory in the node's own namespace, in the order in which they can be unmounted.
	Mounts []Mount
	// Outside reports whether anything else is mounted of the pod: its directory itself, elsewhere, or in another
	// namespace without being a copy of one of Mounts.
	Outside Fact
	// Whole reports whether all was read. If not, a mount that is not among Mounts may be there.
	Whole bool
}

// Sort puts mounts before those that they are mounted on, and of one place the topmost first.
func (p *PodMounts) Sort() {
	at := map[uint64]Mount{}
	for _, m := range p.Mounts {
		at[m.ID] = m
	}
	depth := func(m Mount) (n int) {
		for range p.Mounts { // a parent that is not among them ends it
			up, ok := at[m.Parent]
			if !ok {
				break
			}
			m, n = up, n+1
		}
		return n
	}
	slices.SortStableFunc(p.Mounts, func(a, b Mount) int {
		return cmp.Or(depth(b)-depth(a), strings.Count(b.Path, "/")-strings.Count(a.Path, "/"), cmp.Compare(a.Path, b.Path))
	})
}

// KeepMounts sets why some of the mounts stay. volData are the pod's vol_data.json files by path; driversGone are the
// CSI drivers that the operator named as gone.
func (p *PodMounts) KeepMounts(volData map[string]string, driversGone []string) {
	for i := range p.Mounts {
		m := &p.Mounts[i]
		m.Stays = ""
		switch driver := m.driver(volData); {
		case m.Deleted:
			m.Stays = "the file that it shows was deleted, and only this mount keeps its content: copy what is needed, then unmount it by umount"
		case len(m.Shares) > 0:
			m.Stays = "the mount that it is on shares its mounts, so this would also unmount " + strings.Join(m.Shares, ", ") +
				": end the processes that use that, or unmount it there if nothing does"
		case m.CSI() && len(m.Users) > 0 && (driver == "" || !slices.Contains(driversGone, driver)):
			m.Stays = fmt.Sprintf("%s has the same volume mounted, and the CSI driver unmounts it", m.Users[0])
			if driver != "" {
				m.Stays += "; if " + clean.Name(driver) + " no longer runs on this node: --driver-gone " + clean.Shell(driver)
			}
		}
	}
	for _, m := range p.Mounts { // children come first
		if m.Stays != "" {
			p.KeepBelow(m)
		}
	}
}

// KeepBelow keeps what m, which stays, is mounted on.
func (p *PodMounts) KeepBelow(m Mount) {
	for i := range p.Mounts {
		if up := &p.Mounts[i]; up.ID == m.Parent && up.Stays == "" {
			up.Stays = clean.Name(m.Path) + " is mounted on it, and stays"
			p.KeepBelow(*up)
		}
	}
}

// driver returns the name of the CSI driver as vol_data.json has it, "" if that is not known.
func (m Mount) driver(volData map[string]string) string {
	volume := m.csiVolume()
	if volume == "" {
		return ""
	}
	var v struct {
		Driver string `json:"driverName"`
	}
	for _, dir := range [...]string{"volumes", "volumeDevices"} {
		text := volData[path.Join(dir, csiPlugin, volume, "vol_data.json")]
		if json.Unmarshal([]byte(text), &v) == nil && v.Driver != "" {
			return v.Driver
		}
	}
	return ""
}

// Todo returns the mounts that are to be unmounted.
func (p *PodMounts) Todo() (todo []Mount) {
	for _, m := range p.Mounts {
		if m.Stays == "" {
			todo = append(todo, m)
		}
	}
	return todo
}

// ChangedMounts returns what is mounted now and was not shown, "" if there is nothing. That less is mounted is no
// change.
func ChangedMounts(shown, now []Mount) string {
	was := make(map[uint64]*Mount, len(shown))
	for i := range shown {
		was[shown[i].ID] = &shown[i]
	}
	for _, m := range now {
		switch o := was[m.ID]; {
		case o == nil || !m.Is(*o):
			return clean.Name(m.Path) + " was mounted since"
		case o.Stays == "" && m.Stays != "":
			return clean.Name(m.Path) + " has to stay by now: " + m.Stays
		}
	}
	return ""
}

// Unmounted returns those of the mounts before, as the ledger has them, that are not among those after. What is not
// UTF-8 in a name is not the same there.
func Unmounted(before, after []Mount) (gone []Mount) {
	for _, m := range before {
		if !slices.ContainsFunc(after, func(o Mount) bool { return m.sameID(o) && m.Dev == o.Dev }) {
			gone = append(gone, m)
		}
	}
	return gone
}

// JudgeMounted judges a pod as Judge does, but sets aside what its mounts in the node's own namespace cause: the fact
// mounted, in place of which outside counts; a staged volume; and a cgroup without a process of a reported pod, which the
// kubelet keeps while a volume is mounted (kubelet_pods.go, HandlePodCleanups). The kubelet reports a mounted pod at V(3)
// only, and that it does not clean up its volumes: here this counts as its report.
func JudgeMounted(e Evidence, outside Fact, n Node, h Hold, r Rules, now Instant) Verdict {
	e.Facts[FactMounted], e.Unmount = outside, ""
	if f := &e.Facts[FactStaged]; f.Truth == Yes {
		f.Truth = No
	}
	if e.Unmountable {
		e.Facts[FactNamed].Truth = Yes
	}
	if f := &e.Facts[FactCgroup]; f.Truth == Yes && e.CgroupIdle && e.Facts[FactNamed].Truth == Yes {
		f.Truth = No
	}
	return Judge(e, n, h, r, now)
}

// MountOutcome is what became of one mount.
type MountOutcome struct {
	Mount  Mount  `json:"mount"`
	Result Result `json:"result"` // done, gone, refused or failed
	Why    string `json:"why,omitempty"`
	Err    string `json:"error,omitempty"`
	// Busy, Covered and Hangs are why it was refused: it is in use, another mount of the pod is on it, or its file system
	// does not answer. None of them is a doubt about the pod.
	Busy    bool `json:"-"`
	Covered bool `json:"-"`
	Hangs   bool `json:"-"`
}

// UnmountIntent is the record that stands in the ledger before the first mount is unmounted.
func UnmountIntent(e Evidence, mounts []Mount, n Node, now Instant) Record {
	return Record{
		Kind: KindUnmounting, At: now, UID: e.UID, Namespace: e.Namespace, PodName: e.PodName, ID: e.ID, Kubelet: n.KubeletID, Mounts: mounts,
	}
}

// UnmountOutcome is the record of what was unmounted, and of why the rest was not.
func UnmountOutcome(e Evidence, gone []Mount, why []Why, failed string, n Node, now Instant) Record {
	r := UnmountIntent(e, gone, n, now)
	r.Kind, r.Why, r.Err = KindUnmounted, why, failed
	if len(gone) == 0 {
		r.Kind = KindNotUnmounted
	}
	return r
}

// UnmountFound is the record of an intent without an outcome, of a command that was cut short: by what is mounted now below the
// directory id, as far as that was read as a whole.
func UnmountFound(was Record, id DirID, left []Mount, whole bool, now Instant) Record {
	e := Evidence{UID: was.UID, Namespace: was.Namespace, PodName: was.PodName, ID: was.ID}
	why := []Why{{ReasonMounted, "found after the command had been cut short"}}
	gone, unknown := Unmounted(was.Mounts, left), ""
	switch {
	case was.At.BootID != now.BootID:
		why, gone, unknown = nil, nil, "the node has started anew since"
	case !whole || id != was.ID:
		why, gone, unknown = nil, nil, "the command was cut short, and the pod's directory is no longer there"
	}
	r := UnmountOutcome(e, gone, why, unknown, Node{KubeletID: was.Kubelet}, now)
	r.By = KnownUser(was.By)
	return r
}
