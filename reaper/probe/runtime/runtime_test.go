package runtime

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	uidLive   parsers.PodUID = "02538aa4-66dd-4864-8b99-0107e22f160c"
	uidDone   parsers.PodUID = "1f0e8b6a-1111-4222-8333-944445555666"
	uidStatic parsers.PodUID = "541dfae681928ae5ecce3afd849bc260"
	uidDead   parsers.PodUID = "ffffffff-0000-4000-8000-000000000000"
)

// reader asks on a node without processes, so that no kubelet of the test machine interferes.
type reader struct {
	*Reader
	kubelet *kubelet.Reader
}

func newReader(t *testing.T, endpoint string) *reader {
	t.Helper()
	guard := &bounded.Guard{}
	k := &kubelet.Reader{ProcDir: testkit.ProcTree(t), RootDir: t.TempDir(), RuntimeEndpoint: endpoint, Guard: guard}
	now := func() time.Time { return testkit.Noon }
	return &reader{&Reader{Usual: cri.UsualSockets(t.TempDir()), Find: k.Sockets, Now: now, Guard: guard}, k}
}

// at makes the reader look for sockets at other paths.
func (r *reader) at(paths ...string) *reader {
	r.Usual = paths
	return r
}

func startCRI(t *testing.T, o fakecri.Options) *fakecri.Server {
	t.Helper()
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), o)
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	s.SetPods(
		fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0", Running: 1, Exited: 1, Created: testkit.Noon.Add(-3 * time.Hour).UnixNano()},
		fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job", NotReady: true, Exited: 1},
	)
	return s
}

func socketOf(s *fakecri.Server) string { return strings.TrimPrefix(s.Endpoint(), "unix://") }

// evidenceOf returns the evidence on one pod in the answer.
func evidenceOf(a Answer, uid parsers.PodUID) policy.Evidence {
	e := policy.Evidence{UID: uid}
	a.Fill(&e)
	return e
}

// wantTruths checks the sandbox and container facts of a pod.
func wantTruths(t *testing.T, a Answer, uid parsers.PodUID, sandbox, container policy.Truth) {
	t.Helper()
	e := evidenceOf(a, uid)
	for name, want := range map[policy.FactName]policy.Truth{policy.FactSandbox: sandbox, policy.FactContainer: container} {
		got := e.Facts[name]
		if got.Truth != want {
			t.Errorf("%s: %s is %s (%s), want %s", uid, name, got.Truth, got.Detail, want)
		}
		if got.Truth != policy.No && got.Detail == "" {
			t.Errorf("%s: %s is %s without a reason", uid, name, got.Truth)
		}
	}
}

func wantNoGRPC(t *testing.T) {
	t.Helper()
	var dump strings.Builder
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		dump.Reset()
		testkit.Must(t, pprof.Lookup("goroutine").WriteTo(&dump, 1))
		if !strings.Contains(dump.String(), "google.golang.org/grpc") && !strings.Contains(dump.String(), "reaper/cri.") {
			return
		}
	}
	t.Errorf("goroutines remain:\n%s", dump.String())
}

func TestAskRuntime(t *testing.T) {
	for _, version := range []fakecri.Version{fakecri.V1, fakecri.V1Alpha2} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			s := startCRI(t, fakecri.Options{Version: version})
			a := newReader(t, s.Endpoint()).Ask(t.Context())
			if a.Err != nil || a.Lists.Truth != policy.Yes || a.Lists.Detail != "2 sandboxes, 3 containers" || a.Origin != s.Endpoint() {
				t.Errorf("answer %+v", a)
			}
			wantTruths(t, a, uidLive, policy.Yes, policy.Yes)
			wantTruths(t, a, uidDone, policy.No, policy.No)
			wantTruths(t, a, uidDead, policy.No, policy.No)
			e := evidenceOf(a, uidLive)
			if e.Namespace != "shop" || e.PodName != "db-0" {
				t.Errorf("name %s/%s", e.Namespace, e.PodName)
			}
			if got := e.Facts[policy.FactSandbox].Detail; got != "sandbox sandbox-of-0 READY, created 3h ago" {
				t.Errorf("sandbox %q", got)
			}
			if got := e.Facts[policy.FactContainer].Detail; got != "container container-of RUNNING, created 3h ago" {
				t.Errorf("container %q", got)
			}
			if e := evidenceOf(a, uidDone); len(e.Sandboxes) != 1 || e.PodName != "job" {
				t.Errorf("stopped sandbox: %+v", e)
			}
			if version == fakecri.V1 && (s.Calls(fakecri.ListPodSandbox) != 1 || s.Calls(fakecri.ListContainers) != 1) {
				t.Errorf("%d and %d calls, want one each", s.Calls(fakecri.ListPodSandbox), s.Calls(fakecri.ListContainers))
			}
			if s.Filtered() {
				t.Error("a filter hides other states")
			}
			s.Close()
			wantNoGRPC(t)
		})
	}
}

