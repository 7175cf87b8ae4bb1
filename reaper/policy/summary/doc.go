// Package summary sums up for display what policy has judged and what was done:
//
//   - Diagnose: what the kubelet complains of, what becomes of each orphan, and what an operator has to do. Tally
//     counts the lines of the logs for it, forged ones too.
//   - CountPods: how many pods of a look are in which state. One doubt about a pod is a doubt about the number, which
//     is then not given.
//
// It judges nothing again, and no verdict rests on it: policy does not import it. Like all of policy it makes no system
// call and reads no clock.
package summary
