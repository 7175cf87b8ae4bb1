// Package sim runs the loop, its policy, its gate and its ledger against a model of a node, by a clock that only the model
// moves. It has no code outside of tests. One number, the seed, makes a node and all that happens on it. The same number
// makes the same run.
//
// # The world
//
// The model describes how a node behaves, from what was measured beside real kubelets and read in their source:
//
//   - node_test.go: time, chance, and the order of what happens.
//   - pod_test.go: pods, their directories, mounts and volumes, and what is left of them.
//   - kubelet_test.go: the kubelet. What it makes, cleans up, logs and keeps on disk, in releases 1.24, 1.28, 1.33 and 1.37.
//   - log_test.go: what becomes of its lines on their way, and lines that others forge.
//   - reading_test.go: what each source shows. probe_test.go and remover_test.go: the node as the loop reads and changes it.
//   - memory_test.go: the state directory. cni_test.go: what CNI leaves.
//   - program_test.go: how the program starts, is killed and starts again, and the operator's commands.
//   - scenario_test.go: what a seed decides. act_test.go: what then happens. life_test.go: a run from its begin to its end.
//
// Where the real thing is not certain, the model does the worst that it may.
//
// # Steps
//
// Each read and each change takes some virtual time, in which the world goes on. What a scenario has happen (type act)
// happens at a time, or at the first step of the program after that time: between two reads, after an intent was written,
// at the last question, before or after a rename, before a removal, before or within a write to the state directory
// (type step). So a manifest can come back, and the program can be killed, between any two system calls that matter. At a
// power loss the state directory and the pods' file system each lose any last changes that were not synced.
//
// # The oracle
//
// The oracle knows the truth and judges what the program does (oracle_test.go), the reasons that it gives (reasons_test.go) and how
// long it takes (patience_test.go):
//
//   - A living pod has its directory, but for as long as an exchange takes.
//   - Nothing is removed from quarantine while its pod lives, before the confirm time, or while something is mounted in it.
//     Data goes only by an operator's command, an emptyDir only after the retention.
//   - By the look and by the last question, which both must have come before, nothing that was read spoke for the pod, and
//     nothing that could speak was unread: each reason for keeping a pod must have been untrue then (moves, speaks).
//   - What shows a sign of life right after its parking goes back in the same pass.
//   - Each change has a synced intent in the ledger before it, and happens only if mode, breaker, namespaces and settings
//     allow it. A scan changes nothing. An operator's purge spares what may be a living pod's.
//   - The first pod after a start is confirmed, or quiet and released by its kubelet, before others follow.
//   - The breaker opens if a pod that never comes back does, and only if one looked like that.
//   - Each pod that the program keeps has a reason, which is true at the moment at which its source was read.
//   - Once nothing happens any more, each dead pod leaves within the time that its rules give it, a hundred as fast as one,
//     and its emptyDir at the end of the retention.
//
// Where it excuses the program, the code gives the behaviour of real nodes that forces it to (misleads, patience, keeps).
//
// # Stories
//
// A failing run is shrunk to few events and printed as a story: one line for each event, with the virtual time since the
// start. Lines in parentheses are the steps at which the next event was to happen, "record" lines are what the program
// shows people, and the last line before FAILED is what the program did wrong. Looks in which nothing happens are left
// out. After the story comes the scenario as
// text. It is kept in testdata once the defect is mended, under a line that gives the defect, and TestKept runs it.
//
//	make simulate SEEDS=100000 LIVES=10        many nodes, from a seed of its own
//	make simulate SEEDS=1 SEED=4312            one node again
//
// FAILURES is after how many stories a run ends (10). SHRINK=0 prints no stories.
//
// TestPlanted puts defects back that real nodes showed, and must find each from random seeds.
package sim
