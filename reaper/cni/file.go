package cni

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Kind is the program that wrote a file below the CNI directories.
type Kind string

// The kinds of files that CNI leaves.
const (
	Cache   Kind = "cache"   // libcni's result cache: results/NETWORK-CONTAINER-IFNAME
	Multus  Kind = "multus"  // Multus' delegates of one sandbox: multus/CONTAINER
	Flannel Kind = "flannel" // flannel's delegate configuration: flannel/CONTAINER
	Address Kind = "address" // host-local's reservation: networks/NETWORK/ADDRESS
)

// Kinds lists them all.
func Kinds() []Kind { return []Kind{Cache, Multus, Flannel, Address} }

// FileID is one file in one state: another file under its name, or the same file written again, has another one.
type FileID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Ctime int64  `json:"ctime"` // nanoseconds since the epoch
}

// FactName is one question about a file, most of them about its container. The names are those of the JSON output.
type FactName uint8

// The questions that one look answers for a file.
const (
	Tied    FactName = iota // do name and content tie it to exactly one container?
	Listed                  // does the runtime list that container or sandbox, in any state?
	Ready                   // does it list it as ready or running?
	Alive                   // has it a task, a cgroup or a process?
	Netns                   // is its network namespace still there?
	Foreign                 // may it be another engine's, or is its network in no configuration?
	NumFacts
)

var factNames = [NumFacts]string{"tied", "listed", "ready", "alive", "netns", "foreign"}

// String returns the fact's name as it is in JSON and in records.
func (n FactName) String() string {
	if n < NumFacts {
		return factNames[n]
	}
	return fmt.Sprintf("fact(%d)", uint8(n))
}

// File is one file that CNI wrote. Each stage of a sweep fills in more of it: the directory's listing Kind, Dir and Name; reading it
// the next group; Parse the group after that and the fact Tied; the look the other facts; the removal or the restore Result and Err.
// The JSON is its line in an archive's index.
type File struct {
	Kind Kind   `json:"kind"`
	Dir  string `json:"-"` // as configured
	Name string `json:"-"` // any byte but slash and NUL

	ID      FileID    `json:"id"`
	Mode    uint32    `json:"mode"`  // permission bits; this and what follows up to Label only where an archive needs it
	Owner   [2]uint32 `json:"owner"` // user and group
	Mtime   time.Time `json:"mtime"`
	Data    []byte    `json:"-"`
	Label   string    `json:"label,omitempty"` // security.selinux
	Changed time.Time `json:"changed"`         // the later of the change and modification times

	Container string         `json:"container,omitempty"` // the sandbox's whole ID, "" where the file is tied to none
	Network   string         `json:"network,omitempty"`
	IfName    string         `json:"ifname,omitempty"`
	UID       parsers.PodUID `json:"uid,omitempty"` // since containerd 1.6.0 and CRI-O 1.22.0
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod,omitempty"`
	NetNS     string         `json:"-"` // the path of the network namespace, absolute and not to be trusted any further
	Sandbox   bool           `json:"-"` // the kubelet's runtime wrote it: Podman and nerdctl do not name a container a sandbox
	V1        bool           `json:"-"` // the format that has all of these, where the runtime gives them
	// Broken: it is empty or no JSON. Such a cache file makes every teardown of its sandbox fail (containerd#8197, cni#1055).
	Broken bool `json:"broken,omitempty"`

	// Runtime is, of a broken cache file, the runtime whose teardown it may hinder, and its version: that decides whether it does.
	Runtime string                `json:"runtime,omitempty"`
	Reaped  bool                  `json:"reaped,omitempty"` // the pod's own directory was removed and confirmed dead by us
	Facts   [NumFacts]policy.Fact `json:"-"`

	Result policy.Result `json:"-"` // Done, Gone, Refused or Failed
	Err    string        `json:"-"` // why; before the removal: why no restore could bring it back, so it is kept
}

// Set records the answer to one question.
func (f *File) Set(n FactName, t policy.Truth, origin, detail string) {
	f.Facts[n] = policy.Fact{Truth: t, Origin: origin, Detail: detail}
}

// BrokenCache reports whether the file may make a runtime's teardown fail.
func (f *File) BrokenCache() bool { return f.Broken && f.Kind == Cache }

// Path is the file's path for messages: the name may hold any byte.
func (f *File) Path() string {
	name := f.Name
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' }) {
		name = fmt.Sprintf("%q", name)
	}
	return f.Dir + "/" + name
}

// Addr is the address that a reservation is named after, IPv4 also where it is written as IPv6. It is not valid for the files of
// host-local's own (lock, last_reserved_ip.N) and those that it never wrote.
func (f *File) Addr() netip.Addr {
	addr, err := netip.ParseAddr(f.Name)
	if f.Kind != Address || err != nil || addr.Zone() != "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// Ended gives files that were not changed, or of which it is not known, their result, in a list of its own.
func Ended(files []File, result policy.Result, err error) []File {
	ended := make([]File, len(files))
	for i := range files {
		ended[i] = files[i]
		ended[i].Result, ended[i].Err = result, err.Error()
	}
	return ended
}

// bare is the file without its content, for a report: the archive has that.
func (f *File) bare() File {
	b := *f
	b.Data = nil
	return b
}
