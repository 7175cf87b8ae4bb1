// Package podlists requests lists of pods: from the kubelet at its port, the API server, and the
// kubelet's sockets pod-resources and pods-api.
//
// A Reader has the credentials that the operator gave, and an answer for each of the four.
// An answer holds what was listed even if it broke off, since each pod that was listed is kept. Whether a list is
// complete, and releases what it omits, is for policy.
//
// Each server must authenticate before it gets a token: the kubelet by the certificate of its files, the API server by
// the kubeconfig's authority. A kubeconfig that would start a program or leave out a check is refused. The package keeps
// no connection between two looks, follows no redirect, uses a proxy only for the API server, and bounds
// every answer.
//
// Versions: /pods and /metrics of kubelets since 1.5 (the gauges since 1.27), pod-resources v1
// since 1.20 and v1alpha1 since 1.13, PodsAPI v1alpha1 since 1.37, PartialObjectMetadataList since 1.15, and whole pods
// before.
package podlists
