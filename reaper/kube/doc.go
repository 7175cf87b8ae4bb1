// Package kube is the one HTTP client: of the Kubernetes API server, and of what answers in the same way, a kubelet's own port and
// other nodes' daemons. Kubeconfigs, a pod's service account and the credentials are client-go's (its packages
// clientcmd and rest); the requests are not, since client-go reads an answer whole.
//
// The server must authenticate before it gets a token, so a kubeconfig that leaves out that check is refused. One that
// starts a program for its credentials is refused where it names the node's API server, and used in commands about a
// cluster. A request follows no redirect, and its answer is read by the caller, who bounds it.
//
// It judges nothing and remembers nothing: what an answer means is for its callers.
package kube
