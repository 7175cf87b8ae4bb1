package probe

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// certOf is the certificate that the server presents.
func certOf(s *httptest.Server) string { return testkit.PEM("CERTIFICATE", s.Certificate().Raw) }

// tlsServer is a server with TLS that lets in only who has the client certificate, where one
// is named.
func tlsServer(t *testing.T, client string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if client != "" {
		s.TLS.ClientCAs = x509.NewCertPool()
		s.TLS.ClientCAs.AppendCertsFromPEM([]byte(client))
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// file writes a file of the test's own directory.
func file(t *testing.T, name, text string) string {
	t.Helper()
	return testkit.WriteText(t, filepath.Join(t.TempDir(), name), text)
}

func portOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	must(t, err)
	return port
}

// later is when the tests' good certificates end.
var later = noon.AddDate(50, 0, 0)

// judged is what the rules say of a pod of which all but the three facts of the lists says
// dead, and which the kubelet has never named: whether it goes is up to the lists.
func judged(l *gathering, uid parsers.PodUID, needAPI bool) policy.Verdict {
	now := policy.Instant{Wall: noon, BootID: "boot", Boot: 10 * time.Hour}
	e := policy.Evidence{UID: uid, Name: string(uid), ID: policy.DirID{Dev: 1, Ino: 2}, Changed: noon.Add(-2 * time.Hour)}
	for f := range policy.NumFacts {
		e.Facts.Set(f, policy.No, "", "")
	}
	e.Facts[policy.FactDirectory].Truth, e.Facts[policy.FactContent].Truth = policy.Yes, policy.Yes
	e.Facts[policy.FactKubeletLists], e.Facts[policy.FactAPILists] = l.podList.Fact(uid), l.api.Fact(uid)
	e.Facts[policy.FactReleased] = l.podLists().Released(uid)
	node := policy.Node{
		Kubelet: policy.Fact{Truth: policy.Yes}, KubeletID: policy.KubeletID{PID: 7, Start: time.Minute},
		RuntimeLists: policy.Fact{Truth: policy.Yes}, MayEnforce: policy.Fact{Truth: policy.Yes}, Agrees: policy.Fact{Truth: policy.Yes},
	}
	hold := policy.Hold{Since: policy.Instant{BootID: "boot", Boot: time.Hour}, ID: e.ID}
	return policy.Judge(e, node, hold, policy.Rules{Hold: time.Minute, Settle: time.Minute, NeedAPI: needAPI}, now)
}

// lists is a look that has nothing but the two lists, at a node whose manifests could be
// read and which has the pod of uidHere running.
func lists(k *podList, a *apiList) *gathering {
	l := &gathering{podList: k, api: a, static: &kubelet.StaticPods{}}
	if k == nil {
		l.podList = unlisted("", "not asked", nil)
	}
	if a == nil {
		l.api = &apiList{APIList: policy.APIList{PodList: policy.PodList{Silent: "not asked"}}}
	}
	l.api.Weigh(func(uid parsers.PodUID) bool { return uid == uidHere })
	return l
}

// The pods of these tests: one that plainly runs here, and one of which nothing but the
// lists knows.
const (
	uidHere   = parsers.PodUID("aaaaaaaa-1111-4222-8333-444444444444")
	uidAway   = parsers.PodUID("bbbbbbbb-1111-4222-8333-444444444444")
	uidQuiet  = apiUID
	herePod   = `{"metadata":{"name":"here","namespace":"a","uid":"` + string(uidHere) + `","annotations":{"kubernetes.io/config.source":"api"}}}`
	awayPod   = `{"metadata":{"name":"away","namespace":"a","uid":"` + string(uidAway) + `"}}`
	quietPod  = `{"metadata":{"name":"quiet","namespace":"a","uid":"` + string(uidQuiet) + `","annotations":{"kubernetes.io/config.source":"api"}}}`
	staticPod = `{"metadata":{"name":"etcd-node-1","namespace":"kube-system","uid":"` + string(staticUID) +
		`","annotations":{"kubernetes.io/config.hash":"` + string(staticUID) + `","kubernetes.io/config.source":"file"}}}`
	namelessPod = `{"metadata":{"name":"quiet","namespace":"a"}}`
)

// answer writes one text, and says what it is.
func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
}

