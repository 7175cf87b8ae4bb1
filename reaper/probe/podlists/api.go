package podlists

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// acceptMetadata requests only the pods' metadata, a tenth of their size, or complete pods from a server
// before 1.15.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + acceptJSON

const (
	podsAPage = 500 // a node has 110, or a few hundred
	mostPages = 100
)

// APIAnswer has the pods that are bound to this node according to the API server. The request has no
// resourceVersion, so the answer is as new as etcd (one with resourceVersion=0 would come from a cache,
// of any age). Only a complete list decides anything: see reading.APIList.
type APIAnswer struct {
	reading.APIList
	Err error
}

// API requests the list of the API server; node is the name of this node in the kubelet's configuration.
func (r *Reader) API(ctx context.Context, node string) *APIAnswer {
	l := newAPIList(r.Kubeconfig)
	if r.Kubeconfig == "" {
		l.Silent = "not asked: no API server was named (--kubeconfig)"
		return l
	}
	c, err := r.server(ctx)
	if err == nil {
		l.Node, err = r.nodeName(c, node)
	}
	if err != nil {
		l.fail("not asked", err)
		return l
	}
	l.Origin = c.Base + ", node " + clean.Name(l.Node)
	ctx, cancel := context.WithTimeoutCause(ctx, r.Guard.Limit(), bounded.ErrHangs)
	defer cancel()
	defer c.Close()
	if err := l.ask(ctx, c); err != nil {
		l.fail("not answered", fmt.Errorf("%w%s", err, l.advice(err, c.User)))
	}
	return l
}

// server reads the kubeconfig.
func (r *Reader) server(ctx context.Context) (*kube.Server, error) {
	return bounded.Try(ctx, r.Guard, "kubeconfig", func() (*kube.Server, error) { return kube.ReadConfig(r.Kubeconfig, r.Now()) })
}

func newAPIList(origin string) *APIAnswer {
	l := &APIAnswer{}
	l.Origin, l.Pods, l.Own = origin, map[parsers.PodUID]bool{}, map[parsers.PodUID]bool{}
	return l
}

func (l *APIAnswer) fail(how string, err error) {
	l.Silent = fmt.Sprintf("%s: %v", how, err)
	l.Err = fmt.Errorf("cannot read the API server's list of pods (%s): %w", l.Origin, err)
}

// nodeName returns this node's name at the API server, from the settings, the credentials, the configuration of the
// running kubelet, or this host.
func (r *Reader) nodeName(c *kube.Server, configured string) (string, error) {
	if r.NodeName != "" {
		return r.NodeName, nil
	}
	if n := c.Node(); n != "" {
		return n, nil
	}
	if configured != "" {
		return configured, nil
	}
	n, err := os.Hostname()
	if n = strings.ToLower(strings.TrimSpace(n)); err == nil && n == "" {
		err = errors.New("it has none")
	}
	if err != nil {
		return "", fmt.Errorf("cannot find this host's name: %w; set --node-name", err)
	}
	return n, nil
}

// ask reads all pages. If the continue token has expired (410), it begins again once. The pods that
// were listed before are kept.
func (l *APIAnswer) ask(ctx context.Context, a getter) (err error) {
	for range 2 {
		l.Listed, l.Nameless = 0, 0
		if err = l.pages(ctx, a); !kube.Refused(err, 410) {
			break
		}
	}
	return err
}

func (l *APIAnswer) pages(ctx context.Context, a getter) error {
	query := url.Values{"fieldSelector": {"spec.nodeName=" + l.Node}, "limit": {fmt.Sprint(podsAPage)}}
	for range mostPages {
		pods := podReader{each: func(pod *listedPod) {
			l.Listed++
			pod.addTo(l.Pods)
			if uid, ok := parsers.ParsePodUID(pod.Metadata.UID); ok {
				l.Own[uid] = true
			}
			if pod.Metadata.UID == "" {
				l.Nameless++
			}
		}}
		if err := a.Get(ctx, "/api/v1/pods?"+query.Encode(), acceptMetadata, pods.read); err != nil {
			return err
		}
		if pods.more == "" {
			return nil
		}
		query.Set("continue", pods.more)
	}
	return fmt.Errorf("the list does not end after %d pages", mostPages)
}

// advice returns what an operator can do about an error.
func (l *APIAnswer) advice(err error, user string) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case unknown:
		return "; the file's certificate-authority does not verify this server's certificate"
	case kube.Refused(err, 401):
		return "; it does not accept the credentials of " + clean.Name(user)
	case kube.Refused(err, 403):
		return fmt.Sprintf("; %s needs the right to list pods with the field selector spec.nodeName=%s: "+
			"a node's own credentials have it (kubeadm: /etc/kubernetes/kubelet.conf), a service account by a ClusterRole", clean.Name(user), clean.Name(l.Node))
	}
	return ""
}