// TestAskRuntimeFaults fails one list or both. The other list's pods stay known, and a pod that is not found after a
// failed list is unknown and never No.
func TestAskRuntimeFaults(t *testing.T) {
	unavailable := fakecri.Fault{Err: status.Error(codes.Unavailable, "containerd is not ready")}
	internal := fakecri.Fault{Err: status.Error(codes.Internal, "database is closed")}
	hang := fakecri.Fault{Hang: true}
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	for _, c := range []struct {
		name                string
		sandbox, container  fakecri.Fault
		liveSand, liveCont  policy.Truth
		deadSand, deadCont  policy.Truth
		lists               policy.Truth
		patience            time.Duration
		sandText, containTx string
	}{
		{"containers fail", fakecri.Fault{}, internal, yes, unknown, no, unknown, yes, time.Minute, "", "database is closed (Internal)"},
		{"sandboxes fail", internal, fakecri.Fault{}, unknown, yes, unknown, unknown, unknown, time.Minute, "database is closed", "database is closed"},
		{"both fail", unavailable, unavailable, unknown, unknown, unknown, unknown, unknown, time.Minute, "is not ready", "is not ready"},
		{"containers hang", fakecri.Fault{}, hang, yes, unknown, no, unknown, yes, 100 * time.Millisecond, "", "no answer in time"},
		{"sandboxes hang", hang, fakecri.Fault{}, unknown, yes, unknown, unknown, unknown, 100 * time.Millisecond, "no answer in time", ""},
		{
			"late",
			fakecri.Fault{Delay: time.Hour},
			fakecri.Fault{Delay: time.Hour},
			unknown, unknown, unknown, unknown, unknown,
			50 * time.Millisecond, "no answer in time", "no answer in time",
		},
		{"slow but in time", fakecri.Fault{Delay: 20 * time.Millisecond}, fakecri.Fault{}, yes, yes, no, no, yes, time.Minute, "", ""},
		{"dies between the lists", fakecri.Fault{Die: true}, fakecri.Fault{}, unknown, yes, unknown, unknown, unknown, time.Minute, "Unavailable", ""},
		{"dies at once", fakecri.Fault{}, fakecri.Fault{Die: true}, unknown, unknown, unknown, unknown, unknown, time.Minute, "Unavailable", "Unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startCRI(t, fakecri.Options{})
			s.SetFault(fakecri.ListPodSandbox, c.sandbox)
			s.SetFault(fakecri.ListContainers, c.container)
			r := newReader(t, s.Endpoint())
			r.Guard.Patience = c.patience
			a := r.Ask(t.Context())
			wantTruths(t, a, uidLive, c.liveSand, c.liveCont)
			wantTruths(t, a, uidDead, c.deadSand, c.deadCont)
			if a.Lists.Truth != c.lists {
				t.Errorf("lists %s, want %s", a.Lists.Truth, c.lists)
			}
			for err, want := range map[error]string{a.SandboxErr: c.sandText, a.ContainerErr: c.containTx} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
			s.Close()
			wantNoGRPC(t)
		})
	}
}

// TestAskRuntimeAnswersThatAreNotWhole cuts the connection at many byte positions: a dead pod is never No after a
// list that did not end.
func TestAskRuntimeAnswersThatAreNotWhole(t *testing.T) {
	var whole, cut int
	for after := 50; after < 4000; after += 150 {
		s := startCRI(t, fakecri.Options{CutAfter: after})
		a := newReader(t, s.Endpoint()).Ask(t.Context())
		e := evidenceOf(a, uidDead)
		for name, err := range map[policy.FactName]error{policy.FactSandbox: a.SandboxErr, policy.FactContainer: a.ContainerErr} {
			if err == nil {
				whole++
				continue
			}
			cut++
			if e.Facts[name].Truth != policy.Unknown {
				t.Errorf("cut after %d bytes: %s is %s", after, name, e.Facts[name].Truth)
			}
		}
		s.Close()
	}
	if whole == 0 || cut == 0 {
		t.Errorf("%d complete and %d cut responses, want some of both", whole, cut)
	}
	wantNoGRPC(t)
}

