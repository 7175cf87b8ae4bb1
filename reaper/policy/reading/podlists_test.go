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

// TestKubeletListWhole checks that each doubt about the list keeps a pod that it omits. Without the doubt the pod
// would be released.
func TestKubeletListWhole(t *testing.T) {
	cleaned := int64(0)
	for doubt, change := range map[string]func(*KubeletList){
		"":                        func(*KubeletList) {},
		"not asked":               func(l *KubeletList) { l.Silent = "not asked" },
		"is continued elsewhere":  func(l *KubeletList) { l.More = true },
		"pods without a UID":      func(l *KubeletList) { l.Nameless = 1 },
		"sources may not be":      func(l *KubeletList) { l.FromAPI = 0 },
		"/metrics not answered":   func(l *KubeletList) { l.Metrics = "it answers 403" },
		"still taking in its pod": func(l *KubeletList) { l.Gauges = policy.KubeletGauges{Uncleaned: &cleaned} },
		"shows no kubelet_worki":  func(l *KubeletList) { l.Gauges = policy.KubeletGauges{} }, // before 1.27
	} {
		l := PodLists{Kubelet: wholeKubelet(), API: APIList{PodList: PodList{Silent: "not asked"}}}
		change(&l.Kubelet)
		if f := l.Released(unlistedUID); f.Truth != policy.Unknown {
			t.Errorf("%q: a list before Weigh gives %+v", doubt, f)
		}
		l.Kubelet.Weigh()
		want := policy.Unknown
		if doubt == "" {
			want = policy.Yes
		}
		if f := l.Released(unlistedUID); f.Truth != want || !strings.Contains(f.Detail, doubt) {
			t.Errorf("%q: %+v, want %s", doubt, f, want)
		}
		if f := l.Released(listedUID); f.Truth != policy.No {
			t.Errorf("%q: listed pod: %+v", doubt, f)
		}
		l.Kubelet.Whole = true // disable the guard
		if f := l.Released(unlistedUID); f.Truth != policy.Yes {
			t.Errorf("%q: without the doubt %+v", doubt, f)
		}
	}
}

// TestAPIListWhole checks that a list releases a pod only if it contains one that lives on this node.
func TestAPIListWhole(t *testing.T) {
	here := func(uid parsers.PodUID) bool { return uid == listedUID }
	for name, c := range map[string]struct {
		change       func(*PodLists)
		gone, static policy.Truth
		words        string
	}{
		"whole":           {func(*PodLists) {}, policy.Yes, policy.Unknown, "this node's and complete"},
		"silent":          {func(l *PodLists) { l.API.Silent = "not answered" }, policy.Unknown, policy.Unknown, "not answered"},
		"another node's":  {func(l *PodLists) { l.API.Own = nil }, policy.Unknown, policy.Unknown, "is n this node's name?"},
		"without UIDs":    {func(l *PodLists) { l.API.Nameless = 1 }, policy.Unknown, policy.Unknown, "without a UID"},
		"manifests":       {func(l *PodLists) { l.ManifestDoubt = "from a URL too" }, policy.Unknown, policy.Unknown, "from a URL too"},
		"kubelet, static": {func(l *PodLists) { l.Kubelet = wholeKubelet(); l.Kubelet.Weigh() }, policy.Yes, policy.Yes, "the kubelet's list of 3 pods"},
	} {
		l := PodLists{Kubelet: KubeletList{PodList: PodList{Silent: "not asked"}}, API: wholeAPI()}
		c.change(&l)
		l.API.Weigh(here)
		if f := l.Released(unlistedUID); f.Truth != c.gone || !strings.Contains(f.Detail, c.words) {
			t.Errorf("%s: %+v, want %s", name, f, c.gone)
		}
		if f := l.Released(staticUID); f.Truth != c.static {
			t.Errorf("%s: static pod: %+v, want %s", name, f, c.static)
		}
	}
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

// TestPodsAPI checks that a pod that the kubelet's socket lists is kept. A list that looks complete releases the
// others only if the gauge shows that the kubelet has received its pods. Without the gauge their absence is only
// recorded.
func TestPodsAPI(t *testing.T) {
	own := PodsAPI{Origin: "socket", Pods: map[parsers.PodUID]bool{listedUID: true}, Listed: 1}
	for name, c := range map[string]struct {
		change             func(*PodLists)
		released, unlisted policy.Truth
	}{
		"gauge":               {func(*PodLists) {}, policy.Yes, policy.Yes},
		"not asked for pods":  {func(l *PodLists) { l.Kubelet.Silent = "not answered" }, policy.Yes, policy.Yes},
		"no gauge":            {func(l *PodLists) { l.Kubelet.Gauges = policy.KubeletGauges{} }, policy.Unknown, policy.Yes},
		"gauge cut off":       {func(l *PodLists) { l.Kubelet.Metrics = "not answered" }, policy.Unknown, policy.Yes},
		"initializing":        {func(l *PodLists) { l.Kubelet.Own = PodsAPI{Silent: "initializing"} }, policy.Unknown, policy.Unknown},
		"doubtful":            {func(l *PodLists) { l.Kubelet.Own.Doubt = "it lists a pod without a UID" }, policy.Unknown, policy.Unknown},
		"before 1.37":         {func(l *PodLists) { l.Kubelet.Own = PodsAPI{} }, policy.Unknown, policy.Unknown},
		"unreadable manifest": {func(l *PodLists) { l.ManifestDoubt = "cannot be read" }, policy.Unknown, policy.Unknown},
	} {
		l := PodLists{Kubelet: wholeKubelet(), API: APIList{PodList: PodList{Silent: "not asked"}}}
		l.Kubelet.FromAPI, l.Kubelet.Own = 0, own // /pods alone is not known to be complete
		c.change(&l)
		l.Kubelet.Weigh()
		for _, uid := range []parsers.PodUID{unlistedUID, staticUID} {
			released, unlisted := l.Released(uid), l.Unlisted(uid)
			if released.Truth != c.released || unlisted.Truth != c.unlisted || l.KubeletOmits(uid) != (c.released == policy.Yes) {
				t.Errorf("%s: released %+v, unlisted %+v", name, released, unlisted)
			}
		}
	}
	l := PodLists{Kubelet: wholeKubelet(), API: wholeAPI()}
	l.Kubelet.Own = PodsAPI{Origin: "socket", Pods: map[parsers.PodUID]bool{unlistedUID: true}, Doubt: "cut off"}
	l.Kubelet.Weigh()
	f, r := l.Kubelet.Fact(unlistedUID), l.Released(unlistedUID)
	if f.Truth != policy.Yes || f.Origin != "socket" || r.Truth != policy.No || l.Unwanted(unlistedUID) != "" {
		t.Errorf("pod on the socket's list only: %+v, released %+v", f, r)
	}
	l.Kubelet.Own = own
	l.Kubelet.Pods = map[parsers.PodUID]bool{unlistedUID: true}
	if f := l.Unlisted(unlistedUID); f.Truth == policy.Yes {
		t.Errorf("pod on another list: %+v", f)
	}
}
