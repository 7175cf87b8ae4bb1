package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// acceptJSON is what we ask a kubelet for.
const acceptJSON = "application/json"

// podList is what the kubelet says of its pods: /pods has those that it wants to run, from
// all of its sources, and no orphans.
//
// At its read-only port, which most kubelets have not, anybody of this host may answer: the
// port is bound on one address, the kubelet may have died. So what is said there only ever
// keeps a pod, which is all that a liar could do with it. At its other port the kubelet has
// to show who it is (pinned), and its answer may let a pod go: see whole.
type podList struct {
	origin string
	silent string // "", or why the kubelet was not asked or did not answer
	pods   map[parsers.PodUID]bool
	listed int
	// wanted are those of /pods alone, and fromAPI how many of them came from the API server.
	wanted  map[parsers.PodUID]bool
	fromAPI int
	// doubt says why the list is not known to be whole; "" where it is.
	doubt   string
	running string // why /runningpods did not answer, "" where it did or was not asked
	gauges  policy.KubeletGauges
	err     error
}

// kubeletDoor is where and how the kubelet is asked.
type kubeletDoor struct {
	base   string
	token  string
	tls    *tls.Config // nil at the read-only port
	silent string      // why there is none
	err    error
}

// podList asks the kubelet, for its pods and then for its gauges. It is asked after the
// listing, like everything else.
func (p *Probe) podList(ctx context.Context, k *kubelet) *podList {
	if k == nil {
		return unlisted(p.cfg.ProcDir, "not asked: no kubelet is known", nil)
	}
	d, err := bounded.Do(ctx, p.guard, "kubelet's port", func() kubeletDoor { return p.kubeletDoor(k) })
	switch {
	case err != nil:
		d.err = err
		d.silent = fmt.Sprintf("not asked: cannot tell the kubelet's port: %v", err)
		fallthrough
	case d.silent != "":
		if !p.cfg.asksKubelet() {
			d.err = nil // its absence keeps nothing, and the other readers of the same file complain
		}
		return unlisted(k.String(), d.silent, d.err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.guard.Limit(), bounded.ErrHangs)
	defer cancel()
	a := newAsker(d.base, d.token, d.tls)
	defer a.close()
	l := &podList{origin: d.base + "/pods", pods: map[parsers.PodUID]bool{}}
	if d.tls == nil {
		l.doubt = "the read-only port does not prove that it is the kubelet's"
	}
	l.askPods(ctx, a, d.tls != nil)
	if d.tls != nil {
		l.askRunning(ctx, a)
	}
	gauges, err := askGauges(ctx, a)
	l.gauges = gauges
	l.settled(err)
	return l
}

func unlisted(origin, silent string, err error) *podList {
	return &podList{origin: origin, silent: silent, doubt: silent, gauges: policy.KubeletGauges{Detail: silent}, err: err}
}

// asksKubelet says whether the operator gave credentials for the kubelet's own port.
func (c *Config) asksKubelet() bool {
	return c.KubeletTokenFile != "" || c.KubeletClientCertificate != ""
}

// kubeletDoor finds where to ask: the port that asks who is there, where there are
// credentials for it; else the read-only port, where the kubelet was told one.
func (p *Probe) kubeletDoor(k *kubelet) (d kubeletDoor) {
	defer func() {
		if d.err != nil {
			d.silent = fmt.Sprintf("not asked: %v", d.err)
		}
	}()
	if p.cfg.asksKubelet() {
		d.err = d.secure(k, &p.cfg)
		return d
	}
	port, err := k.readOnlyPort()
	switch {
	case err != nil:
		d.err = fmt.Errorf("cannot tell the kubelet's read-only port: %w", err)
	case port == 0:
		d.silent = "not asked: the kubelet was told no read-only port, and we were given no credentials for its other one (--kubelet-token-file, --kubelet-client-certificate)"
	default:
		at, err := k.hostPort(port)
		d.base, d.err = "http://"+at, err
	}
	return d
}

func (d *kubeletDoor) secure(k *kubelet, c *Config) error {
	port, err := k.securePort()
	if err != nil {
		return fmt.Errorf("cannot tell the kubelet's port: %w", err)
	}
	at, err := k.hostPort(port)
	if err != nil {
		return err
	}
	d.base = "https://" + at
	leafs, files, err := k.servingLeafs()
	if err != nil {
		return fmt.Errorf("cannot tell the kubelet's certificate: %w", err)
	}
	d.tls = pinned(leafs, files)
	if c.KubeletClientCertificate != "" {
		pair, err := clientPair(c.KubeletClientCertificate, c.KubeletClientKey, c.Clock.Now().Wall)
		if err != nil {
			return err
		}
		d.tls.Certificates = []tls.Certificate{pair}
	}
	if c.KubeletTokenFile != "" {
		d.token, err = readToken(c.KubeletTokenFile)
	}
	return err
}

// askPods keeps what was listed even where the answer breaks off.
//
// When is the list known to be whole? The kubelet's pod manager holds what its sources have
// delivered: manifests, a URL, and the API server's pods. The last of them deliver nothing
// until the kubelet reaches the API server, and then everything at once: the reflector hands
// over complete states only (cache.UndeltaStore; a streamed list is gathered beforehand),
// PodConfig merges each as one SET. So one pod whose source is "api" shows that a whole list
// of them has come. (Mirror pods come from the API server too, but /pods does not list them.)
// That all of them are in the manager yet is for settled to say. The sources of static pods
// are read by ourselves: see released.
// Read in 1.21, 1.30 and 1.36: pkg/kubelet/config, pkg/kubelet/pod, kubelet_pods.go GetPods.
func (l *podList) askPods(ctx context.Context, a *asker, proven bool) {
	var nameless int
	l.wanted = map[parsers.PodUID]bool{}
	r := podReader{each: func(pod *listedPod) {
		l.listed++
		pod.note(l.pods)
		pod.note(l.wanted)
		if pod.Metadata.Annotations[cri.AnnotationSource] == "api" {
			l.fromAPI++
		}
		if pod.Metadata.UID == "" {
			nameless++
		}
	}}
	err := a.get(ctx, "/pods", acceptJSON, r.read)
	switch {
	case err != nil:
		l.silent = fmt.Sprintf("not answered: %v", err)
		l.doubt = l.silent
		if proven || !errors.Is(err, unix.ECONNREFUSED) { // the read-only port may be bound elsewhere
			l.err = fmt.Errorf("cannot read the kubelet's pod list at %s: %w%s", l.origin, err, kubeletAdvice(err))
		}
	case !proven:
	case r.more != "": // no kubelet does so; but then this is a part
		l.doubt = "the kubelet's list goes on elsewhere"
	case nameless > 0:
		l.doubt = "the kubelet's list has pods without a UID"
	case l.fromAPI == 0:
		l.doubt = "the kubelet's list has no pod of the API server's: its sources may not be ready"
	}
}

// settled doubts the list of a kubelet that may still be taking in what its sources have
// delivered. HandlePodAdditions puts one pod into the manager and admits it before it puts in
// the next, and to admit one may take for ever: a device plugin that is asked for its devices
// has no time limit (endpointImpl.allocate, kubernetes#129249). The pods behind it live, and after a reboot their
// directories may be all that there is of them. Only when the whole batch was taken in does
// the loop call a source ready, and only when all are does HandlePodCleanups run, which sets
// every series of kubelet_working_pods. Before the first time there is none.
//
// A kubelet before 1.27 has no such gauge. There the batch must have been taken in within the
// hold that lies between two looks.
func (l *podList) settled(err error) {
	switch {
	case l.doubt != "":
	case err != nil:
		l.doubt = fmt.Sprintf("it is not known whether the kubelet has taken in all of its pods since its start: /metrics not answered: %v%s", err, kubeletAdvice(err))
	case l.gauges.Uncleaned != nil && l.gauges.Working == nil:
		l.doubt = "the kubelet is still taking in its pods since its start: it has no kubelet_working_pods yet"
	}
}

// kubeletAdvice says which right is missing.
func kubeletAdvice(err error) string {
	switch {
	case refused(err, 401):
		return "; it does not know these credentials (authentication.x509.clientCAFile, authentication.webhook of its configuration)"
	case refused(err, 403):
		return "; the right to get nodes/proxy is missing, or from 1.33 on nodes/pods and nodes/metrics"
	}
	return ""
}

// askRunning adds the pods that the kubelet finds in its runtime. Not everybody who may read
// /pods may read these: their absence is no doubt about the list.
func (l *podList) askRunning(ctx context.Context, a *asker) {
	r := podReader{each: func(pod *listedPod) { pod.note(l.pods) }}
	if err := a.get(ctx, "/runningpods/", acceptJSON, r.read); err != nil {
		l.running = fmt.Sprintf("/runningpods not answered: %v", err)
	}
}

func (l *podList) fact(uid parsers.PodUID) policy.Fact {
	f := policy.Fact{Origin: l.origin}
	switch {
	case l.pods[uid]:
		f.Truth, f.Detail = policy.Yes, "the kubelet's pod list has it"
	case l.silent != "":
		f.Detail = l.silent
	default:
		f.Truth, f.Detail = policy.No, fmt.Sprintf("%d pods listed", l.listed)
		if l.running != "" {
			f.Detail += "; " + l.running
		}
	}
	return f
}

// readToken reads a bearer token, which its owner may replace at any time.
func readToken(file string) (string, error) {
	text, err := ourFiles.read(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token", file)
	}
	return token, nil
}
