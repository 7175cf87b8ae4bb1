// Package podlists requests lists of pods: from the kubelet's port, the API server, and the kubelet's
// sockets pod-resources and pods-api.
//
// A Reader has the operator's credentials, and returns one answer from each of the four. An answer that
// broke off has the pods that were listed until then: they are kept. Policy decides whether a list is complete
// and releases the pods that it omits.
//
// Each server must authenticate before it gets a token: the kubelet by the certificate of its files, the API
// server by the kubeconfig's authority. The package refuses a kubeconfig that would start a program or omit a
// check. It keeps no connection between two looks, follows no redirect, uses a proxy only for the API server,
// and bounds every answer.
//
// Versions: /pods and /metrics of kubelets since 1.5 (the gauges since 1.27), pod-resources v1 since 1.20
// and v1alpha1 since 1.13, PodsAPI v1alpha1 since 1.37, PartialObjectMetadataList since 1.15, and complete pods
// before.
package podlists