func TestAskRuntimeEmpty(t *testing.T) {
	s := startCRI(t, fakecri.Options{})
	s.SetPods()
	a := newReader(t, s.Endpoint()).Ask(t.Context())
	if a.Err != nil || a.Lists.Truth != policy.No || !strings.Contains(a.Lists.Detail, "--runtime-endpoint") {
		t.Errorf("answer %+v", a)
	}
	wantTruths(t, a, uidLive, policy.Unknown, policy.Unknown)

	// Without the guard every pod looks dead to a newly installed runtime.
	a.Lists.Truth = policy.Yes
	wantTruths(t, a, uidLive, policy.No, policy.No)
}

func TestAskRuntimeIdentity(t *testing.T) {
	labels := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	meta := func(uid string) *runtimeapi.PodSandboxMetadata {
		return &runtimeapi.PodSandboxMetadata{Uid: uid, Name: "p", Namespace: "n"}
	}
	known := fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job"}.Sandbox()
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	for _, c := range []struct {
		name       string
		sandboxes  []*runtimeapi.PodSandbox
		containers []*runtimeapi.Container
		uid        parsers.PodUID
		sand, cont policy.Truth
		detail     string // detail of Lists
	}{
		{"metadata without labels", []*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(string(uidLive))}}, nil, uidLive, yes, no, "2 sandboxes, 0 containers"},
		{
			"mirror pod: the hash is an alias",
			[]*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(string(uidLive)), Annotations: labels(cri.AnnotationHash, string(uidStatic))}},
			nil, uidStatic, yes, no, "2 sandboxes, 0 containers",
		},
		{
			"label and metadata differ: both live",
			[]*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(string(uidLive)), Labels: labels(cri.LabelUID, string(uidStatic))}},
			nil, uidLive, yes, no, "2 sandboxes, 0 containers",
		},
		{
			"duplicates",
			[]*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(string(uidLive))}, {Id: "a", Metadata: meta(string(uidLive))}},
			nil, uidLive, yes,
			no, "3 sandboxes, 0 containers",
		},
		{
			"container linked by its sandbox",
			[]*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(string(uidLive))}},
			[]*runtimeapi.Container{{Id: "k", PodSandboxId: "a"}},
			uidLive, yes, yes, "2 sandboxes, 1 container",
		},
		{
			"container whose sandbox is gone",
			nil,
			[]*runtimeapi.Container{{Id: "k", PodSandboxId: "gone", Labels: labels(cri.LabelUID, string(uidLive))}},
			uidLive, no, yes, "1 sandbox, 1 container",
		},
		{
			"of another",
			[]*runtimeapi.PodSandbox{{Id: "a"}},
			[]*runtimeapi.Container{{Id: "k", Labels: labels("app", "x")}},
			uidLive, no, no,
			"1 sandbox, 0 containers; 2 more are no pod's",
		},
		{
			"sandbox that lost its owner",
			[]*runtimeapi.PodSandbox{{Id: "a", Labels: labels(cri.LabelName, "p")}},
			nil, uidLive, unknown, no, "sandbox a (of 1) has the kubelet's labels but no pod UID: it may belong to any pod",
		},
		{
			"sandbox with the kubelet's annotation only",
			[]*runtimeapi.PodSandbox{{Id: "a", Annotations: labels("kubernetes.io/config.source", "api")}},
			nil,
			uidLive, unknown, no, "sandbox a (of 1) has the kubelet's labels but no pod UID: it may belong to any pod",
		},
		{
			"container that lost its owner", nil,
			[]*runtimeapi.Container{{Id: "k", Labels: labels("io.kubernetes.container.name", "c")}},
			uidLive, no, unknown,
			"1 sandbox, 0 containers",
		},
		{"a name that is no UID", []*runtimeapi.PodSandbox{{Id: "a\x1b[31m", Metadata: meta("../../etc")}}, nil, uidLive, no, no, "2 sandboxes, 0 containers"},
		{
			"other case is another pod",
			[]*runtimeapi.PodSandbox{{Id: "a", Metadata: meta(strings.ToUpper(string(uidLive)))}},
			nil, uidLive, no, no,
			"2 sandboxes, 0 containers",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startCRI(t, fakecri.Options{})
			s.SetSandboxes(append([]*runtimeapi.PodSandbox{known}, c.sandboxes...)...)
			s.SetContainers(c.containers...)
			a := newReader(t, s.Endpoint()).Ask(t.Context())
			if c.sand == unknown {
				// The list decides nothing; the container list would if Lists were yes.
				a.Lists.Truth = yes
			}
			wantTruths(t, a, c.uid, c.sand, c.cont)
			if a.Lists.Detail != c.detail {
				t.Errorf("lists %q, want %q", a.Lists.Detail, c.detail)
			}
		})
	}
}

