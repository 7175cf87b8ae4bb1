package reading

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestCertainName checks that a name is certain only if another source than the pod's own directory has it.
func TestCertainName(t *testing.T) {
	for name, c := range map[string]struct {
		e    policy.Evidence
		sure bool
		want bool
	}{
		"from the runtime":         {policy.Evidence{Namespace: "shop", PodName: "web"}, true, true},
		"of its etc-hosts":         {policy.Evidence{Namespace: "shop", PodName: "web"}, false, false},
		"parked":                   {policy.Evidence{Namespace: "shop", PodName: "web", Entry: "u.1"}, false, true},
		"no namespace":             {policy.Evidence{PodName: "web"}, true, false},
		"parked without its name":  {policy.Evidence{Namespace: "shop", Entry: "u.1"}, false, false},
		"parked without namespace": {policy.Evidence{PodName: "web", Entry: "u.1"}, false, false},
	} {
		if got := CertainName(&c.e, c.sure); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLogless(t *testing.T) {
	l := PodLogs{Pods: map[parsers.PodUID]bool{"b": true}}
	for want, running := range map[parsers.PodUID][]parsers.PodUID{"": {"b"}, "a": {"c", "b", "a"}} {
		if got := l.Logless(running); got != want {
			t.Errorf("running %v: %q, want %q", running, got, want)
		}
	}
}

// TestPodLogs checks that if a running pod of the kubelet has no log directory, the missing directory of another pod
// proves nothing: some process removes them. A pod that never ran is no such sign.
func TestPodLogs(t *testing.T) {
	const ran, kept = parsers.PodUID("a"), parsers.PodUID("b")
	logs := PodLogs{Dir: "/var/log/pods", Pods: map[parsers.PodUID]bool{kept: true}}
	for name, c := range map[string]struct {
		uid, logless parsers.PodUID
		has          string // name in the pod's directory; "": unknown
		want         policy.Truth
	}{
		"kept":                   {kept, "", "etc-hosts", policy.Yes},
		"removed":                {ran, "", "etc-hosts", policy.No},
		"one that runs has none": {ran, "c", "etc-hosts", policy.Unknown},
		"one that runs has none, after containers":      {ran, "c", "containers/app", policy.Unknown},
		"one that runs has none, and this never ran":    {ran, "c", "volumes", policy.No},
		"one that runs has none, and this is not known": {ran, "c", "", policy.Unknown},
	} {
		e := &policy.Evidence{UID: c.uid, Residue: []policy.Residue{{Path: c.has}}}
		if c.has != "" {
			e.Facts.Set(policy.FactContent, policy.Yes, "", "")
		}
		if f := logs.Fact(e, c.logless); f.Truth != c.want {
			t.Errorf("%s: %+v, want %s", name, f, c.want)
		}
	}
}
