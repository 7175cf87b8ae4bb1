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

// The kinds of CNI files.
const (
	Cache   Kind = "cache"   // libcni's result cache: results/NETWORK-CONTAINER-IFNAME
	Multus  Kind = "multus"  // Multus' delegates of one sandbox: multus/CONTAINER
	Flannel Kind = "flannel" // flannel's delegate configuration: flannel/CONTAINER
	Address Kind = "address" // host-local's reservation: networks/NETWORK/ADDRESS
)

// Kinds lists them all.
func Kinds() []Kind { return []Kind{Cache, Multus, Flannel, Address} }

// FileID identifies one file in one state. It changes when the file is replaced or written.
type FileID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Ctime int64  `json:"ctime"` // nanoseconds since the epoch
}

// FactName names one fact about a file or its container, as in the JSON output.
type FactName uint8

// The facts that one look determines for a file.
const (
	Tied    FactName = iota // name and content tie it to exactly one container
	Listed                  // the runtime lists that container or sandbox, in any state
	Ready                   // the runtime lists it as ready or running
	Alive                   // it has a task, a cgroup or a process
	Netns                   // its network namespace exists
	Foreign                 // it may belong to another engine, or its network is in no configuration
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

// File is one file that CNI wrote. The listing of its directory sets the first group of fields, reading it the
// second, Parse the third and the fact Tied, the look the fourth, and the removal or restore the last. Its JSON is a
// line in an archive's index.
type File struct {
	Kind Kind   `json:"kind"`
	Dir  string `json:"-"` // as configured
	Name string `json:"-"` // any byte but slash and NUL

	ID      FileID    `json:"id"`
	Mode    uint32    `json:"mode"`  // permission bits; set, like the fields down to Label, if an archive needs it
	Owner   [2]uint32 `json:"owner"` // user and group
	Mtime   time.Time `json:"mtime"`
	Data    []byte    `json:"-"`
	Label   string    `json:"label,omitempty"` // security.selinux
	Changed time.Time `json:"changed"`         // the later of the change and modification times

	Container string         `json:"container,omitempty"` // the sandbox's whole ID, or "" if the file is untied
	Network   string         `json:"network,omitempty"`
	IfName    string         `json:"ifname,omitempty"`
	UID       parsers.PodUID `json:"uid,omitempty"` // since containerd 1.6.0 and CRI-O 1.22.0
	Namespace string         `json:"namespace,omitempty"`
	PodName   string         `json:"pod,omitempty"`
	NetNS     string         `json:"-"` // the absolute, otherwise untrusted path of the network namespace
	Sandbox   bool           `json:"-"` // the kubelet's runtime wrote it; Podman and nerdctl set no sandbox ID
	V1        bool           `json:"-"` // it has the cniCacheV1 format, which may have all of these
	// Broken marks a file that is empty or not JSON. Such a cache file makes every teardown of its sandbox fail
	// (containerd#8197, cni#1055).
	Broken bool `json:"broken,omitempty"`

	// Runtime has the name and version of the runtime, for a broken cache file: the teardown fails only in some versions.
	Runtime string                `json:"runtime,omitempty"`
	Reaped  bool                  `json:"reaped,omitempty"` // we removed the pod's directory and confirmed that it is dead
	Facts   [NumFacts]policy.Fact `json:"-"`

	Result policy.Result `json:"-"` // Done, Gone, Refused or Failed
	Err    string        `json:"-"` // the reason; before a removal, why the file cannot be archived and is kept
}

// Set sets one fact.
func (f *File) Set(n FactName, t policy.Truth, origin, detail string) {
	f.Facts[n] = policy.Fact{Truth: t, Origin: origin, Detail: detail}
}

// BrokenCache reports whether the file may make a runtime's teardown fail.
func (f *File) BrokenCache() bool { return f.Broken && f.Kind == Cache }

// Path returns the file's path for messages: the name may hold any byte.
func (f *File) Path() string {
	name := f.Name
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' }) {
		name = fmt.Sprintf("%q", name)
	}
	return f.Dir + "/" + name
}

// Addr returns the address in the name of a reservation, with IPv4-mapped IPv6 as IPv4. It is invalid for
// host-local's own files (lock, last_reserved_ip.N) and those of other programs.
func (f *File) Addr() netip.Addr {
	addr, err := netip.ParseAddr(f.Name)
	if f.Kind != Address || err != nil || addr.Zone() != "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// Ended returns a copy of the files, all with the same result.
func Ended(files []File, result policy.Result, err error) []File {
	ended := make([]File, len(files))
	for i := range files {
		ended[i] = files[i]
		ended[i].Result, ended[i].Err = result, err.Error()
	}
	return ended
}

// withoutData returns the file without its content, which the archive has, for a report.
func (f *File) withoutData() File {
	b := *f
	b.Data = nil
	return b
}
