package reading

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	listedUID   = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001")
	unlistedUID = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000002")
	staticUID   = parsers.PodUID("4d145df0c0ffee00decafbad4d145df0")
)

// wholeKubelet returns a complete list of the kubelet, and wholeAPI a complete one of this node.
func wholeKubelet() KubeletList {
	has := map[parsers.PodUID]bool{listedUID: true}
	return KubeletList{
		PodList: PodList{Origin: "kubelet", Pods: has, Listed: 3}, FromAPI: 1,
		Gauges: policy.KubeletGauges{Working: []policy.WorkingPods{{Lifecycle: "sync", Config: "desired", Count: 3}}},
	}
}

func wholeAPI() APIList {
	has := map[parsers.PodUID]bool{listedUID: true}
	return APIList{PodList: PodList{Origin: "server", Pods: has, Listed: 5}, Own: has, Node: "n"}
}

func TestUnwanted(t *testing.T) {
	ending := policy.KubeletGauges{Working: []policy.WorkingPods{{Lifecycle: "terminating", Config: "runtime_only", Count: 1}}}
	for name, c := range map[string]struct {
		change func(*PodLists)
		uid    parsers.PodUID
		want   string
	}{
		"nobody asked":            {func(*PodLists) {}, unlistedUID, ""},
		"kubelet":                 {func(l *PodLists) { l.Kubelet = wholeKubelet() }, unlistedUID, "the kubelet's list of 3 pods"},
		"its sources may be late": {func(l *PodLists) { l.Kubelet = wholeKubelet(); l.Kubelet.FromAPI = 0 }, unlistedUID, ""},
		"it terminates some": {
			func(l *PodLists) { l.Kubelet = wholeKubelet(); l.Kubelet.FromAPI, l.Kubelet.Gauges = 0, ending },
			unlistedUID, "the kubelet's list of 3 pods",
		},
		"it lists it":              {func(l *PodLists) { l.Kubelet = wholeKubelet() }, listedUID, ""},
		"the answer breaks off":    {func(l *PodLists) { l.Kubelet = wholeKubelet(); l.Kubelet.Silent = "not answered" }, unlistedUID, ""},
		"API server":               {func(l *PodLists) { l.API = wholeAPI(); l.API.Whole = true }, unlistedUID, "the API server's list of 5 pods"},
		"the API server lists it":  {func(l *PodLists) { l.Kubelet = wholeKubelet(); l.Kubelet.Pods, l.API = nil, wholeAPI() }, listedUID, ""},
		"the API server, a static": {func(l *PodLists) { l.API = wholeAPI(); l.API.Whole = true }, staticUID, ""},
		"another node's list":      {func(l *PodLists) { l.API = wholeAPI() }, unlistedUID, ""},
	} {
		l := PodLists{Kubelet: KubeletList{PodList: PodList{Silent: "not asked"}}, API: APIList{PodList: PodList{Silent: "not asked"}}}
		c.change(&l)
		if got := l.Unwanted(c.uid); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if err := policy.OneLine(nil, nil); err != nil {
		t.Error(err)
	}
	if err := policy.OneLine(errors.New("a"), nil, errors.New("b"), errors.New("a")); err.Error() != "a; b" {
		t.Error(err)
	}
}

// TestOneListed checks singular and plural in the details.
func TestOneListed(t *testing.T) {
	k, a := wholeKubelet(), wholeAPI()
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 2: "2 pods"} {
		k.Listed, a.Listed, a.Whole = n, n, true
		if got := k.Fact(staticUID).Detail; !strings.HasPrefix(got, want+" listed") {
			t.Errorf("%d: %q", n, got)
		}
		if got := a.Fact(staticUID).Detail; got != want+" listed" {
			t.Errorf("%d: %q", n, got)
		}
		lists := PodLists{Kubelet: k, API: a}
		if got := lists.Unwanted(staticUID); got != "the kubelet's list of "+want+" does not contain it" {
			t.Errorf("%d: %q", n, got)
		}
	}
}
