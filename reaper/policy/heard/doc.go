// Package heard says what the kubelet that runs has said in its log about orphans.
//
// A log line is a hint, never proof: anyone may write to syslog, and a pod can make the kubelet
// write. Claim.Evident says whether a line is the word of the kubelet that runs now, Known whether
// it is about a pod that this node has, and Heard keeps, within bounds, what such lines said. Tell
// and TellParked give policy the facts that follow from it, each one fact among many.
//
// A fact of this package lets no pod go by itself, and none outlives the kubelet that said it.
// policy judges and does not import this package.
package heard