func TestRuntimeTextsAreClean(t *testing.T) {
	c := newCensus(testkit.Noon)
	c.add(cri.Lists{Sandboxes: []*runtimeapi.PodSandbox{{
		Id:       "\x1b[31mred",
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uidLive), Name: "p\nFAKE", Namespace: "n"},
	}}})
	if got := c.pods[uidLive].sandboxTally.String(); got != `sandbox "\x1b[31mred" READY` {
		t.Errorf("text %q", got)
	}
	if name := c.pods[uidLive].Name; name != (policy.PodName{}) {
		t.Errorf("name %q", name)
	}
}

func TestAskRuntimeHugeAnswers(t *testing.T) {
	s := startCRI(t, fakecri.Options{})
	big := fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0"}.Sandbox()
	big.Annotations["note"] = strings.Repeat("x", 20<<20) // gRPC's own limit is 4 MiB
	s.SetSandboxes(big)
	s.SetContainers()
	a := newReader(t, s.Endpoint()).Ask(t.Context())
	wantTruths(t, a, uidLive, policy.Yes, policy.No)

	limited := cri.List(t.Context(), socketOf(s), time.Minute, 1<<20)
	if limited.SandboxErr == nil || limited.Sandboxes != nil || limited.ContainerErr != nil {
		t.Errorf("above the limit: %v, %d sandboxes", limited.SandboxErr, len(limited.Sandboxes))
	}
}

// TestAskRuntimeNamedSocket checks endpoints set by the operator that are not a runtime's.
func TestAskRuntimeNamedSocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	fifo := filepath.Join(dir, "fifo")
	testkit.Must(t, syscall.Mkfifo(fifo, 0o600))
	noCRI := startCRI(t, fakecri.Options{Version: fakecri.NoCRI})
	for endpoint, want := range map[string]string{
		"unix://" + file:                   "it is a regular file, not a socket",
		"unix://" + dir:                    "it is a directory, not a socket",
		"unix://" + fifo:                   "it is a FIFO, not a socket",
		"unix:///dev/null":                 "it is a device, not a socket",
		"unix://" + dir + "/missing":       "no such file or directory",
		"unix://" + testkit.StaleSocket(t): "connection refused",
		"tcp://127.0.0.1:1":                "is not unix:///PATH",
		"unix://relative":                  "is not unix:///PATH",
		noCRI.Endpoint():                   "does not speak CRI",
		"unix://" + testkit.MuteSocket(t, "HTTP/1.1 400 Bad Request\r\n\r\n"): "Unavailable",
	} {
		a := newReader(t, endpoint).Ask(t.Context())
		wantTruths(t, a, uidLive, policy.Unknown, policy.Unknown)
		if a.Err == nil || !strings.Contains(a.Err.Error(), want) || a.Lists.Truth != policy.Unknown || a.Lists.Detail == "" {
			t.Errorf("%s: %v, lists %+v, want %q", endpoint, a.Err, a.Lists, want)
		}
	}
}

// TestAskRuntimeMuteSocket checks a server that accepts connections and never responds, and one that does not accept:
// both take bounded time and leave nothing behind.
func TestAskRuntimeMuteSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unaccepted")
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	for _, path := range []string{testkit.MuteSocket(t, ""), path} {
		r := newReader(t, "unix://"+path)
		r.Guard.Patience = 50 * time.Millisecond
		a := r.Ask(t.Context())
		wantTruths(t, a, uidLive, policy.Unknown, policy.Unknown)
		wantNoGRPC(t)
	}
}

