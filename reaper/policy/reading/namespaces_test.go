package reading

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMayEnforce checks that a process that might miss a mount of the host may not enforce.
func TestMayEnforce(t *testing.T) {
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	mount := func(id int, point, peers string) Mount { return Mount{id, point, strings.Fields(peers)} }
	host := []Mount{mount(20, "/", "shared:1"), mount(21, "/pods", "shared:9")}
	root, pods := mount(40, "/", "master:1"), mount(41, "/pods", "master:9")
	alone, bare := mount(40, "/", ""), mount(20, "/", "")
	at := func(ids ...uint64) []uint64 { return ids }
	x := errors.New("x")
	for name, c := range map[string]struct {
		n      Namespaces
		want   policy.Truth
		detail string
	}{
		"nothing is known":            {Namespaces{}, no, "PID namespace"},
		"the operator says so":        {Namespaces{Self: true, PIDErr: x}, yes, "self"},
		"the host":                    {Namespaces{Initial: true, Own: host, First: host}, yes, "of PID 1"},
		"no PID namespace is known":   {Namespaces{PIDErr: x, Kubelet: true, Own: host, First: host}, unknown, "PID namespace: x"},
		"another PID namespace":       {Namespaces{Own: host, First: host}, no, "set --node-namespaces self"},
		"another, where a kubelet is": {Namespaces{Kubelet: true, Own: host, First: host}, yes, "of PID 1"},
		"own mounts are not read":     {Namespaces{Initial: true, OwnErr: x, First: host}, unknown, "this process's mounts: x"},
		"PID 1 is not read":           {Namespaces{Initial: true, Own: host, FirstErr: x}, unknown, "mounts of PID 1: x"},
		"no mounts at all":            {Namespaces{Initial: true}, unknown, "no directory"},
		"a slave":                     {Namespaces{Initial: true, Own: []Mount{root, pods}, First: host, Places: at(41)}, yes, "a slave"},
		"a slave but for the pods":    {Namespaces{Initial: true, Own: []Mount{root, mount(41, "/pods", "")}, First: host, Places: at(41)}, no, "come to /pods in"},
		"one of two is no slave":      {Namespaces{Initial: true, Own: []Mount{pods, mount(42, "/q", "")}, First: host, Places: at(41, 42)}, no, "come to /q in"},
		"a place is not known":        {Namespaces{Initial: true, Own: []Mount{root, pods}, First: host, PlacesErr: x}, unknown, "changed: x"},
		"a place is not among them":   {Namespaces{Initial: true, Own: []Mount{root, pods}, First: host, Places: at(41, 43)}, unknown, "mount 43"},
		"no directories":              {Namespaces{Initial: true, Own: []Mount{root, pods}, First: host}, unknown, "no directory"},
		"the root of a container":     {Namespaces{Initial: true, Own: []Mount{mount(40, "/", ""), pods}, First: host, Places: at(41)}, yes, "a slave"},
		"no root is seen":             {Namespaces{Initial: true, Own: []Mount{pods}, First: host, Places: at(41)}, yes, "a slave"},
		"a peer":                      {Namespaces{Initial: true, Own: []Mount{mount(40, "/", "shared:1")}, First: host, Places: at(40)}, yes, "a slave"},
		"of another group":            {Namespaces{Initial: true, Own: []Mount{mount(40, "/", "shared:5 master:7")}, First: host, Places: at(40)}, no, "later"},
		"PID 1 shares nothing":        {Namespaces{Initial: true, Own: []Mount{root}, First: []Mount{mount(20, "/", "master:1")}, Places: at(40)}, no, "later"},
		"both in no group":            {Namespaces{Initial: true, Own: []Mount{alone}, First: []Mount{bare}, Places: at(40)}, no, "later"},
	} {
		if f := c.n.MayEnforce("/proc"); f.Truth != c.want || !strings.Contains(f.Detail, c.detail) || f.Origin == "" {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.detail)
		}
	}
}
