package podlists

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// listedBy asks a server of that handler as the kubelet's read-only port.
func listedBy(t *testing.T, patience time.Duration, h http.HandlerFunc) *KubeletAnswer {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p := newReader(Reader{})
	p.Guard.Patience = patience
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	testkit.Must(t, err)
	k := kubeletOf(t, "--read-only-port="+port)
	return p.of(t.Context(), k)
}

func TestPodList(t *testing.T) {
	all := testkit.ListOf(testkit.MirrorPod, testkit.OwnedPod, testkit.PlainPod)
	for _, c := range []struct {
		name, text string
		api        policy.Truth // of a pod that is the last in the list, where it is whole
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
			for uid, want := range map[parsers.PodUID]policy.Truth{testkit.APIUID: c.api, testkit.StaticUID: c.static} {
				if f := l.Fact(uid); f.Truth != want || f.Detail == "" || !strings.HasPrefix(f.Origin, "http://127.0.0.1:") {
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
			_, _ = w.Write([]byte(testkit.ListOf(testkit.PlainPod)))
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
			if f := l.Fact(testkit.APIUID); f.Truth != policy.Unknown || !strings.Contains(f.Detail, name) {
				t.Errorf("%+v, want unknown with %q", f, name)
			}
			if l.Err == nil {
				t.Error("nobody hears of it")
			}
		})
	}
	t.Run("no HTTP", func(t *testing.T) {
		for text, want := range map[string]string{
			"SSH-2.0-x\r\n": "malformed HTTP response", "HTTP/1.0 200 OK": "EOF",
			"HTTP/1.0 200 OK\r\n" + strings.Repeat("X: y\r\n", 64<<10): "exceeded",
		} {
			h, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.Must(t, err)
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
			p := newReader(Reader{})
			_, port, err := net.SplitHostPort(h.Addr().String())
			testkit.Must(t, err)
			l := p.of(t.Context(), kubeletOf(t, "--read-only-port="+port))
			if l.Err == nil || !strings.Contains(l.Err.Error(), want) {
				t.Errorf("%.20q: %v, want %q", text, l.Err, want)
			}
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		p := newReader(Reader{})
		l := p.of(t.Context(), kubeletOf(t, "--read-only-port=1"))
		if f := l.Fact(testkit.APIUID); f.Truth != policy.Unknown || !strings.Contains(f.Detail, "connection refused") || l.Err != nil {
			t.Errorf("%+v, %v", f, l.Err)
		}
	})
}
