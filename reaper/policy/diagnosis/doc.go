// Package diagnosis says for people what the kubelet complains of, what becomes of each orphan, and
// whether an operator has something to do.
//
// Tally counts sightings, forged ones too: that a line counts as evidence is for heard to say. Of sorts
// what policy has judged; it judges nothing anew, and no verdict rests on it. Like all of policy it
// makes no system call and reads no clock.
package diagnosis
