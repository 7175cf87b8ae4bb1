package reading

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestCertainName: only a name that somebody else than the pod's own directory says is certain.
func TestCertainName(t *testing.T) {
	for name, c := range map[string]struct {
		e    policy.Evidence
		told bool
		want bool
	}{
		"told":                     {policy.Evidence{Namespace: "shop", PodName: "web"}, true, true},
		"of its etc-hosts":         {policy.Evidence{Namespace: "shop", PodName: "web"}, false, false},
		"parked":                   {policy.Evidence{Namespace: "shop", PodName: "web", Entry: "u.1"}, false, true},
		"no namespace":             {policy.Evidence{PodName: "web"}, true, false},
		"parked without its name":  {policy.Evidence{Namespace: "shop", Entry: "u.1"}, false, false},
		"parked without namespace": {policy.Evidence{PodName: "web", Entry: "u.1"}, false, false},
	} {
		if got := CertainName(&c.e, c.told); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLogless(t *testing.T) {
	l := PodLogs{Pods: map[parsers.PodUID]bool{"b": true}}
	for want, running := range map[parsers.PodUID][]parsers.PodUID{"": {"b"}, "a": {"c", "b", "a"}} {
		if got := l.Logless(running); got != want {
			t.Errorf("of %v %q, want %q", running, got, want)
		}
	}
}
