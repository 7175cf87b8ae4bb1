package poddir

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// MadeAgain reports whether pods/UID, which was made after the pod was parked, has more than a kubelet
// makes before there is any volume: empty directories volumes and plugins (Kubelet.makePodDataDirs).
// Anything else is in use.
func (r *Reader) MadeAgain(ctx context.Context, d *Dirs, uid parsers.PodUID) policy.Fact {
	origin := filepath.Join(r.RootDir, "pods", string(uid))
	f, err := bounded.On(ctx, r.Guard, origin, d.Pods, func(fd int) policy.Fact { return holdsMore(r.Open.At(fd), string(uid)) })
	if err != nil {
		f = policy.Fact{Detail: err.Error()}
	}
	f.Origin = origin
	return f
}

func holdsMore(parent *beneath.Dir, name string) policy.Fact {
	dir, err := parent.Walk(name)
	switch {
	case beneath.Gone(err):
		return policy.Fact{Truth: policy.No, Detail: "it is gone again"}
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return policy.Fact{Truth: policy.Yes, Detail: "it is a mount point, or not a directory"}
	case err != nil:
		return policy.Fact{Detail: err.Error()}
	}
	defer dir.Close()
	more, err := dir.Beyond(contents.MadeFirst)
	switch {
	case err != nil:
		return policy.Fact{Detail: err.Error()}
	case more != "":
		return policy.Fact{Truth: policy.Yes, Detail: "it holds " + clean.Name(more)}
	}
	return policy.Fact{Truth: policy.No}
}
