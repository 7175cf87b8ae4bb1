package podlists

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The kubelet's own socket tells root, without credentials, the names of the pods that it has in
// its pod manager; from 1.34 on, with KubeletPodResourcesListUseActivePods, of those that are
// active (pkg/kubelet/apis/podresources). It lies below the root directory. v1 is of 1.20,
// v1alpha1 of 1.13; the messages are the same for what is read here.
var podResourceLists = []string{"/v1.PodResourcesLister/List", "/v1alpha1.PodResourcesLister/List"}

const (
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
	a := r.askSocket(ctx, "pod-resources", podResourcesEntry, podResourceLists...)
	if a.err == nil {
		listed.Names, a.err = readPodResources(a.text)
	}
	if a.err != nil {
		listed.Names, listed.Silent = nil, clean.Name(a.err.Error())
	}
	return listed
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
		case len(names) >= mostPods:
			return fmt.Errorf("it lists more than %d pods", mostPods)
		}
		names[name] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubelet's answer: %w", err)
	}
	return names, nil
}
