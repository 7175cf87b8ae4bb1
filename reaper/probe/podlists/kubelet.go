package podlists

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
)

// acceptJSON is what we ask a kubelet for.
const acceptJSON = "application/json"

// KubeletAnswer is what the kubelet says of its pods.
type KubeletAnswer struct {
	lists.KubeletList
	Err error
}

// Door is where and how the kubelet is asked.
type Door struct {
	Base   string      // scheme, host and port
	TLS    *tls.Config // takes none but the kubelet; nil at the read-only port
	Silent string      // why there is none
	Err    error
}

// Kubelet asks the kubelet, for its gauges and then for its pods. It is asked after the
// listing, like everything else. origin tells people who it is.
func (r *Reader) Kubelet(ctx context.Context, origin string, d Door) *KubeletAnswer {
	var token string
	if d.Silent == "" && d.TLS != nil {
		type read struct {
			token string
			err   error
		}
		c, err := bounded.Do(ctx, r.Guard, "kubelet's credentials", func() read {
			token, err := r.login(d)
			return read{token, err}
		})
		if token, d.Err = c.token, cmp.Or(err, c.err); d.Err != nil {
			d.Silent = fmt.Sprintf("not asked: %v", d.Err)
		}
	}
	if d.Silent != "" {
		if !r.AsksKubelet() {
			d.Err = nil // its absence keeps nothing, and the other readers of the same file complain
		}
		return unlisted(origin, d.Silent, d.Err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Guard.Limit(), bounded.ErrHangs)
	defer cancel()
	a := kube.NewAsker(d.Base, token, d.TLS)
	defer a.Close()
	l := newPodList(d.Base+"/pods", d.TLS != nil)
	gauges, err := askGauges(ctx, a, d.Base) // before the list, which it proves whole
	if l.Gauges = gauges; err != nil {
		l.Metrics = err.Error() + kubeletAdvice(err)
	}
	l.askPods(ctx, a)
	if l.Proven {
		l.askRunning(ctx, a)
	}
	l.Weigh()
	return l
}

func newPodList(origin string, proven bool) *KubeletAnswer {
	l := &KubeletAnswer{}
	l.Origin, l.Proven, l.Pods, l.Wanted = origin, proven, map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}
	return l
}

func unlisted(origin, silent string, err error) *KubeletAnswer {
	l := &KubeletAnswer{Err: err}
	l.Origin, l.Silent, l.Gauges = origin, silent, policy.KubeletGauges{Detail: silent}
	l.Weigh()
	return l
}

// AsksKubelet says whether the operator gave credentials for the kubelet's own port.
func (r *Reader) AsksKubelet() bool {
	return r.KubeletTokenFile != "" || r.KubeletClientCertificate != ""
}

// login adds the credentials that the operator gave to a way to the kubelet's own port.
func (r *Reader) login(d Door) (string, error) {
	if r.KubeletClientCertificate != "" {
		pair, err := kube.ClientPair(r.KubeletClientCertificate, r.KubeletClientKey, r.Now())
		if err != nil {
			return "", err
		}
		d.TLS.Certificates = []tls.Certificate{pair}
	}
	if r.KubeletTokenFile == "" {
		return "", nil
	}
	return kube.ReadToken(r.KubeletTokenFile)
}

// askPods keeps what was listed even where the answer breaks off.
func (l *KubeletAnswer) askPods(ctx context.Context, a getter) {
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
	err := a.Get(ctx, "/pods", acceptJSON, r.read)
	l.More = r.more != ""
	if err == nil {
		return
	}
	l.Silent = fmt.Sprintf("not answered: %v", err)
	if l.Proven || !errors.Is(err, unix.ECONNREFUSED) { // the read-only port may be bound elsewhere
		l.Err = fmt.Errorf("cannot read the kubelet's pod list at %s: %w%s", l.Origin, err, kubeletAdvice(err))
	}
}

// kubeletAdvice says which right is missing.
func kubeletAdvice(err error) string {
	switch {
	case kube.Refused(err, 401):
		return "; it does not know these credentials (authentication.x509.clientCAFile, authentication.webhook of its configuration)"
	case kube.Refused(err, 403):
		return "; the right to get nodes/proxy is missing, or from 1.33 on nodes/pods and nodes/metrics"
	}
	return ""
}

// askRunning adds the pods that the kubelet finds in its runtime. Not everybody who may read
// /pods may read these: their absence is no doubt about the list.
func (l *KubeletAnswer) askRunning(ctx context.Context, a getter) {
	r := podReader{each: func(pod *listedPod) { pod.note(l.Pods) }}
	if err := a.Get(ctx, "/runningpods/", acceptJSON, r.read); err != nil {
		l.Running = fmt.Sprintf("/runningpods not answered: %v", err)
	}
}
