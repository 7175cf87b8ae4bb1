package cri

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The labels and annotations by which the kubelet marks what it has the runtime make.
const (
	LabelUID       = "io.kubernetes.pod.uid"
	LabelName      = "io.kubernetes.pod.name"
	LabelNamespace = "io.kubernetes.pod.namespace"
	// AnnotationHash is the UID of a static pod, which is also the name of its directory,
	// where a mirror pod's own UID stands in the label.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSource is where the kubelet has the pod from: file, http or api.
	AnnotationSource = "kubernetes.io/config.source"

	labelPrefix      = "io.kubernetes."
	annotationPrefix = "kubernetes.io/config."
)

// Marked reports whether labels or annotations hold one of the kubelet's marks.
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

// PodNames returns the names of a sandbox's pod.
func PodNames(s *runtimeapi.PodSandbox) []string {
	return Distinct(s.GetLabels()[LabelUID], s.GetMetadata().GetUid(), s.GetAnnotations()[AnnotationHash])
}

// Distinct returns the names of a pod, each once. They need not be well-formed UIDs: a manifest may have any metadata.uid.
func Distinct(names ...string) []string {
	var found []string
	for _, n := range names {
		if n != "" && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}
