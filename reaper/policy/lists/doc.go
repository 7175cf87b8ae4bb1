// Package lists weighs what the kubelet at its port and at its sockets pod-resources and pods-api, the API server,
// the manifests of static pods and the directories of the pods' logs list: which pods this node is
// to have.
//
// probe fills these values in, and each answers with a Fact about one pod. A list that has the
// pod keeps it, whatever else is wrong with the list; only one that is known to be whole and
// this node's releases a pod (Released). Nothing here judges: policy weighs these facts with the
// others, and does not import this package.
package lists