// cutOff writes the beginning of a longer answer and ends the connection.
func cutOff(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush() // chunked, and the last chunk does not come
		panic(http.ErrAbortHandler)
	}
}

// hang writes the beginning and then nothing until the client is gone.
func hang(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// refuse answers as an API server does.
func refuse(code int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","items":[]}`))
	}
}

// badAnswer is an answer of which nothing must be concluded.
type badAnswer struct {
	name    string
	h       http.HandlerFunc
	want    string // in the fact's detail
	patient bool   // false: it hangs
}

// badAnswers to the question for a list in which quietPod and staticPod are.
func badAnswers() []badAnswer {
	whole := listOf(herePod, quietPod, staticPod)
	cut := strings.Index(whole, quietPod)
	return []badAnswer{
		{"401", refuse(401, "Unauthorized"), "401 Unauthorized: Unauthorized", true},
		{"403", refuse(403, `pods is forbidden: User \"bob\" cannot list resource`), `403 Forbidden: pods is forbidden: User "bob" cannot`, true},
		{"410", refuse(410, "The provided continue parameter is too old"), "410 Gone", true},
		{"429", refuse(429, "too many requests"), "429 Too Many Requests", true},
		{"500", refuse(500, "etcdserver: no leader"), "500 Internal Server Error: etcdserver: no leader", true},
		{"503 with a list", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(listOf(herePod)))
		}, "503 Service Unavailable", true},
		{"redirect to a list", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/elsewhere") {
				_, _ = w.Write([]byte(listOf(herePod)))
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "302 Found", true},
		{"a login page", answer("<!doctype html><title>log in</title>"), "invalid character", true},
		{"a success that is no list", answer(`{"kind":"Status","status":"Success"}`), `no list of pods but "Status"`, true},
		{"another list", answer(`{"kind":"NodeList","items":[` + herePod + `]}`), `"NodeList"`, true},
		{"no items", answer(`{"kind":"PodList"}`), "without items", true},
		{"nothing", answer(""), "EOF", true},
		{"cut off between pods", cutOff(whole[:cut]), "unexpected EOF", true},
		{"cut off in a pod", cutOff(whole[:cut+20]), "unexpected EOF", true},
		{"shorter than said", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte(whole[:cut]))
		}, "unexpected EOF", true},
		{"hangs in the list", hang(whole[:cut]), "did not answer in time", false},
		{"hangs before it", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer in time", false},
		{"a pod without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[` + herePod + `,["`))
			endless(w, strings.Repeat(" ", 1<<20))
		}, "unexpected EOF", true},
		{"a list without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[` + herePod))
			endless(w, `,{"x":"`+strings.Repeat(" ", 1<<20)+`"}`)
		}, "longer than", true},
		{"a pod without a UID", answer(listOf(herePod, namelessPod)), "without a UID", true},
		{"a pod of another type", answer(listOf(herePod, "7")), "cannot unmarshal", true},
		{"labels that are no labels", answer(listOf(herePod, `{"metadata":{"uid":["x"]}}`)), "cannot unmarshal", true},
	}
}

// kubeletOf finds a kubelet on node-1 with the arguments given.
func kubeletOf(t *testing.T, args ...string) *kubelet.Kubelet {
	t.Helper()
	root := t.TempDir()
	args = append([]string{"kubelet", "--hostname-override=Node-1", "--root-dir=" + root}, args...)
	r := kubelet.Reader{
		ProcDir: testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: "kubelet", Args: args}), RootDir: root, Guard: &bounded.Guard{},
	}
	a := r.Find(t.Context())
	if a.Running == nil {
		t.Fatal(a.Runs.Detail)
	}
	return a.Running
}