func TestAskRuntimeAuto(t *testing.T) {
	containerd, crio := startCRI(t, fakecri.Options{}), startCRI(t, fakecri.Options{Version: fakecri.V1Alpha2})
	crio.SetPods(fakecri.Pod{UID: string(uidStatic), Namespace: "kube-system", Name: "etcd"})
	empty := startCRI(t, fakecri.Options{})
	empty.SetPods()
	docker := startCRI(t, fakecri.Options{Version: fakecri.NoCRI})
	failing := startCRI(t, fakecri.Options{})
	failing.SetFault(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Unknown, "server is not initialized yet")})
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	alias := filepath.Join(t.TempDir(), "alias")
	testkit.Must(t, os.Symlink(socketOf(containerd), alias))
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	for _, c := range []struct {
		name       string
		paths      []string
		live, etcd policy.Truth // sandbox facts
		dead       policy.Truth // container fact of the dead pod
		lists      policy.Truth
		text       string // part of Lists.Detail
	}{
		{"one", []string{missing, socketOf(containerd)}, yes, no, no, yes, "2 sandboxes"},
		{"union", []string{socketOf(containerd), socketOf(crio)}, yes, yes, no, yes, "3 sandboxes"},
		{"one of two is empty", []string{socketOf(empty), socketOf(crio)}, no, yes, no, yes, "1 sandbox"},
		{"only an empty one", []string{socketOf(empty)}, unknown, unknown, unknown, no, "no sandbox of any pod"},
		{"the same by two paths", []string{socketOf(containerd), alias}, yes, no, no, yes, "2 sandboxes"},
		{"no CRI is ignored", []string{socketOf(docker), socketOf(containerd)}, yes, no, no, yes, "2 sandboxes"},
		{"a directory is ignored", []string{dir, socketOf(containerd)}, yes, no, no, yes, "2 sandboxes"},
		{"one refuses", []string{testkit.StaleSocket(t), socketOf(containerd)}, yes, unknown, unknown, unknown, "or remove the socket if nothing serves it"},
		{"one fails in one list", []string{socketOf(failing), socketOf(crio)}, yes, yes, unknown, yes, "3 sandboxes"},
		{"none", []string{missing, dir}, unknown, unknown, unknown, unknown, "no CRI socket found at " + missing},
		{"none but no CRI", []string{socketOf(docker)}, unknown, unknown, unknown, unknown, "no CRI socket found at "},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := containerd.Calls(fakecri.ListPodSandbox)
			a := newReader(t, "auto").at(c.paths...).Ask(t.Context())
			got := map[parsers.PodUID]policy.Truth{}
			for _, uid := range []parsers.PodUID{uidLive, uidStatic} {
				got[uid] = evidenceOf(a, uid).Facts[policy.FactSandbox].Truth
			}
			if want := map[parsers.PodUID]policy.Truth{uidLive: c.live, uidStatic: c.etcd}; !maps.Equal(got, want) {
				t.Errorf("sandboxes %v, want %v", got, want)
			}
			if got := evidenceOf(a, uidDead).Facts[policy.FactContainer].Truth; got != c.dead {
				t.Errorf("dead pod's container %s, want %s", got, c.dead)
			}
			if a.Lists.Truth != c.lists || !strings.Contains(a.Lists.Detail, c.text) {
				t.Errorf("lists %+v, want %s with %q", a.Lists, c.lists, c.text)
			}
			if calls := containerd.Calls(fakecri.ListPodSandbox) - before; calls > 1 {
				t.Errorf("%d calls to one socket", calls)
			}
		})
	}
}

// TestAskRuntimeAsTheKubeletDoes checks that if the kubelet's command line has a socket, only that one is asked, and
// it must respond.
func TestAskRuntimeAsTheKubeletDoes(t *testing.T) {
	theirs, other := startCRI(t, fakecri.Options{}), startCRI(t, fakecri.Options{})
	r := newReader(t, "")
	testkit.AddProc(t, r.kubelet.ProcDir, testkit.FakeProc{PID: 42, Comm: "kubelet", Args: []string{
		"/usr/bin/kubelet", "--root-dir=" + r.kubelet.RootDir, "--container-runtime-endpoint", theirs.Endpoint(),
	}})
	a := r.at(socketOf(other)).Ask(t.Context())
	if a.Origin != theirs.Endpoint() || other.Calls(fakecri.ListPodSandbox) != 0 {
		t.Errorf("asked %s, want %s only", a.Origin, theirs.Endpoint())
	}
	theirs.Close()
	a = r.at(socketOf(other)).Ask(t.Context())
	wantTruths(t, a, uidDead, policy.Unknown, policy.Unknown)
	if !strings.Contains(fmt.Sprint(a.Err), "named by the kubelet (PID 42)") {
		t.Errorf("error %v", a.Err)
	}
}

func TestAskRuntimeNotAsked(t *testing.T) {
	s := startCRI(t, fakecri.Options{})
	r := newReader(t, s.Endpoint())
	wantTruths(t, r.Ask(t.Context()), uidLive, policy.Yes, policy.Yes)
	r.Silent = true
	a := r.Ask(t.Context())
	wantTruths(t, a, uidLive, policy.Unknown, policy.Unknown)
	if a.Err != nil || a.Sockets != nil || s.Calls(fakecri.ListPodSandbox) != 1 {
		t.Errorf("error %v of a setting, or sockets were asked: %v", a.Err, a.Sockets)
	}
}
