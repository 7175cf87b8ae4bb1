package podlists

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// judged returns the verdict on a pod that is dead by all facts except the three of the lists, and that the kubelet
// has not reported, so the lists decide.
func judged(l *bothLists, uid parsers.PodUID, needAPI bool) policy.Verdict {
	now := policy.Instant{Wall: testkit.Noon, BootID: "boot", Boot: 10 * time.Hour}
	e := policy.Evidence{UID: uid, Name: string(uid), ID: policy.DirID{Dev: 1, Ino: 2}, Changed: testkit.Noon.Add(-2 * time.Hour)}
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

// listing is a look with the two lists only, on a node with readable manifests on which the pod of uidHere runs.
func listing(k *KubeletAnswer, a *APIAnswer) *bothLists {
	l := &bothLists{podList: k, api: a, static: &policy.StaticPods{}}
	if k == nil {
		l.podList = unlisted("", "", nil)
	}
	if a == nil {
		l.api = &APIAnswer{APIList: reading.APIList{PodList: reading.PodList{Silent: "not asked"}}}
	}
	l.api.Weigh(func(uid parsers.PodUID) bool { return uid == testkit.UIDHere })
	return l
}

// cutOff writes the beginning of a longer response and ends the connection.
func cutOff(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush() // chunked, without the last chunk
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

// badAnswer is a response that must prove nothing.
type badAnswer struct {
	name    string
	h       http.HandlerFunc
	want    string // part of the fact's detail
	patient bool   // false: the response hangs
}

// badAnswers are bad responses to the request for a list that contains quietPod and staticPod.
func badAnswers() []badAnswer {
	whole := testkit.ListOf(testkit.HerePod, testkit.QuietPod, testkit.StaticPod)
	cut := strings.Index(whole, testkit.QuietPod)
	return []badAnswer{
		{"401", testkit.Refuse(401, "Unauthorized"), "401 Unauthorized: Unauthorized", true},
		{"403", testkit.Refuse(403, `pods is forbidden: User \"bob\" cannot list resource`), `403 Forbidden: pods is forbidden: User "bob" cannot`, true},
		{"410", testkit.Refuse(410, "The provided continue parameter is too old"), "410 Gone", true},
		{"429", testkit.Refuse(429, "too many requests"), "429 Too Many Requests", true},
		{"500", testkit.Refuse(500, "etcdserver: no leader"), "500 Internal Server Error: etcdserver: no leader", true},
		{"503 with a list", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(testkit.ListOf(testkit.HerePod)))
		}, "503 Service Unavailable", true},
		{"redirect to a list", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/elsewhere") {
				_, _ = w.Write([]byte(testkit.ListOf(testkit.HerePod)))
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "302 Found", true},
		{"a login page", testkit.Answer("<!doctype html><title>log in</title>"), "invalid character", true},
		{"a success that is no list", testkit.Answer(`{"kind":"Status","status":"Success"}`), `not a list of pods: its kind is "Status"`, true},
		{"another list", testkit.Answer(`{"kind":"NodeList","items":[` + testkit.HerePod + `]}`), `"NodeList"`, true},
		{"no items", testkit.Answer(`{"kind":"PodList"}`), "without items", true},
		{"nothing", testkit.Answer(""), "EOF", true},
		{"cut off between pods", cutOff(whole[:cut]), "unexpected EOF", true},
		{"cut off in a pod", cutOff(whole[:cut+20]), "unexpected EOF", true},
		{"shorter than its length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte(whole[:cut]))
		}, "unexpected EOF", true},
		{"hangs in the list", hang(whole[:cut]), "did not answer in time", false},
		{"hangs before it", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer in time", false},
		{"a pod without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[` + testkit.HerePod + `,["`))
			endless(w, strings.Repeat(" ", 1<<20))
		}, "unexpected EOF", true},
		{"a list without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","items":[` + testkit.HerePod))
			endless(w, `,{"x":"`+strings.Repeat(" ", 1<<20)+`"}`)
		}, "longer than", true},
		{"a pod without a UID", testkit.Answer(testkit.ListOf(testkit.HerePod, testkit.NamelessPod)), "without a UID", true},
		{"a pod of another type", testkit.Answer(testkit.ListOf(testkit.HerePod, "7")), "cannot unmarshal", true},
		{"labels that are no labels", testkit.Answer(testkit.ListOf(testkit.HerePod, `{"metadata":{"uid":["x"]}}`)), "cannot unmarshal", true},
	}
}

// kubeletOf returns a kubelet on node-1 with the given arguments.
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

// bothLists is a look with the two lists only.
type bothLists struct {
	podList *KubeletAnswer
	api     *APIAnswer
	static  *policy.StaticPods
}

func (l *bothLists) podLists() *reading.PodLists {
	return &reading.PodLists{Kubelet: l.podList.KubeletList, API: l.api.APIList, Manifests: l.static.Origin, ManifestDoubt: l.static.Doubt()}
}

// newReader sets the tests' time limits.
func newReader(r Reader) *Reader {
	r.Now, r.Guard = func() time.Time { return testkit.Noon }, &bounded.Guard{}
	return &r
}

// of requests the list of a kubelet.
func (r *Reader) of(ctx context.Context, k *kubelet.Kubelet) *KubeletAnswer {
	found := kubelet.Reader{Guard: r.Guard}
	return r.Kubelet(ctx, k.String(), func(ctx context.Context) (string, *tls.Config, error) { return found.Endpoint(ctx, k) })
}
