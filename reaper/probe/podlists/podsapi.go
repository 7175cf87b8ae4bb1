package podlists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
)

// The kubelet's PodsAPI (KEP-4188, on since 1.37) lists to root, without credentials, all pods of its
// pod manager with their UIDs, static and completed ones too. It has no list until all sources are ready.
const (
	listPods     = "/v1alpha1.Pods/ListPods"
	podsAPIEntry = "pods-api/pods-api.sock"
	longestUID   = 255 // as a directory's name
)

// PodsAPI asks the kubelet of this PID, 0 where none is known, once.
func (r *Reader) PodsAPI(ctx context.Context, pid int) lists.PodsAPI {
	path := filepath.Join(r.RootDir, podsAPIEntry)
	l := lists.PodsAPI{Origin: "unix://" + path}
	if r.Waive {
		l.Silent = "not asked: --runtime-endpoint none"
		return l
	}
	a := r.askSocket(ctx, "pods-api", podsAPIEntry, listPods)
	if a.err != nil {
		l.Silent = clean.Name(a.err.Error())
		return l
	}
	var err error
	l.Pods, l.Listed, err = readPodsAPI(a.text)
	if err = cmp.Or(err, a.by.is(pid)); err != nil {
		l.Doubt = clean.Name(err.Error())
	}
	return l
}

// readPodsAPI reads ListPodsResponse: field 1 is a v1.Pod, marshalled, its field 1 the ObjectMeta, of
// which field 5 is the UID. The pods that could be read are returned with the error.
func readPodsAPI(text []byte) (uids map[parsers.PodUID]bool, listed int, doubt error) {
	uids = map[parsers.PodUID]bool{}
	err := eachField(text, func(number protowire.Number, pod []byte) error {
		if number != 1 {
			doubt = errors.New("its answer has more than pods")
			return nil
		}
		if listed++; listed > mostPods {
			return fmt.Errorf("it lists more than %d pods", mostPods)
		}
		named := false
		err := eachField(pod, func(number protowire.Number, meta []byte) error {
			if number != 1 {
				return nil
			}
			return eachField(meta, func(number protowire.Number, uid []byte) error {
				if number == 5 && len(uid) > 0 && len(uid) <= longestUID {
					uids[parsers.PodUID(uid)], named = true, true
				}
				return nil
			})
		})
		if err != nil {
			doubt = fmt.Errorf("cannot read a pod of its answer: %w", err)
		} else if !named {
			doubt = errors.New("it lists a pod without a UID")
		}
		return nil
	})
	switch {
	case err != nil:
		doubt = fmt.Errorf("cannot read its answer: %w", err)
	case doubt == nil && listed == 0:
		doubt = errors.New("it lists no pod")
	}
	return uids, listed, doubt
}
