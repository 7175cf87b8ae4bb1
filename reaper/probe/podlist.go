package probe

import (
	"cmp"
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
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
)

// acceptJSON is what we ask a kubelet for.
const acceptJSON = "application/json"

// podList is what the kubelet says of its pods.
type podList struct {
	policy.KubeletList
	err error
}

// podList asks the kubelet, for its pods and then for its gauges. It is asked after the
// listing, like everything else.
func (p *Probe) podList(ctx context.Context, k *kubelet.Kubelet) *podList {
	if k == nil {
		return unlisted(p.cfg.ProcDir, "not asked: no kubelet is known", nil)
	}
	d := p.kubelets().Door(ctx, k, p.cfg.asksKubelet())
	var token string
	if d.Silent == "" && d.TLS != nil {
		type read struct {
			token string
			err   error
		}
		r, err := bounded.Do(ctx, p.guard, "kubelet's credentials", func() read {
			token, err := p.login(d)
			return read{token, err}
		})
		if token, d.Err = r.token, cmp.Or(err, r.err); d.Err != nil {
			d.Silent = fmt.Sprintf("not asked: %v", d.Err)
		}
	}
	if d.Silent != "" {
		if !p.cfg.asksKubelet() {
			d.Err = nil // its absence keeps nothing, and the other readers of the same file complain
		}
		return unlisted(k.String(), d.Silent, d.Err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.guard.Limit(), bounded.ErrHangs)
	defer cancel()
	a := newAsker(d.Base, token, d.TLS)
	defer a.close()
	l := newPodList(d.Base+"/pods", d.TLS != nil)
	l.askPods(ctx, a)
	if l.Proven {
		l.askRunning(ctx, a)
	}
	gauges, err := askGauges(ctx, a)
	if l.Gauges = gauges; err != nil {
		l.Metrics = err.Error() + kubeletAdvice(err)
	}
	l.Weigh()
	return l
}

func newPodList(origin string, proven bool) *podList {
	l := &podList{}
	l.Origin, l.Proven, l.Pods, l.Wanted = origin, proven, map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}
	return l
}

func unlisted(origin, silent string, err error) *podList {
	l := &podList{err: err}
	l.Origin, l.Silent, l.Gauges = origin, silent, policy.KubeletGauges{Detail: silent}
	l.Weigh()
	return l
}

// asksKubelet says whether the operator gave credentials for the kubelet's own port.
func (c *Config) asksKubelet() bool {
	return c.KubeletTokenFile != "" || c.KubeletClientCertificate != ""
}

// login adds the credentials that the operator gave to a way to the kubelet's own port.
func (p *Probe) login(d kubelet.Door) (string, error) {
	c := &p.cfg
	if c.KubeletClientCertificate != "" {
		pair, err := clientPair(c.KubeletClientCertificate, c.KubeletClientKey, c.Clock.Now().Wall)
		if err != nil {
			return "", err
		}
		d.TLS.Certificates = []tls.Certificate{pair}
	}
	if c.KubeletTokenFile == "" {
		return "", nil
	}
	return readToken(c.KubeletTokenFile)
}

// askPods keeps what was listed even where the answer breaks off.
func (l *podList) askPods(ctx context.Context, a *asker) {
	r := podReader{each: func(pod *listedPod) {
		l.Listed++
		pod.note(l.Pods)
		pod.note(l.Wanted)
		if pod.Metadata.Annotations[cri.AnnotationSource] == "api" {
			l.FromAPI++
		}
		if pod.Metadata.UID == "" {
			l.Nameless++
		}
	}}
	err := a.get(ctx, "/pods", acceptJSON, r.read)
	l.More = r.more != ""
	if err == nil {
		return
	}
	l.Silent = fmt.Sprintf("not answered: %v", err)
	if l.Proven || !errors.Is(err, unix.ECONNREFUSED) { // the read-only port may be bound elsewhere
		l.err = fmt.Errorf("cannot read the kubelet's pod list at %s: %w%s", l.Origin, err, kubeletAdvice(err))
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
	r := podReader{each: func(pod *listedPod) { pod.note(l.Pods) }}
	if err := a.get(ctx, "/runningpods/", acceptJSON, r.read); err != nil {
		l.Running = fmt.Sprintf("/runningpods not answered: %v", err)
	}
}

// readToken reads a bearer token, which its owner may replace at any time.
func readToken(file string) (string, error) {
	text, err := readNamed(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token", file)
	}
	return token, nil
}
