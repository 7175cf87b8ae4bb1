// Package sim runs the loop, its policy, its gate and its ledger against a model of a node, by a clock that only the
// model moves. One number, the seed, makes a node and all that happens on it; the same number makes the same run.
//
// The model describes how a node behaves, from what was measured beside real kubelets and read in their source:
//
//   - node_test.go has time, chance and the order of what happens;
//   - pod_test.go has pods, their directories, mounts and volumes, and what is left of them;
//   - kubelet_test.go has the kubelet: what it makes, what it cleans up, what it says and what it keeps on disk;
//   - log_test.go has what becomes of its lines on their way, and lines that others forge;
//   - probe_test.go and remover_test.go are the node as the loop reads and changes it, with each read at its own moment;
//   - memory_test.go is the state directory, in memory, and cni_test.go what CNI leaves;
//   - program_test.go starts, kills and restarts the program, and has the operator;
//   - scenario_test.go makes of a seed what happens, oracle_test.go knows the truth and judges the run;
//   - shrink_test.go makes the shortest story of a run that failed, plant_test.go puts defects back that must be found.
//
// Where the real thing is not certain, the model does the worst that it may.
package sim
