package podlists

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// apiOf reads the list from a server as the API server.
func apiOf(t *testing.T, s *httptest.Server, patience time.Duration) *APIAnswer {
	t.Helper()
	p := newReader(Reader{Kubeconfig: testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "token: s3cret")})
	p.Guard.Patience = patience
	return p.API(t.Context(), "node-1")
}

const mirrorOf = `{"metadata":{"name":"etcd-node-1","namespace":"kube-system","uid":"11111111-2222-4333-8444-555555555555",` +
	`"annotations":{"kubernetes.io/config.mirror":"` + string(testkit.StaticUID) + `","kubernetes.io/config.hash":"` + string(testkit.StaticUID) + `"}}}`

func TestAPIList(t *testing.T) {
	for _, c := range []struct {
		name, text                    string
		quiet, away, static, released policy.Truth // released: for a pod in no list
		doubt                         string
	}{
		{"metadata", testkit.MetadataOf("", testkit.HerePod, testkit.QuietPod, mirrorOf), policy.Yes, policy.No, policy.Yes, policy.Yes, ""},
		{"whole pods", testkit.ListOf(testkit.HerePod, testkit.QuietPod), policy.Yes, policy.No, policy.No, policy.Yes, ""},
		{"twice the same", testkit.MetadataOf("", testkit.HerePod, testkit.HerePod, testkit.QuietPod), policy.Yes, policy.No, policy.No, policy.Yes, ""},
		{"empty", testkit.MetadataOf(""), policy.Unknown, policy.Unknown, policy.Unknown, policy.Unknown, "is node-1 this node's name?"},
		{"null", testkit.EmptyList, policy.Unknown, policy.Unknown, policy.Unknown, policy.Unknown, "is node-1 this node's name?"},
		{"another node's", testkit.MetadataOf("", testkit.AwayPod, mirrorOf), policy.Unknown, policy.Yes, policy.Yes, policy.Unknown, "(2 listed)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if r.URL.Path != "/api/v1/pods" || q.Get("fieldSelector") != "spec.nodeName=node-1" || q.Get("limit") != "500" || q.Has("resourceVersion") {
					t.Errorf("request for %s", r.URL)
				}
				if r.Header.Get("Authorization") != "Bearer s3cret" || !strings.HasPrefix(r.Header.Get("Accept"),
					"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,") {
					t.Errorf("request with %v", r.Header)
				}
				testkit.Answer(c.text)(w, r)
			})
			a := apiOf(t, s, time.Minute)
			l := listing(nil, a)
			unlisted := parsers.PodUID("cccccccc-1111-4222-8333-444444444444")
			for uid, want := range map[parsers.PodUID]policy.Truth{testkit.UIDQuiet: c.quiet, testkit.UIDAway: c.away, testkit.StaticUID: c.static} {
				if f := a.Fact(uid); f.Truth != want || f.Origin != s.URL+", node node-1" {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.podLists().Released(unlisted); f.Truth != c.released || !strings.Contains(f.Detail, c.doubt) {
				t.Errorf("released: %+v, want %s", f, c.released)
			}
			if v := judged(l, unlisted, true); (v.Decision == policy.Reap) != (c.released == policy.Yes) || v.For(policy.ReasonAPIUnknown) != (c.released != policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			// A static pod's mirror may be made later: the API server's list releases no static pod.
			if f := l.podLists().Released(testkit.OtherStatic); f.Truth == policy.Yes {
				t.Errorf("static pod: %+v", f)
			}
			if a.Err != nil {
				t.Error(a.Err)
			}
		})
	}
}

