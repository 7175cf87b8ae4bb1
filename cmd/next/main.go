// Command orphan-reaper removes what is left of dead pods on a Kubernetes node.
package main

func main() {}
