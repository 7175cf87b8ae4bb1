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

const acceptJSON = "application/json"

// KubeletAnswer has the pods that the kubelet lists.
type KubeletAnswer struct {
	reading.KubeletList
	Err error
}

// Endpoint returns the URL of the kubelet's port, as scheme, host and port, and a TLS configuration that
// accepts only the kubelet.
type Endpoint func(ctx context.Context) (base string, config *tls.Config, err error)

// Kubelet requests the kubelet's gauges and then its pods. endpoint is nil if no kubelet is known; origin
// describes the kubelet. Call it after the pods directory was listed.
func (r *Reader) Kubelet(ctx context.Context, origin string, endpoint Endpoint) *KubeletAnswer {
	switch {
	case endpoint == nil:
		return unlisted(origin, "no kubelet is known", nil)
	case r.KubeletTokenFile == "" && r.KubeletClientCertificate == "":
		return unlisted(origin, "no credentials were given for the kubelet's port (--kubelet-token-file, --kubelet-client-certificate)", nil)
	}
	base, config, err := endpoint(ctx)
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
	gauges, err := askGauges(ctx, a, base) // before the list: they may prove it complete
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

// login adds the client certificate to config, and returns the token.
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

// askPods keeps the listed pods also if the answer breaks off.
func (l *KubeletAnswer) askPods(ctx context.Context, a getter) {
	r := podReader{each: func(pod *listedPod) {
		l.Listed++
		pod.addTo(l.Pods)
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

// kubeletAdvice returns what to do about a refusal.
func kubeletAdvice(err error) string {
	switch {
	case kube.Refused(err, 401):
		return "; it does not accept these credentials (authentication.x509.clientCAFile, authentication.webhook of its configuration), " +
			"or could not ask the API server about a new token"
	case kube.Refused(err, 403):
		return "; the right to get nodes/proxy is missing, or from 1.33 on nodes/pods and nodes/metrics"
	}
	return ""
}
