package podlists

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The kubelet's own socket tells root, without credentials, the names of the pods that it has in
// its pod manager; from 1.34 on, with KubeletPodResourcesListUseActivePods, of those that are
// active (pkg/kubelet/apis/podresources). It lies below the root directory. v1 is of 1.20,
// v1alpha1 of 1.13; the messages are the same for what is read here.
var podResourceLists = [...]string{"/v1.PodResourcesLister/List", "/v1alpha1.PodResourcesLister/List"}

// Bounds of what is taken from the socket. A kubelet of 500 pods with devices answers with some
// 100 KiB (and its own limit is 16 MiB).
const (
	maxPodResources   = 16 << 20
	mostPodResources  = 16384
	longestName       = 253
	podResourcesEntry = "pod-resources/kubelet.sock"
)

// Resources asks the kubelet, and returns why it is silent. A socket that is not there is no
// error: older kubelets and other settings have none.
func (r *Reader) Resources(ctx context.Context) *policy.PodResources {
	path := filepath.Join(r.RootDir, podResourcesEntry)
	listed := &policy.PodResources{Origin: "unix://" + path}
	if r.Waive {
		listed.Silent = "not asked: --runtime-endpoint none"
		return listed
	}
	text, err := bounded.Do(ctx, r.Guard, "pod-resources", func() listText { return r.askPodResources(ctx, path) })
	if err == nil {
		err = text.err
	}
	if err == nil {
		listed.Names, err = readPodResources(text.bytes)
	}
	if err != nil {
		listed.Names, listed.Silent = nil, clean.Name(err.Error())
	}
	return listed
}

type listText struct {
	bytes []byte
	err   error
}

func (r *Reader) askPodResources(ctx context.Context, path string) listText {
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return listText{err: errors.New("the kubelet has no such socket")}
	} else if err != nil {
		return listText{err: err}
	} else if info.Mode()&fs.ModeSocket == 0 {
		return listText{err: fmt.Errorf("%s is no socket", path)}
	}
	conn, err := cri.Connect(path, maxPodResources)
	if err != nil {
		return listText{err: err}
	}
	defer func() { _ = conn.Close() }() // nothing was sent that could be lost
	ctx, cancel := context.WithTimeout(ctx, r.Guard.Limit())
	defer cancel()
	for _, method := range podResourceLists {
		var out []byte
		err = conn.Invoke(ctx, method, []byte{}, &out, grpc.ForceCodec(wireCodec{}))
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		if err != nil {
			return listText{err: fmt.Errorf("its answer to List: %s", cri.Reason(err))}
		}
		return listText{bytes: out}
	}
	return listText{err: errors.New("it answers, and is no pod-resources socket")}
}

// wireCodec hands messages through as they are on the wire: of this one two fields are read.
type wireCodec struct{}

func (wireCodec) Name() string { return "proto" }

func (wireCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send %T", v)
	}
	return b, nil
}

func (wireCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// readPodResources reads ListPodResourcesResponse: field 1 is a pod, its field 1 the name and its
// field 2 the namespace.
func readPodResources(text []byte) (map[policy.PodName]bool, error) {
	names := map[policy.PodName]bool{}
	err := eachField(text, func(number protowire.Number, pod []byte) error {
		if number != 1 {
			return nil
		}
		var name policy.PodName
		err := eachField(pod, func(number protowire.Number, value []byte) error {
			switch int32(number) {
			case 1:
				name.Name = string(value[:min(len(value), longestName+1)])
			case 2:
				name.Namespace = string(value[:min(len(value), longestName+1)])
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case !policy.IsDNSName(name.Name) || !policy.IsDNSName(name.Namespace):
			return errors.New("it lists a pod whose name is none")
		case len(names) >= mostPodResources:
			return fmt.Errorf("it lists more than %d pods", mostPodResources)
		}
		names[name] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubelet's answer: %w", err)
	}
	return names, nil
}

// eachField gives every field of a message that has a length to do, and passes over the others.
func eachField(b []byte, do func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := do(number, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
