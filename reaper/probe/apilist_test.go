package probe

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// kubeconfigOf writes a kubeconfig for a server, with a user of the given lines.
func kubeconfigOf(t *testing.T, url, ca, user string) string {
	t.Helper()
	if ca != "" {
		ca = ", certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(ca))
	}
	return file(t, "kubeconfig", `apiVersion: v1
kind: Config
preferences: {}
current-context: here
contexts:
- {name: elsewhere, context: {cluster: none, user: none}}
- {name: here, context: {cluster: c, user: u, namespace: default}}
clusters:
- {name: c, cluster: {server: "`+url+`"`+ca+`}}
users:
- {name: u, user: {`+user+`}}
`)
}

// apiOf asks a server as the API server.
func apiOf(t *testing.T, s *httptest.Server, patience time.Duration) *apiList {
	t.Helper()
	p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, Kubeconfig: kubeconfigOf(t, s.URL, certOf(s), "token: s3cret")})
	must(t, err)
	p.guard.Patience = patience
	return p.apiList(t.Context(), kubeletOf(t))
}

const mirrorOf = `{"metadata":{"name":"etcd-node-1","namespace":"kube-system","uid":"11111111-2222-4333-8444-555555555555",` +
	`"annotations":{"kubernetes.io/config.mirror":"` + string(staticUID) + `","kubernetes.io/config.hash":"` + string(staticUID) + `"}}}`

