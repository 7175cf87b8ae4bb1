package reading

import (
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// FileUse is what the processes show of the use of the files of one pod.
type FileUse struct {
	User  string // who uses one
	Doubt string // who names the pod, and may use one
	Err   error  // why not all could be asked
	// Read and Refused count the other processes that could be asked and those that could not.
	Read, Refused int
	First         string // one of those that could not be read, for display
	// Init is the name of PID 1 if it could not be read. It belongs to no pod, so it is shown
	// and not counted.
	Init string
	// Alone is true if there is no other process.
	Alone bool
}

// Fact reports whether the pod's files are in use. It is not known if one process could not be read, which takes
// CAP_SYS_PTRACE. Only PID 1 may refuse: that of some virtual machines refuses root as well.
func (u FileUse) Fact(origin string) policy.Fact {
	f := policy.Fact{Origin: origin}
	switch {
	case u.User != "":
		f.Truth, f.Detail = policy.Yes, u.User
	case u.Doubt != "":
		f.Detail = u.Doubt
	case u.Err != nil:
		f.Detail = u.Err.Error()
	case u.Read == 0 && !u.Alone:
		f.Detail = "no other process could be read"
	case u.Refused > 0:
		f.Detail = Refusal(u.Refused, u.First).Error()
	case u.Init != "":
		f.Truth, f.Detail = policy.No, "PID "+u.Init+" could not be read"
	default:
		f.Truth = policy.No
	}
	return f
}

// Refusal is the error of processes that could not be read.
func Refusal(n int, first string) error {
	return fmt.Errorf("processes that could not be read: %d, one of them PID %s; CAP_SYS_PTRACE is needed", n, first)
}

// NewUse is what one source shows of the use of a directory that was made again, and not of its elder.
type NewUse struct {
	User  string // who uses it
	Doubt string // why that is not known of this pod
	Err   error  // why not all could be asked
}

// UsedAgain returns FactUsed, of a directory that was made again. content reports whether it holds more than a kubelet
// makes first.
func UsedAgain(content policy.Fact, sources ...NewUse) policy.Fact {
	f := policy.Fact{Origin: content.Origin}
	for _, s := range sources {
		if s.User != "" {
			f.Truth, f.Detail = policy.Yes, s.User
			return f
		}
	}
	if content.Truth != policy.No {
		return content
	}
	for _, s := range sources {
		if s.Doubt != "" {
			f.Detail = s.Doubt
			return f
		}
	}
	for _, s := range sources {
		if s.Err != nil {
			f.Detail = s.Err.Error()
			return f
		}
	}
	return content
}