// TestAPIListPages checks that a list is complete with its last page, and that status 410 restarts it once.
func TestAPIListPages(t *testing.T) {
	page1, page2 := testkit.MetadataOf("t1", testkit.HerePod), testkit.MetadataOf("", testkit.QuietPod)
	for _, c := range []struct {
		name  string
		pages []http.HandlerFunc // one per request
		want  string             // the continue parameters
		err   string
	}{
		{"two pages", []http.HandlerFunc{testkit.Answer(page1), testkit.Answer(page2)}, " t1", ""},
		{
			"an empty last page",
			[]http.HandlerFunc{testkit.Answer(testkit.MetadataOf("t1", testkit.HerePod, testkit.QuietPod)), testkit.Answer(testkit.MetadataOf(""))},
			" t1", "",
		},
		{"begun again", []http.HandlerFunc{testkit.Answer(page1), testkit.Refuse(410, "too old"), testkit.Answer(page1), testkit.Answer(page2)}, " t1  t1", ""},
		{
			"begun again once only",
			[]http.HandlerFunc{testkit.Answer(page1), testkit.Refuse(410, "too old"), testkit.Answer(page1), testkit.Refuse(410, "too old")},
			" t1  t1", "410 Gone: too old",
		},
		{"lost on the way", []http.HandlerFunc{testkit.Answer(page1), testkit.Refuse(500, "no leader")}, " t1", "no leader"},
		{"cut off on the way", []http.HandlerFunc{testkit.Answer(page1), cutOff(`{"kind":"PodList","items":[`)}, " t1", "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Query().Get("continue"))
				if len(asked) > len(c.pages) {
					t.Errorf("request for another page: %q", asked)
					return
				}
				c.pages[len(asked)-1](w, r)
			})
			a := apiOf(t, s, time.Minute)
			l := listing(nil, a)
			if got := strings.Join(asked, " "); got != c.want {
				t.Errorf("requested pages %q, want %q", got, c.want)
			}
			if c.err == "" {
				if a.Err != nil || a.Fact(testkit.UIDQuiet).Truth != policy.Yes || l.podLists().Released(testkit.UIDAway).Truth != policy.Yes || a.Listed != 2 {
					t.Errorf("%v, %+v, %d listed", a.Err, l.podLists().Released(testkit.UIDAway), a.Listed)
				}
				return
			}
			if f := a.Fact(testkit.UIDQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, c.err) || a.Err == nil {
				t.Errorf("%+v", f)
			}
			if v := judged(l, testkit.UIDQuiet, true); v.Decision != policy.Keep {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			if a.Fact(testkit.UIDHere).Truth != policy.Yes {
				t.Error("a pod of the first page is not kept")
			}
			a.Whole = true // disable the guard
			if v := judged(l, testkit.UIDQuiet, true); v.Decision != policy.Reap {
				t.Errorf("a list without its last page gives %s %v", v.Decision, v.Why)
			}
		})
	}
	t.Run("without end", func(t *testing.T) {
		asked := 0
		a := apiOf(t, testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
			asked++
			testkit.Answer(page1)(w, r)
		}), time.Minute)
		if f := a.Fact(testkit.UIDQuiet); f.Truth != policy.Unknown || asked != mostPages || !strings.Contains(f.Detail, "does not end") {
			t.Errorf("%d pages, %+v", asked, f)
		}
	})
}

// TestAPIListReachable checks the message about an unreachable server.
func TestAPIListReachable(t *testing.T) {
	s := testkit.TLSServer(t, "", testkit.Refuse(403, "pods is forbidden"))
	other, _ := testkit.NewCert(t, "ca", testkit.Later)
	mine, key := testkit.NewCert(t, "system:node:node-7", testkit.Later)
	data := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct{ name, file, want string }{
		{"refused", testkit.KubeconfigOf(t, "https://127.0.0.1:1", "", "token: x"), "connection refused"},
		{"another authority", testkit.KubeconfigOf(t, s.URL, other, "token: x"), "certificate-authority does not verify this server"},
		{"forbidden", testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "token: x"), "list pods with the field selector spec.nodeName=node-1"},
		{
			"forbidden to a node", testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "client-certificate-data: "+data(mine)+", client-key-data: "+data(key)),
			"system:node:node-7 needs the right to list pods with the field selector spec.nodeName=node-7",
		},
		{"no such file", "/nowhere/kubeconfig", "/nowhere/kubeconfig: no such file"},
		{"exec", testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "exec: {command: aws}"), "no program is started for them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newReader(Reader{Kubeconfig: c.file})
			a := p.API(t.Context(), "node-1")
			if f := a.Fact(testkit.UIDQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, c.want) || a.Err == nil {
				t.Errorf("%+v, %v; want %q", f, a.Err, c.want)
			}
		})
	}
}

