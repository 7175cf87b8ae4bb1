// Package kube is the HTTP client for the Kubernetes API server, a kubelet's port and the daemons of other nodes.
// Packages clientcmd and rest of client-go read kubeconfigs, a pod's service account and the credentials. The requests
// are not client-go's, which reads an answer whole.
//
// A server must authenticate before it gets a token, so a kubeconfig that disables that check is refused. The daemon
// also refuses a kubeconfig that starts a program for its credentials; commands about a cluster accept it. A request
// follows no redirect, and the caller reads the answer and limits its size.
//
// The package keeps nothing between requests and does not interpret answers.
package kube
