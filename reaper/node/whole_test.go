package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// wholeEnv makes this test binary scan the node in which it runs, and print its facts.
const wholeEnv = "ORPHAN_REAPER_TEST_WHOLE"

type wholeNode struct {
	Node judge.Node
	Pods map[parsers.PodUID]judge.Facts
}

func printWhole() {
	s, err := New(Config{RootDir: filepath.Dir(os.Getenv("NODE_PODS")), Clock: fixedClock{}})
	if err != nil {
		panic(err)
	}
	found := s.Scan(context.Background(), nil, nil)
	whole := wholeNode{found.Node, map[parsers.PodUID]judge.Facts{}}
	for _, p := range found.Pods {
		whole.Pods[p.UID] = p.Facts
	}
	if err := json.NewEncoder(os.Stdout).Encode(whole); err != nil {
		panic(err)
	}
}

// TestWholeNode scans a node of testdata/node with a pod in each state.
func TestWholeNode(t *testing.T) {
	uid := func(i int) parsers.PodUID { return parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)) }
	states := []string{"living", "waiting", "completed", "ended", "dead", "lost", "unknown"}
	want := []map[judge.FactName]judge.Truth{
		{judge.Listed: judge.Yes, judge.Running: judge.Yes, judge.Cgroup: judge.Yes},
		{judge.Listed: judge.Yes, judge.Cgroup: judge.Yes},
		{judge.Listed: judge.Yes},
		{},
		{},
		{judge.Listed: judge.Yes, judge.Cgroup: judge.Yes},
		{judge.Listed: judge.Yes, judge.Running: judge.Yes, judge.Cgroup: judge.Yes},
	}
	var pods strings.Builder
	for i, state := range states {
		fmt.Fprintf(&pods, "p%d %s %s\n", i, uid(i), state)
	}
	n := nodetest.New(t)
	self, err := os.Executable()
	must(t, err)
	cmd := n.Command(t, pods.String(), []string{"--kubelet", "1.37"}, self)
	cmd.Env = append(os.Environ(), wholeEnv+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	nodetest.SkipRefused(t, stderr.String())
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	var whole wholeNode
	must(t, json.Unmarshal(out, &whole))
	for name, f := range map[string]judge.Fact{"kubelet": whole.Node.KubeletKnown, "runtime": whole.Node.RuntimeKnown, "mounts": whole.Node.SeesMounts} {
		if f.Truth != judge.Yes {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for i, state := range states {
		for _, name := range []judge.FactName{judge.Listed, judge.Running, judge.Cgroup, judge.Mounted, judge.Staged} {
			truth := want[i][name]
			if truth == judge.Unknown {
				truth = judge.No
			}
			if f := whole.Pods[uid(i)][name]; f.Truth != truth {
				t.Errorf("%s: %v is %+v, want %v", state, name, f, truth)
			}
		}
	}
}
