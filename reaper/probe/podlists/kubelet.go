package podlists

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// acceptJSON is what we ask a kubelet for.
const acceptJSON = "application/json"

// KubeletAnswer is what the kubelet lists of its pods.
type KubeletAnswer struct {
	reading.KubeletList
	Err error
}

// Door returns where the kubelet is asked, as scheme, host and port, and a TLS configuration that
// accepts the kubelet only.
type Door func(ctx context.Context) (base string, config *tls.Config, err error)

// Kubelet asks the kubelet for its gauges and then for its pods; a nil door is that of a kubelet
// which is not known. It is asked after the listing, like everything else. origin describes it.
func (r *Reader) Kubelet(ctx context.Context, origin string, door Door) *KubeletAnswer {
	switch {
	case door == nil:
		return unlisted(origin, "no kubelet is known", nil)
	case !r.AsksKubelet():
		return unlisted(origin, "no credentials were given for the kubelet's port (--kubelet-token-file, --kubelet-client-certificate)", nil)
	}
	base, config, err := door(ctx)
	var token string
	if err == nil {
		token, err = bounded.Try(ctx, r.Guard, "kubelet's credentials", func() (string, error) { return r.login(config) })
	}
	if err != nil {
		return unlisted(origin, err.Error(), err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Guard.Limit(), bounded.ErrHangs)
	defer cancel()
	a := kube.NewAsker(base, token, config)
	defer a.Close()
	l := newPodList(base + "/pods")
	gauges, err := askGauges(ctx, a, base) // before the list, which it proves whole
	if l.Gauges = gauges; err != nil {
		l.Metrics = err.Error() + kubeletAdvice(err)
	}
	l.askPods(ctx, a)
	l.Weigh()
	return l
}

func newPodList(origin string) *KubeletAnswer {
	l := &KubeletAnswer{}
	l.Origin, l.Pods = origin, map[parsers.PodUID]bool{}
	return l
}

func unlisted(origin, why string, err error) *KubeletAnswer {
	l := &KubeletAnswer{Err: err}
	l.Origin, l.Silent = origin, "not asked: "+why
	l.Gauges.Detail = l.Silent
	l.Weigh()
	return l
}

// AsksKubelet reports whether the operator gave credentials for the kubelet's own port.
func (r *Reader) AsksKubelet() bool {
	return r.KubeletTokenFile != "" || r.KubeletClientCertificate != ""
}

// login adds the credentials that the operator gave to a way to the kubelet's own port.
func (r *Reader) login(config *tls.Config) (string, error) {
	if r.KubeletClientCertificate != "" {
		pair, err := kube.ClientPair(r.KubeletClientCertificate, r.KubeletClientKey, r.Now())
		if err != nil {
			return "", err
		}
		config.Certificates = []tls.Certificate{pair}
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
	l.Err = fmt.Errorf("cannot read the kubelet's pod list at %s: %w%s", l.Origin, err, kubeletAdvice(err))
}

// kubeletAdvice returns which right is missing.
func kubeletAdvice(err error) string {
	switch {
	case kube.Refused(err, 401):
		return "; it does not know these credentials (authentication.x509.clientCAFile, authentication.webhook of its configuration), " +
			"or could not ask the API server about a token, which it does on every new one"
	case kube.Refused(err, 403):
		return "; the right to get nodes/proxy is missing, or from 1.33 on nodes/pods and nodes/metrics"
	}
	return ""
}
