package probe

import (
	"fmt"
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
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// mirrorPod is a static pod as the kubelet lists it once the API server has its mirror: the
// mirror's own UID, and the static one in an annotation. ownedPod mentions a UID that is
// not its own.
const (
	mirrorPod = `{"metadata":{"uid":"11111111-2222-4333-8444-555555555555","annotations":{"kubernetes.io/config.hash":"` + string(staticUID) + `"}},"spec":{"x":[1,{}]}}`
	ownedPod  = `{"metadata":{"uid":"99999999-2222-4333-8444-555555555555","ownerReferences":[{"uid":"` + otherStatic + `"}]}}`
	plainPod  = `{"metadata":{"name":"web","uid":"` + string(apiUID) + `","annotations":null},"status":{}}`
	emptyList = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`
)

func listOf(pods ...string) string {
	return `{"kind":"PodList","apiVersion":"v1","metadata":{"a":[{}]},"items":[` + strings.Join(pods, ",") + "]}\n"
}

// listedBy asks a server of that handler as the kubelet's read-only port.
func listedBy(t *testing.T, patience time.Duration, h http.HandlerFunc) *podList {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}})
	must(t, err)
	p.guard.Patience = patience
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	must(t, err)
	k := kubeletOf(t, "--read-only-port="+port)
	return p.podList(t.Context(), k)
}

func TestPodList(t *testing.T) {
	all := listOf(mirrorPod, ownedPod, plainPod)
	for _, c := range []struct {
		name, text string
		api        policy.Truth // of a pod that is the last in the list, where it is whole
		static     policy.Truth
		err        string
	}{
		{"listed", all, policy.Yes, policy.Yes, ""},
		{"items before the kind", `{"items":[` + plainPod + `],"kind":"PodList"}`, policy.Yes, policy.No, ""},
		{"others listed", listOf(ownedPod), policy.No, policy.No, ""},
		{"many", listOf(slices.Repeat([]string{ownedPod, mirrorPod}, 40_000)...), policy.No, policy.Yes, ""}, // 10 MB
		{"no pods", listOf(), policy.No, policy.No, ""},
		{"null", emptyList, policy.No, policy.No, ""},
		{"cut off", all[:strings.Index(all, `"web"`)], policy.Unknown, policy.Yes, "unexpected EOF"},
		{"another kind", `{"kind":"NodeList","items":[]}`, policy.Unknown, policy.Unknown, `"NodeList"`},
		{"no object", `[]`, policy.Unknown, policy.Unknown, "no list of pods"},
		{"items are no list", `{"kind":"PodList","items":{}}`, policy.Unknown, policy.Unknown, "its items are no list"},
		{"a pod of another type", `{"kind":"PodList","items":[7]}`, policy.Unknown, policy.Unknown, "cannot unmarshal"},
		{"no JSON", "<html>", policy.Unknown, policy.Unknown, "invalid character"},
		{"no items", `{"kind":"PodList"}`, policy.Unknown, policy.Unknown, "without items"},
		{"nothing", "", policy.Unknown, policy.Unknown, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listedBy(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" {
					http.NotFound(w, r)
					return
				}
				if r.URL.Path != "/pods" || r.Method != http.MethodGet {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				_, _ = w.Write([]byte(c.text))
			})
			for uid, want := range map[parsers.PodUID]policy.Truth{apiUID: c.api, staticUID: c.static} {
				if f := l.Fact(uid); f.Truth != want || f.Detail == "" || !strings.HasPrefix(f.Origin, "http://127.0.0.1:") {
					t.Errorf("%s: %+v, want %s", uid, f, want)
				}
			}
			if f := l.Fact(otherStatic); f.Truth == policy.Yes {
				t.Errorf("an owner's UID counts: %+v", f)
			}
			if (l.err != nil) != (c.err != "") || c.err != "" && !strings.Contains(l.err.Error(), c.err) {
				t.Errorf("the error is %v, want %q", l.err, c.err)
			}
		})
	}
}

// endless writes the same again until the client has enough.
func endless(w http.ResponseWriter, text string) {
	for {
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
	}
}

func TestPodListNotAnswered(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"401 Unauthorized": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(listOf(plainPod)))
		},
		"302 Found": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/pods" && r.URL.Path != "/metrics" {
				t.Error("a redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"did not answer in time": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[`))
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			<-r.Context().Done() // until the client is gone
		},
		"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) { // a pod without end
			_, _ = w.Write([]byte(`{"kind":"PodList","items":["`))
			endless(w, strings.Repeat(" ", 1<<20))
		},
		"longer than": func(w http.ResponseWriter, _ *http.Request) { // a list without end
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[{}`))
			endless(w, `,{"x":"`+strings.Repeat(" ", 1<<20)+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			patience := time.Minute
			if strings.Contains(name, "time") {
				patience = 100 * time.Millisecond
			}
			l := listedBy(t, patience, h)
			if f := l.Fact(apiUID); f.Truth != policy.Unknown || !strings.Contains(f.Detail, name) {
				t.Errorf("%+v, want unknown with %q", f, name)
			}
			if l.err == nil {
				t.Error("nobody hears of it")
			}
		})
	}
	t.Run("no HTTP", func(t *testing.T) {
		for text, want := range map[string]string{
			"SSH-2.0-x\r\n": "malformed HTTP response", "HTTP/1.0 200 OK": "EOF",
			"HTTP/1.0 200 OK\r\n" + strings.Repeat("X: y\r\n", biggestHead): "exceeded",
		} {
			h, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			t.Cleanup(func() { _ = h.Close() })
			go func() {
				for {
					conn, err := h.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = conn.Write([]byte(text))
					_ = conn.Close()
				}
			}()
			p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}})
			must(t, err)
			_, port, err := net.SplitHostPort(h.Addr().String())
			must(t, err)
			l := p.podList(t.Context(), kubeletOf(t, "--read-only-port="+port))
			if l.err == nil || !strings.Contains(l.err.Error(), want) {
				t.Errorf("%.20q: %v, want %q", text, l.err, want)
			}
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		p, err := New(Config{NodeRoot: t.TempDir(), Clock: atNoon{}})
		must(t, err)
		l := p.podList(t.Context(), kubeletOf(t, "--read-only-port=1"))
		if f := l.Fact(apiUID); f.Truth != policy.Unknown || !strings.Contains(f.Detail, "connection refused") || l.err != nil {
			t.Errorf("%+v, %v", f, l.err)
		}
	})
}

// TestPodListInALook has a real process for the kubelet and another for its port: a pod of
// which nothing but a directory is there, and which the kubelet wants.
func TestPodListInALook(t *testing.T) {
	n, wantedPod, orphan := newNode(t), newUID(), newUID()
	n.mkdir(n.pod(wantedPod), n.pod(orphan))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, listOf(strings.ReplaceAll(plainPod, string(apiUID), string(wantedPod))))
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	n.symlink(self, "bin/kubelet")
	look := n.look()
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Unknown}))
	testkit.StartProcess(t, "idle", n.path("bin/kubelet"), "kubelet", "--root-dir", n.path("kubelet"), "--read-only-port="+port)
	look = n.look(policy.EntryState{Entry: string(wantedPod) + ".1", UID: wantedPod})
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Yes}))
	check(t, find(t, look, orphan), but(facts{policy.FactKubeletLists: policy.No}))
	check(t, look.Parked[0], facts{policy.FactKubeletLists: policy.Yes})
	s.Close()
	look = n.look()
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Unknown}))
	if len(look.Errors) > 0 {
		t.Errorf("an optional source that is gone is an error: %q", look.Errors)
	}
}
