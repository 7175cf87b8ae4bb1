package probe

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// kubeletAt is a server as the kubelet's own port, and a probe with a token for it.
func kubeletAt(t *testing.T, s *httptest.Server, certificate string) (*Probe, *kubelet.Kubelet) {
	t.Helper()
	p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, KubeletTokenFile: file(t, "token", "s3cret\n")})
	must(t, err)
	k := kubeletOf(t, "--port="+portOf(t, s), "--tls-cert-file="+file(t, "kubelet.crt", certificate), "--cert-dir="+t.TempDir())
	return p, k
}

// serve answers by path; what is not named is not found, but for the gauges of a kubelet that
// has taken in its pods.
func serve(paths map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch h, ok := paths[r.URL.Path]; {
		case ok:
			h(w, r)
		case r.URL.Path == "/metrics":
			answer(someMetrics)(w, r)
		default:
			http.NotFound(w, r)
		}
	}
}

// TestKubeletTakesInPods: a kubelet whose loop hangs while it admits a pod lists that one and
// not those behind it, which live.
func TestKubeletTakesInPods(t *testing.T) {
	const swept = "kubelet_orphan_pod_cleaned_volumes 0\nkubelet_orphan_pod_cleaned_volumes_errors 0\n"
	for _, c := range []struct {
		name    string
		metrics http.HandlerFunc
		want    policy.Truth
		words   string
	}{
		{"has swept", answer(swept + `kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"), policy.Yes, "is whole"},
		{"has not", answer(swept), policy.Unknown, "still taking in"},
		{"not told", refuse(403, "no"), policy.Unknown, "nodes/metrics"},
		{"before 1.27", answer("go_goroutines 5\n"), policy.Yes, "is whole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tlsServer(t, "", serve(map[string]http.HandlerFunc{
				"/pods": answer(listOf(herePod)), "/runningpods/": answer(listOf()), "/metrics": c.metrics,
			}))
			p, k := kubeletAt(t, s, certOf(s))
			l := lists(p.podList(t.Context(), k), nil)
			if f := l.podLists().Released(uidAway); f.Truth != c.want || !strings.Contains(f.Detail, c.words) {
				t.Errorf("released: %+v, want %s with %q", f, c.want, c.words)
			}
			if v := judged(l, uidAway, false); (v.Decision == policy.Reap) != (c.want == policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
		})
	}
}

// TestKubeletSecure: at its own port the kubelet is asked with a token, its list is whole
// where it has a pod of the API server's, and /runningpods only adds.
func TestKubeletSecure(t *testing.T) {
	for _, c := range []struct {
		name, pods, running  string
		quiet, away, static  policy.Truth // kubelet_lists
		released, staticGone policy.Truth // of uidAway, and of a static UID that is nobody's
		doubt                string
	}{
		{"whole", listOf(herePod, quietPod, staticPod), listOf(herePod), policy.Yes, policy.No, policy.Yes, policy.Yes, policy.Yes, ""},
		{"duplicates", listOf(herePod, herePod, quietPod, quietPod), listOf(herePod, herePod), policy.Yes, policy.No, policy.No, policy.Yes, policy.Yes, ""},
		{"running only", listOf(herePod), listOf(awayPod), policy.No, policy.Yes, policy.No, policy.No, policy.Yes, ""},
		{"no runningpods", listOf(herePod), "", policy.No, policy.No, policy.No, policy.Yes, policy.Yes, ""},
		{"static pods alone", listOf(staticPod), listOf(), policy.No, policy.No, policy.Yes, policy.Unknown, policy.Unknown, "no pod of the API server's"},
		{"no pods", emptyList, listOf(), policy.No, policy.No, policy.No, policy.Unknown, policy.Unknown, "no pod of the API server's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			paths := map[string]http.HandlerFunc{"/pods": func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer s3cret" {
					t.Errorf("asked as %q", r.Header.Get("Authorization"))
				}
				answer(c.pods)(w, r)
			}}
			if c.running != "" {
				paths["/runningpods/"] = answer(c.running)
			}
			s := tlsServer(t, "", serve(paths))
			p, k := kubeletAt(t, s, certOf(s))
			l := lists(p.podList(t.Context(), k), nil)
			for uid, want := range map[parsers.PodUID]policy.Truth{uidQuiet: c.quiet, uidAway: c.away, staticUID: c.static} {
				if f := l.podList.Fact(uid); f.Truth != want || f.Origin != s.URL+"/pods" {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.podLists().Released(uidAway); f.Truth != c.released || !strings.Contains(f.Detail, c.doubt) {
				t.Errorf("released: %+v, want %s", f, c.released)
			}
			if f := l.podLists().Released(otherStatic); f.Truth != c.staticGone {
				t.Errorf("a static UID that nobody has: released %+v, want %s", f, c.staticGone)
			}
			if v := judged(l, uidAway, false); (v.Decision == policy.Reap) != (c.released == policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			if l.podList.err != nil {
				t.Error(l.podList.err)
			}
			// A manifest that cannot be read may state any UID: the kubelet need not have it.
			l.static.Err = os.ErrPermission
			if f := l.podLists().Released(uidAway); f.Truth == policy.Yes {
				t.Errorf("with unreadable manifests: %+v", f)
			}
			l.static = &kubelet.StaticPods{StaticPods: policy.StaticPods{Unsure: "from a URL too"}}
			if f := l.podLists().Released(uidAway); f.Truth == policy.Yes {
				t.Errorf("with manifests from a URL: %+v", f)
			}
		})
	}
}

// TestKubeletBadAnswers: no bad answer of the kubelet's own port lets a living pod go.
func TestKubeletBadAnswers(t *testing.T) {
	for _, c := range badAnswers() {
		t.Run(c.name, func(t *testing.T) {
			s := tlsServer(t, "", serve(map[string]http.HandlerFunc{"/pods": c.h, "/elsewhere": c.h, "/runningpods/": answer(listOf(herePod))}))
			p, k := kubeletAt(t, s, certOf(s))
			if p.guard.Patience = time.Minute; !c.patient {
				p.guard.Patience = 200 * time.Millisecond
			}
			l := lists(p.podList(t.Context(), k), nil)
			for _, uid := range []parsers.PodUID{uidQuiet, staticUID} {
				if v := judged(l, uid, false); v.Decision != policy.Keep {
					t.Errorf("%s: %s %v", uid, v.Decision, v.Why)
				}
				if f := l.podLists().Released(uid); f.Truth == policy.Yes || !strings.Contains(f.Detail, c.want) {
					t.Errorf("%s: released %+v, want unknown with %q", uid, f, c.want)
				}
				l.podList.Whole = true // the guard
				if v := judged(l, uid, false); v.Decision != policy.Reap {
					t.Errorf("%s: without the doubt about the list the verdict would be %s %v", uid, v.Decision, v.Why)
				}
				l.podList.Whole = false
			}
		})
	}
}

// TestPretender: another program at the kubelet's port, with a certificate of its own, gets
// neither our token nor a word.
func TestPretender(t *testing.T) {
	asked := false
	s := tlsServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		asked = true
		answer(listOf(herePod))(w, r)
	})
	theirs, _ := testkit.NewCert(t, "kubelet", later)
	p, k := kubeletAt(t, s, theirs)
	l := lists(p.podList(t.Context(), k), nil)
	if asked || l.podList.err == nil {
		t.Errorf("who has another certificate was asked (%t): %v", asked, l.podList.err)
	}
	if f := l.podList.Fact(uidQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, "another certificate") {
		t.Errorf("%+v", f)
	}
	if v := judged(l, uidQuiet, false); v.Decision != policy.Keep {
		t.Errorf("%s %v", v.Decision, v.Why)
	}
	// The same answer of one that is taken for the kubelet lets the pod go.
	p, k = kubeletAt(t, s, certOf(s))
	if v := judged(lists(p.podList(t.Context(), k), nil), uidQuiet, false); v.Decision != policy.Reap || !asked {
		t.Errorf("without the comparison the verdict would be %s %v", v.Decision, v.Why)
	}
}

// TestKubeletWithoutTLS: somebody at the port who speaks plain HTTP.
func TestKubeletWithoutTLS(t *testing.T) {
	s := httptest.NewServer(answer(listOf(herePod)))
	t.Cleanup(s.Close)
	cert, _ := testkit.NewCert(t, "kubelet", later)
	p, k := kubeletAt(t, s, cert)
	l := lists(p.podList(t.Context(), k), nil)
	if f := l.podLists().Released(uidQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, "HTTP response to HTTPS client") {
		t.Errorf("%+v", f)
	}
	t.Run("the read-only port lets nothing go", func(t *testing.T) {
		l := lists(listedBy(t, time.Minute, answer(listOf(herePod))), nil)
		if f := l.podLists().Released(uidQuiet); f.Truth != policy.Unknown || l.podList.Fact(uidHere).Truth != policy.Yes {
			t.Errorf("%+v", f)
		}
		l.podList.Whole = true // the guard
		if v := judged(l, uidQuiet, false); v.Decision != policy.Reap {
			t.Errorf("anybody's word would give %s %v", v.Decision, v.Why)
		}
	})
}

func TestKubeletClientCertificate(t *testing.T) {
	cert, key := testkit.NewCert(t, "kube-apiserver-kubelet-client", later)
	old, oldKey := testkit.NewCert(t, "kube-apiserver-kubelet-client", noon.Add(-time.Hour))
	s := tlsServer(t, cert, serve(map[string]http.HandlerFunc{"/pods": answer(listOf(herePod))}))
	for _, c := range []struct{ name, cert, key, want string }{
		{"two files", file(t, "c", cert), file(t, "k", key), ""},
		{"one file", file(t, "both", key+cert), "", ""},
		{"expired", file(t, "old", old+oldKey), "", "the client certificate expired at"},
		{"another key", file(t, "c", cert), file(t, "k", oldKey), "private key does not match"},
		{"missing", "/nowhere/c", "", "cannot read the client certificate: open /nowhere/c"},
		{"no certificate", file(t, "c", "x"), "", "failed to find any PEM data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}, KubeletClientCertificate: c.cert, KubeletClientKey: c.key})
			must(t, err)
			_, k := kubeletAt(t, s, certOf(s))
			l := p.podList(t.Context(), k)
			want := policy.Yes
			if c.want != "" {
				want = policy.Unknown
			}
			if f := l.Fact(uidHere); f.Truth != want || !strings.Contains(f.Detail, c.want) || (l.err != nil) != (c.want != "") {
				t.Errorf("%+v, %v", f, l.err)
			}
		})
	}
}

// TestKubeletToken: a token that cannot be sent is not sent, and its text is not shown.
func TestKubeletToken(t *testing.T) {
	for text, good := range map[string]bool{"abc.def\n": true, "": false, " \n": false, "a b": false, "a\nX-Evil: 1": false} {
		token, err := readToken(file(t, "token", text))
		if (err == nil) != good || good && token != "abc.def" || err != nil && strings.Contains(err.Error(), "Evil") {
			t.Errorf("%q: %q, %v", text, token, err)
		}
	}
}

// TestNothingIsKept: between looks there is no connection.
func TestNothingIsKept(t *testing.T) {
	s := httptest.NewUnstartedServer(serve(map[string]http.HandlerFunc{
		"/pods": answer(listOf(herePod)), "/runningpods/": answer(listOf()), "/metrics": answer(""),
	}))
	states := make(chan http.ConnState, 100)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	s.StartTLS()
	t.Cleanup(s.Close)
	p, k := kubeletAt(t, s, certOf(s))
	if l := p.podList(t.Context(), k); l.err != nil {
		t.Fatal(l.err)
	}
	var seen []http.ConnState
	for state := range states { // until the one connection is closed
		if seen = append(seen, state); state == http.StateClosed {
			break
		}
	}
	if n := len(slices.DeleteFunc(seen, func(s http.ConnState) bool { return s != http.StateNew })); n != 1 {
		t.Errorf("%d connections for three questions", n)
	}
}

// TestNoProxy: what the environment says of proxies is for others. net/http reads it once in
// a process and never uses it for the loopback, so the field itself is looked at.
func TestNoProxy(t *testing.T) {
	a := newAsker("https://127.0.0.1:1", "", nil)
	if tr, ok := a.client.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("a proxy may be asked")
	}
}
