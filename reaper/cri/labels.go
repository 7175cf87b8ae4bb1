package cri

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels and annotations with which the kubelet marks sandboxes and containers.
const (
	LabelUID = "io.kubernetes.pod.uid"
	// AnnotationHash is the UID of a static pod, which is also the name of its directory. The label may have the UID of
	// its mirror pod.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSource is the source of the pod: file, http or api.
	AnnotationSource = "kubernetes.io/config.source"

	labelPrefix      = "io.kubernetes."
	annotationPrefix = "kubernetes.io/config."
)

// Marked reports whether labels or annotations include one of the kubelet's.
func Marked(maps ...map[string]string) bool {
	for _, m := range maps {
		for key := range m {
			if strings.HasPrefix(key, labelPrefix) || strings.HasPrefix(key, annotationPrefix) {
				return true
			}
		}
	}
	return false
}

// PodNames returns the UIDs of a sandbox's pod. Of a pod from the API server the annotations are the user's, who may put any
// UID into AnnotationHash. AnnotationSource is the kubelet's: it sets that of every pod (podStorage.merge, pkg/kubelet/config).
func PodNames(s *runtimeapi.PodSandbox) []string {
	names := []string{s.GetLabels()[LabelUID], s.GetMetadata().GetUid()}
	if a := s.GetAnnotations(); IsStatic(a[AnnotationSource]) {
		names = append(names, a[AnnotationHash])
	}
	return Distinct(names...)
}

// IsStatic reports whether a pod with this AnnotationSource is from a manifest, and not from the API server.
func IsStatic(source string) bool { return source == "file" || source == "http" }

// Distinct returns the names that are not empty, each once. They need not be well-formed UIDs: a manifest may have any
// metadata.uid.
func Distinct(names ...string) []string {
	var found []string
	for _, n := range names {
		if n != "" && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}