// metadataOf is how a server answers that can leave out everything but the metadata.
func metadataOf(more string, pods ...string) string {
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"` + more + `"},"items":[` +
		strings.Join(pods, ",") + "]}\n"
}

func TestAPIList(t *testing.T) {
	for _, c := range []struct {
		name, text                    string
		quiet, away, static, released policy.Truth // released: of a pod that is nowhere
		doubt                         string
	}{
		{"metadata", metadataOf("", herePod, quietPod, mirrorOf), policy.Yes, policy.No, policy.Yes, policy.Yes, ""},
		{"whole pods", listOf(herePod, quietPod), policy.Yes, policy.No, policy.No, policy.Yes, ""},
		{"twice the same", metadataOf("", herePod, herePod, quietPod), policy.Yes, policy.No, policy.No, policy.Yes, ""},
		{"empty", metadataOf(""), policy.Unknown, policy.Unknown, policy.Unknown, policy.Unknown, "is node-1 this node's name?"},
		{"null", emptyList, policy.Unknown, policy.Unknown, policy.Unknown, policy.Unknown, "is node-1 this node's name?"},
		{"another node's", metadataOf("", awayPod, mirrorOf), policy.Unknown, policy.Yes, policy.Yes, policy.Unknown, "(2 listed)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tlsServer(t, "", func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if r.URL.Path != "/api/v1/pods" || q.Get("fieldSelector") != "spec.nodeName=node-1" || q.Get("limit") != "500" || q.Has("resourceVersion") {
					t.Errorf("asked for %s", r.URL)
				}
				if r.Header.Get("Authorization") != "Bearer s3cret" || !strings.HasPrefix(r.Header.Get("Accept"), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,") {
					t.Errorf("asked with %v", r.Header)
				}
				answer(c.text)(w, r)
			})
			a := apiOf(t, s, time.Minute)
			l := lists(nil, a)
			nobody := parsers.PodUID("cccccccc-1111-4222-8333-444444444444")
			for uid, want := range map[parsers.PodUID]policy.Truth{uidQuiet: c.quiet, uidAway: c.away, staticUID: c.static} {
				if f := a.Fact(uid); f.Truth != want || f.Origin != s.URL+", node node-1" {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.podLists().Released(nobody); f.Truth != c.released || !strings.Contains(f.Detail, c.doubt) {
				t.Errorf("released: %+v, want %s", f, c.released)
			}
			if v := judged(l, nobody, true); (v.Decision == policy.Reap) != (c.released == policy.Yes) || v.For(policy.ReasonAPIUnknown) != (c.released != policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			// The mirror of a static pod may be made later: the API server's word lets none go.
			if f := l.podLists().Released(otherStatic); f.Truth == policy.Yes {
				t.Errorf("a static pod: %+v", f)
			}
			if a.err != nil {
				t.Error(a.err)
			}
		})
	}
}

// TestAPIListForeign: what the guard against another node's list is for. A living pod that
// only the API server knows of is let go by such a list, were it not doubted.
func TestAPIListForeign(t *testing.T) {
	for name, text := range map[string]string{
		"empty": metadataOf(""), "another node's": metadataOf("", awayPod),
		// The same static UID on every node, as kubelets up to 1.20 give it.
		"another node's mirror pods": metadataOf("", awayPod, mirrorOf),
	} {
		t.Run(name, func(t *testing.T) {
			a := apiOf(t, tlsServer(t, "", answer(text)), time.Minute)
			runs := func(uid parsers.PodUID) bool { return uid == uidHere || uid == staticUID }
			a.Whole = true // the guard
			without := &gathering{podList: unlisted("", "not asked", nil), api: a, static: &kubelet.StaticPods{}}
			if v := judged(without, uidQuiet, true); v.Decision != policy.Reap {
				t.Fatalf("without the guard: %s %v", v.Decision, v.Why)
			}
			a.Weigh(runs)
			if v := judged(without, uidQuiet, true); v.Decision != policy.Keep || !v.For(policy.ReasonAPIUnknown) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			if v := judged(without, uidQuiet, false); v.Decision != policy.Keep {
				t.Errorf("with --api-unreachable ignore: %s %v", v.Decision, v.Why)
			}
		})
	}
}

// TestAPIListBadAnswers: no bad answer lets a living pod go, and without the doubt about it
// each of them would.
func TestAPIListBadAnswers(t *testing.T) {
	for _, c := range badAnswers() {
		t.Run(c.name, func(t *testing.T) {
			patience := time.Minute
			if !c.patient {
				patience = 200 * time.Millisecond
			}
			a := apiOf(t, tlsServer(t, "", c.h), patience)
			l := lists(nil, a)
			f := l.api.Fact(uidQuiet)
			if f.Truth != policy.Unknown || !strings.Contains(f.Detail, c.want) {
				t.Errorf("%+v, want unknown with %q", f, c.want)
			}
			for _, need := range []bool{true, false} {
				if v := judged(l, uidQuiet, need); v.Decision != policy.Keep || v.For(policy.ReasonAPIUnknown) != need {
					t.Errorf("need %t: %s %v", need, v.Decision, v.Why)
				}
			}
			a.Whole = true // the guard
			if v := judged(l, uidQuiet, true); v.Decision != policy.Reap {
				t.Errorf("without the doubt the verdict would be %s %v", v.Decision, v.Why)
			}
		})
	}
}

// TestAPIListPages: a list is whole with its last page, and 410 begins it again once.
func TestAPIListPages(t *testing.T) {
	page1, page2 := metadataOf("t1", herePod), metadataOf("", quietPod)
	for _, c := range []struct {
		name  string
		pages []http.HandlerFunc // by request
		want  string             // of the continue parameters
		err   string
	}{
		{"two pages", []http.HandlerFunc{answer(page1), answer(page2)}, " t1", ""},
		{"an empty last page", []http.HandlerFunc{answer(metadataOf("t1", herePod, quietPod)), answer(metadataOf(""))}, " t1", ""},
		{"begun again", []http.HandlerFunc{answer(page1), refuse(410, "too old"), answer(page1), answer(page2)}, " t1  t1", ""},
		{"begun again once only", []http.HandlerFunc{answer(page1), refuse(410, "too old"), answer(page1), refuse(410, "too old")}, " t1  t1", "410 Gone: too old"},
		{"lost on the way", []http.HandlerFunc{answer(page1), refuse(500, "no leader")}, " t1", "no leader"},
		{"cut off on the way", []http.HandlerFunc{answer(page1), cutOff(`{"kind":"PodList","items":[`)}, " t1", "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			s := tlsServer(t, "", func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Query().Get("continue"))
				if len(asked) > len(c.pages) {
					t.Errorf("asked for a page more: %q", asked)
					return
				}
				c.pages[len(asked)-1](w, r)
			})
			a := apiOf(t, s, time.Minute)
			l := lists(nil, a)
			if got := strings.Join(asked, " "); got != c.want {
				t.Errorf("asked for the pages %q, want %q", got, c.want)
			}
			if c.err == "" {
				if a.err != nil || a.Fact(uidQuiet).Truth != policy.Yes || l.podLists().Released(uidAway).Truth != policy.Yes || a.Listed != 2 {
					t.Errorf("%v, %+v, %d listed", a.err, l.podLists().Released(uidAway), a.Listed)
				}
				return
			}
			if f := a.Fact(uidQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, c.err) || a.err == nil {
				t.Errorf("%+v", f)
			}
			if v := judged(l, uidQuiet, true); v.Decision != policy.Keep {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			if a.Fact(uidHere).Truth != policy.Yes {
				t.Error("what the first page had no longer keeps its pod")
			}
			a.Whole = true // the guard
			if v := judged(l, uidQuiet, true); v.Decision != policy.Reap {
				t.Errorf("a list without its last page would give %s %v", v.Decision, v.Why)
			}
		})
	}
	t.Run("without end", func(t *testing.T) {
		asked := 0
		a := apiOf(t, tlsServer(t, "", func(w http.ResponseWriter, r *http.Request) {
			asked++
			answer(page1)(w, r)
		}), time.Minute)
		if f := a.Fact(uidQuiet); f.Truth != policy.Unknown || asked != mostPages || !strings.Contains(f.Detail, "does not end") {
			t.Errorf("%d pages, %+v", asked, f)
		}
	})
}

// TestAPIListReachable: what a person is told of a server that cannot be asked.
func TestAPIListReachable(t *testing.T) {
	s := tlsServer(t, "", refuse(403, "pods is forbidden"))
	other, _ := testkit.NewCert(t, "ca", later)
	mine, key := testkit.NewCert(t, "system:node:node-7", later)
	data := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct{ name, file, want string }{
		{"refused", kubeconfigOf(t, "https://127.0.0.1:1", "", "token: x"), "connection refused"},
		{"another authority", kubeconfigOf(t, s.URL, other, "token: x"), "certificate-authority does not know this server"},
		{"forbidden", kubeconfigOf(t, s.URL, certOf(s), "token: x"), "list pods with the field selector spec.nodeName=node-1"},
		{
			"forbidden to a node", kubeconfigOf(t, s.URL, certOf(s), "client-certificate-data: "+data(mine)+", client-key-data: "+data(key)),
			"system:node:node-7 needs the right to list pods with the field selector spec.nodeName=node-7",
		},
		{"no such file", "/nowhere/kubeconfig", "open /nowhere/kubeconfig: no such file"},
		{"exec", kubeconfigOf(t, s.URL, certOf(s), "exec: {command: aws}"), "no program is started for them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, Kubeconfig: c.file})
			must(t, err)
			a := p.apiList(t.Context(), kubeletOf(t))
			if f := a.Fact(uidQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, c.want) || a.err == nil {
				t.Errorf("%+v, %v; want %q", f, a.err, c.want)
			}
		})
	}
}

func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
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
		p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, NodeName: c.set})
		must(t, err)
		if n, err := p.nodeName(&kubeconfig{user: c.user}, c.k); err != nil || n != c.want {
			t.Errorf("%+v: %q, %v", c, n, err)
		}
	}
}

// TestTruncatedLists: wherever an answer ends, a pod that the whole one has is not let go,
// by either list; and where the whole one is read, only what it has not is.
func TestTruncatedLists(t *testing.T) {
	for _, whole := range []string{
		listOf(herePod, quietPod, mirrorOf), metadataOf("", herePod, mirrorOf, quietPod), metadataOf("more", herePod, quietPod),
		`{"items":[` + herePod + "," + quietPod + "," + mirrorOf + `],"metadata":{"continue":""},"kind":"PodList"}`,
	} {
		for end := range len(whole) + 1 {
			text := whole[:end]
			h := answer(text)
			ask := func(a *asker) (*podList, *apiList) {
				k := newPodList("kubelet", true)
				k.askPods(t.Context(), a)
				k.Weigh()
				l := newAPIList("server")
				l.Node = "n"
				if err := l.ask(t.Context(), a); err != nil {
					l.fail("not answered", err)
				}
				return k, l
			}
			k, a := ask(&asker{base: "http://x", client: &http.Client{Transport: roundTrip(h)}})
			for _, l := range []*gathering{lists(k, nil), lists(nil, a), lists(k, a)} {
				for _, uid := range []parsers.PodUID{uidQuiet, staticUID, uidHere} {
					if v := judged(l, uid, false); v.Decision == policy.Reap {
						t.Fatalf("%s goes, by an answer of %d of %d bytes: %s", uid, end, len(whole), text)
					}
				}
			}
		}
	}
}

// roundTrip answers without a network.
type roundTrip http.HandlerFunc

func (h roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}

// FuzzPodReader: whatever a server answers, what is read of it is bounded and nothing
// panics, and a list that breaks off is never one that is whole.
func FuzzPodReader(f *testing.F) {
	for _, s := range []string{listOf(herePod, mirrorOf), metadataOf("t", quietPod), emptyList, "{}", `{"kind":"PodList","items":[{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		r := podReader{each: func(p *listedPod) {
			n++
			p.note(map[parsers.PodUID]bool{})
		}}
		if err := r.read(strings.NewReader(string(text))); err != nil {
			return
		}
		if !strings.Contains(string(text), "List") || !strings.Contains(string(text), "}") {
			t.Errorf("%q is taken for a list of %d", text, n)
		}
		cut := slices.Index(text, '{') + 1
		if err := (&podReader{each: func(*listedPod) {}}).read(strings.NewReader(string(text[:cut]))); err == nil {
			t.Errorf("%q is taken for a list", text[:cut])
		}
	})
}

// TestListsInALook has the whole way: real processes, sockets with TLS, a runtime and
// cgroups, and a look at three directories of which the lists decide.
func TestListsInALook(t *testing.T) {
	n := newNode(t)
	n.mkdir(n.pod(uidHere), n.pod(uidQuiet), n.pod(uidAway), "cgroup/kubepods/pod"+string(uidHere))
	cri := startCRI(t, fakecri.Options{Version: fakecri.V1})
	here := fakecri.Pod{UID: string(uidHere), Namespace: "a", Name: "here", Running: 1}
	cri.SetPods(here)
	api := tlsServer(t, "", answer(metadataOf("", herePod, quietPod)))
	n.cfg.Waive, n.cfg.RootDirSet, n.cfg.RuntimeEndpoint = false, true, cri.Endpoint()
	n.cfg.Kubeconfig = kubeconfigOf(t, api.URL, certOf(api), "token: x")
	kubelet := tlsServer(t, "", serve(map[string]http.HandlerFunc{
		"/pods": answer(listOf(herePod, staticPod)), "/runningpods/": refuse(403, "forbidden"),
		"/metrics": answer("kubelet_orphan_pod_cleaned_volumes 2\nkubelet_orphan_pod_cleaned_volumes_errors 1\n" +
			`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"),
	}))
	n.cfg.KubeletTokenFile = file(t, "token", "x")
	self, err := os.Executable()
	must(t, err)
	n.symlink(self, "bin/kubelet")
	look := n.look()
	check(t, find(t, look, uidAway), facts{policy.FactReleased: policy.Unknown, policy.FactKubeletLists: policy.Unknown, policy.FactAPILists: policy.No})
	// Of another node, for all that this one shows.
	cri.SetPods(fakecri.Pod{UID: string(newUID()), Namespace: "a", Name: "other", Running: 1})
	check(t, find(t, n.look(), uidAway), facts{policy.FactAPILists: policy.Unknown})
	cri.SetPods(here)
	must(t, os.Remove(n.path("cgroup/kubepods/pod"+string(uidHere))))
	check(t, find(t, n.look(), uidAway), facts{policy.FactAPILists: policy.Unknown})
	n.mkdir("cgroup/kubepods/pod" + string(uidHere))
	testkit.StartProcess(t, "idle", n.path("bin/kubelet"), "kubelet", "--root-dir", n.path("kubelet"), "--hostname-override=n1",
		"--port="+portOf(t, kubelet), "--tls-cert-file="+file(t, "kubelet.crt", certOf(kubelet)))
	look = n.look()
	check(t, find(t, look, uidHere), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.Yes, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, uidQuiet), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, uidAway), facts{policy.FactReleased: policy.Yes, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.No})
	if g := look.Node.Gauges; g.Uncleaned == nil || *g.Uncleaned != 1 || len(g.Working) != 1 {
		t.Errorf("the gauges: %+v", g)
	}
	if len(look.Errors) > 0 {
		t.Errorf("%q", look.Errors)
	}
}

// TestAPIListLeaves: the look ends when its context does, whatever the server does.
func TestAPIListLeaves(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := tlsServer(t, "", func(_ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("stopped"))
		<-r.Context().Done()
	})
	p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, Kubeconfig: kubeconfigOf(t, s.URL, certOf(s), "token: x")})
	must(t, err)
	if a := p.apiList(ctx, nil); !strings.Contains(a.Silent, "stopped") {
		t.Errorf("%q", a.Silent)
	}
}