func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	testkit.Must(t, err)
	bare := kubeletOf(t, "--hostname-override=")
	for _, c := range []struct {
		set, user string
		k         *kubelet.Kubelet
		want      string
	}{
		{"set", "system:node:mine", kubeletOf(t), "set"},
		{"", "system:node:mine", kubeletOf(t), "mine"},
		{"", "admin", kubeletOf(t), "node-1"},
		{"", "admin", bare, strings.ToLower(host)},
		{"", "", nil, strings.ToLower(host)},
	} {
		p := newReader(Reader{NodeName: c.set})
		if n, err := p.nodeName(&kube.Server{User: c.user}, c.k.NodeName()); err != nil || n != c.want {
			t.Errorf("%+v: %q, %v", c, n, err)
		}
	}
}

// TestTruncatedLists checks that a pod in the complete response is never released by a truncated one, of either list,
// and that the complete one releases only pods that it omits.
func TestTruncatedLists(t *testing.T) {
	for _, whole := range []string{
		testkit.ListOf(testkit.HerePod, testkit.QuietPod, mirrorOf), testkit.MetadataOf("", testkit.HerePod, mirrorOf, testkit.QuietPod),
		testkit.MetadataOf("more", testkit.HerePod, testkit.QuietPod),
		`{"items":[` + testkit.HerePod + "," + testkit.QuietPod + "," + mirrorOf + `],"metadata":{"continue":""},"kind":"PodList"}`,
	} {
		for end := range len(whole) + 1 {
			text := whole[:end]
			h := testkit.Answer(text)
			ask := func(a getter) (*KubeletAnswer, *APIAnswer) {
				k := newPodList("kubelet")
				k.askPods(t.Context(), a)
				k.Weigh()
				l := newAPIList("server")
				l.Node = "n"
				if err := l.ask(t.Context(), a); err != nil {
					l.fail("not answered", err)
				}
				return k, l
			}
			k, a := ask(answers(h))
			for _, l := range []*bothLists{listing(k, nil), listing(nil, a), listing(k, a)} {
				for _, uid := range []parsers.PodUID{testkit.UIDQuiet, testkit.StaticUID, testkit.UIDHere} {
					if v := judged(l, uid, false); v.Decision == policy.Reap {
						t.Fatalf("%s is released by a response of %d of %d bytes: %s", uid, end, len(whole), text)
					}
				}
			}
		}
	}
}

// answers is a server without a network.
type answers http.HandlerFunc

func (h answers) Get(_ context.Context, path, _ string, take func(io.Reader) error) error {
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return take(w.Body)
}

// FuzzPodReader checks that whatever a server responds, the memory is bounded, nothing panics, and a truncated list
// never counts as complete.
func FuzzPodReader(f *testing.F) {
	for _, s := range []string{
		testkit.ListOf(testkit.HerePod, mirrorOf), testkit.MetadataOf("t", testkit.QuietPod), testkit.EmptyList, "{}",
		`{"kind":"PodList","items":[{}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		r := podReader{each: func(p *listedPod) {
			n++
			p.addTo(map[parsers.PodUID]bool{})
		}}
		if err := r.read(strings.NewReader(string(text))); err != nil {
			return
		}
		if !strings.Contains(string(text), "List") || !strings.Contains(string(text), "}") {
			t.Errorf("%q counts as a list of %d", text, n)
		}
		cut := slices.Index(text, '{') + 1
		if err := (&podReader{each: func(*listedPod) {}}).read(strings.NewReader(string(text[:cut]))); err == nil {
			t.Errorf("%q counts as a complete list", text[:cut])
		}
	})
}
