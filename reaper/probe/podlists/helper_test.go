package podlists

import (
	"context"
	"crypto/tls"
	"net/http"
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
