package podlists

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// kubeletAt returns a server as the kubelet's own port, and a reader with a token for it.
func kubeletAt(t *testing.T, s *httptest.Server, certificate string) (*Reader, *kubelet.Kubelet) {
	t.Helper()
	p := newReader(Reader{KubeletTokenFile: testkit.File(t, "token", "s3cret\n")})
	k := kubeletOf(t, "--port="+testkit.PortOf(t, s), "--tls-cert-file="+testkit.File(t, "kubelet.crt", certificate), "--cert-dir="+t.TempDir())
	return p, k
}

// TestKubeletTakesInPods checks a kubelet whose loop hangs while it admits a pod: its list has that pod and omits
// later ones, which live.
func TestKubeletTakesInPods(t *testing.T) {
	const cleaned = "kubelet_orphan_pod_cleaned_volumes 0\nkubelet_orphan_pod_cleaned_volumes_errors 0\n"
	for _, c := range []struct {
		name    string
		metrics http.HandlerFunc
		want    policy.Truth
		words   string
	}{
		{"has taken them in", testkit.Answer(cleaned + `kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"), policy.Yes, "is complete"},
		{"has not", testkit.Answer(cleaned), policy.Unknown, "still taking in"},
		{"refused", testkit.Refuse(403, "no"), policy.Unknown, "nodes/metrics"},
		{"before 1.27", testkit.Answer("go_goroutines 5\n"), policy.Unknown, "1.27 and newer have it"},
		{"--disabled-metrics", testkit.Answer("kubelet_orphan_pod_cleaned_volumes 0\nkubelet_desired_pods 5\n"), policy.Unknown, "1.27 and newer have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{
				"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod)), "/metrics": c.metrics,
			}))
			p, k := kubeletAt(t, s, testkit.CertOf(s))
			l := listing(p.of(t.Context(), k), nil)
			if f := l.podLists().Released(testkit.UIDAway); f.Truth != c.want || !strings.Contains(f.Detail, c.words) {
				t.Errorf("released: %+v, want %s with %q", f, c.want, c.words)
			}
			if v := judged(l, testkit.UIDAway, false); (v.Decision == policy.Reap) != (c.want == policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			l.podList.Whole = true // without the guard the later pod is lost
			if v := judged(l, testkit.UIDAway, false); v.Decision != policy.Reap {
				t.Errorf("without the doubt %s %v", v.Decision, v.Why)
			}
		})
	}
}

// TestKubeletSecure checks that the kubelet's own port is asked with a token, and that its list is complete if it has
// a pod of the API server's.
func TestKubeletSecure(t *testing.T) {
	for _, c := range []struct {
		name, pods           string
		quiet, away, static  policy.Truth // kubelet_lists
		released, staticGone policy.Truth // of uidAway, and of a static UID without a pod
		doubt                string
	}{
		{
			"whole", testkit.ListOf(testkit.HerePod, testkit.QuietPod, testkit.StaticPod), policy.Yes,
			policy.No, policy.Yes, policy.Yes, policy.Yes, "",
		},
		{
			"duplicates", testkit.ListOf(testkit.HerePod, testkit.HerePod, testkit.QuietPod, testkit.QuietPod),
			policy.Yes, policy.No, policy.No, policy.Yes, policy.Yes, "",
		},
		{
			"static pods alone", testkit.ListOf(testkit.StaticPod), policy.No, policy.No, policy.Yes, policy.Unknown,
			policy.Unknown, "no pod of the API server's",
		},
		{"no pods", testkit.EmptyList, policy.No, policy.No, policy.No, policy.Unknown, policy.Unknown, "no pod of the API server's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			paths := map[string]http.HandlerFunc{"/pods": func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer s3cret" {
					t.Errorf("request as %q", r.Header.Get("Authorization"))
				}
				testkit.Answer(c.pods)(w, r)
			}}
			s := testkit.TLSServer(t, "", testkit.Serve(paths))
			p, k := kubeletAt(t, s, testkit.CertOf(s))
			l := listing(p.of(t.Context(), k), nil)
			for uid, want := range map[parsers.PodUID]policy.Truth{testkit.UIDQuiet: c.quiet, testkit.UIDAway: c.away, testkit.StaticUID: c.static} {
				if f := l.podList.Fact(uid); f.Truth != want || f.Origin != s.URL+"/pods" {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.podLists().Released(testkit.UIDAway); f.Truth != c.released || !strings.Contains(f.Detail, c.doubt) {
				t.Errorf("released: %+v, want %s", f, c.released)
			}
			if f := l.podLists().Released(testkit.OtherStatic); f.Truth != c.staticGone {
				t.Errorf("static UID without a pod: released %+v, want %s", f, c.staticGone)
			}
			if v := judged(l, testkit.UIDAway, false); (v.Decision == policy.Reap) != (c.released == policy.Yes) {
				t.Errorf("%s %v", v.Decision, v.Why)
			}
			if l.podList.Err != nil {
				t.Error(l.podList.Err)
			}
			// An unreadable manifest may have any UID, also one that the kubelet does not list.
			l.static.Err = os.ErrPermission
			if f := l.podLists().Released(testkit.UIDAway); f.Truth == policy.Yes {
				t.Errorf("with unreadable manifests: %+v", f)
			}
			l.static = &policy.StaticPods{Unsure: "from a URL too"}
			if f := l.podLists().Released(testkit.UIDAway); f.Truth == policy.Yes {
				t.Errorf("with manifests from a URL: %+v", f)
			}
		})
	}
}

// TestPretender checks that another program at the kubelet's port, with another certificate, gets neither the token
// nor a request.
func TestPretender(t *testing.T) {
	asked := false
	list := testkit.Serve(map[string]http.HandlerFunc{"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod))})
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		asked = true
		list(w, r)
	})
	theirs, _ := testkit.NewCert(t, "kubelet", testkit.Later)
	p, k := kubeletAt(t, s, theirs)
	l := listing(p.of(t.Context(), k), nil)
	if asked || l.podList.Err == nil {
		t.Errorf("request to a server with another certificate: %t, %v", asked, l.podList.Err)
	}
	if f := l.podList.Fact(testkit.UIDQuiet); f.Truth != policy.Unknown || !strings.Contains(f.Detail, "another certificate") {
		t.Errorf("%+v", f)
	}
	if v := judged(l, testkit.UIDQuiet, false); v.Decision != policy.Keep {
		t.Errorf("%s %v", v.Decision, v.Why)
	}
	// The same response, if it came from the kubelet, releases the pod.
	p, k = kubeletAt(t, s, testkit.CertOf(s))
	if v := judged(listing(p.of(t.Context(), k), nil), testkit.UIDQuiet, false); v.Decision != policy.Reap || !asked {
		t.Errorf("without the comparison the verdict is %s %v", v.Decision, v.Why)
	}
}

func TestKubeletClientCertificate(t *testing.T) {
	cert, key := testkit.NewCert(t, "kube-apiserver-kubelet-client", testkit.Later)
	old, oldKey := testkit.NewCert(t, "kube-apiserver-kubelet-client", testkit.Noon.Add(-time.Hour))
	s := testkit.TLSServer(t, cert, testkit.Serve(map[string]http.HandlerFunc{"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod))}))
	for _, c := range []struct{ name, cert, key, want string }{
		{"two files", testkit.File(t, "c", cert), testkit.File(t, "k", key), ""},
		{"one file", testkit.File(t, "both", key+cert), "", ""},
		{"expired", testkit.File(t, "old", old+oldKey), "", "the client certificate expired at"},
		{"another key", testkit.File(t, "c", cert), testkit.File(t, "k", oldKey), "private key does not match"},
		{"missing", "/nowhere/c", "", "cannot read the client certificate: open /nowhere/c"},
		{"no certificate", testkit.File(t, "c", "x"), "", "failed to find any PEM data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newReader(Reader{KubeletClientCertificate: c.cert, KubeletClientKey: c.key})
			_, k := kubeletAt(t, s, testkit.CertOf(s))
			l := p.of(t.Context(), k)
			want := policy.Yes
			if c.want != "" {
				want = policy.Unknown
			}
			if f := l.Fact(testkit.UIDHere); f.Truth != want || !strings.Contains(f.Detail, c.want) || (l.Err != nil) != (c.want != "") {
				t.Errorf("%+v, %v", f, l.Err)
			}
		})
	}
}

// TestNothingIsKept checks that no connection is open between looks.
func TestNothingIsKept(t *testing.T) {
	s := httptest.NewUnstartedServer(testkit.Serve(map[string]http.HandlerFunc{
		"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod)), "/metrics": testkit.Answer(""),
	}))
	states := make(chan http.ConnState, 100)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	s.StartTLS()
	t.Cleanup(s.Close)
	p, k := kubeletAt(t, s, testkit.CertOf(s))
	if l := p.of(t.Context(), k); l.Err != nil {
		t.Fatal(l.Err)
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

// TestGaugeBeforeList checks that the gauge proves only a list that was requested after it: between the two requests
// a kubelet may receive its last pods, and its list may lack them.
func TestGaugeBeforeList(t *testing.T) {
	var taken atomic.Bool
	s := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{
		"/pods": func(w http.ResponseWriter, r *http.Request) {
			testkit.Answer(testkit.ListOf(testkit.HerePod))(w, r)
			taken.Store(true)
		},
		"/metrics": func(w http.ResponseWriter, r *http.Request) {
			text := "kubelet_orphan_pod_cleaned_volumes_errors 0\n"
			if taken.Load() {
				text += `kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"
			}
			testkit.Answer(text)(w, r)
		},
	}))
	p, k := kubeletAt(t, s, testkit.CertOf(s))
	for i, want := range []policy.Truth{policy.Unknown, policy.Yes} { // before the second look's list the gauge was set
		if f := listing(p.of(t.Context(), k), nil).podLists().Released(testkit.UIDAway); f.Truth != want {
			t.Errorf("look %d: released %+v, want %s", i+1, f, want)
		}
	}
}
