package podlists

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestPodList(t *testing.T) {
	all := testkit.ListOf(testkit.MirrorPod, testkit.OwnedPod, testkit.PlainPod)
	for _, c := range []struct {
		name, text string
		api        policy.Truth // fact of the last pod of a complete list
		static     policy.Truth
		err        string
	}{
		{"listed", all, policy.Yes, policy.Yes, ""},
		{"items before the kind", `{"items":[` + testkit.PlainPod + `],"kind":"PodList"}`, policy.Yes, policy.No, ""},
		{"others listed", testkit.ListOf(testkit.OwnedPod), policy.No, policy.No, ""},
		{"many", testkit.ListOf(slices.Repeat([]string{testkit.OwnedPod, testkit.MirrorPod}, 40_000)...), policy.No, policy.Yes, ""}, // 10 MB
		{"no pods", testkit.ListOf(), policy.No, policy.No, ""},
		{"null", testkit.EmptyList, policy.No, policy.No, ""},
		{"cut off", all[:strings.Index(all, `"web"`)], policy.Unknown, policy.Yes, "unexpected EOF"},
		{"no object", `[]`, policy.Unknown, policy.Unknown, "not a list of pods"},
		{"items are no list", `{"kind":"PodList","items":{}}`, policy.Unknown, policy.Unknown, "its items are no list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{"/pods": testkit.Answer(c.text)}))
			p, k := kubeletAt(t, s, testkit.CertOf(s))
			l := p.of(t.Context(), k)
			for uid, want := range map[parsers.PodUID]policy.Truth{testkit.APIUID: c.api, testkit.StaticUID: c.static} {
				if f := l.Fact(uid); f.Truth != want || f.Detail == "" || !strings.HasPrefix(f.Origin, "https://127.0.0.1:") {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.Fact(testkit.OtherStatic); f.Truth == policy.Yes {
				t.Errorf("an owner's UID counts: %+v", f)
			}
			if (l.Err != nil) != (c.err != "") || c.err != "" && !strings.Contains(l.Err.Error(), c.err) {
				t.Errorf("the error is %v, want %q", l.Err, c.err)
			}
		})
	}
}
