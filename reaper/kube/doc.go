// Package kube is the one client of the Kubernetes API server, and of the kubelet's own port, which
// answers in the same way: what a kubeconfig or a pod's service account says of a server and of
// the credentials for it, and requests by HTTP.
//
// The server has to show who it is before it gets a token. What a kubeconfig says that would start
// a program or leave out a check is refused. A request follows no redirect, uses no proxy, and its
// answer is read by the caller, who bounds it.
//
// It judges nothing and remembers nothing: what an answer means is for its callers.
package kube
