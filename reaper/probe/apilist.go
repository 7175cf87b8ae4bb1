package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// acceptMetadata asks for the pods' metadata alone, a tenth of their size, and takes whole
// pods from a server that knows no such thing (before 1.15).
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// podsAPage is how many pods one page of the list has; a node has 110, or a few hundred.
const (
	podsAPage = 500
	mostPages = 100
)

// apiList is what the API server says of the pods that are bound to this node.
//
// It is asked without a resourceVersion, so that the answer is as new as etcd
// (resourceVersion=0 would be a cache's, of any age), and only a list that was read to its
// end decides anything. An empty list, another node's and another cluster's look alike, and
// must let nothing go: see prove.
type apiList struct {
	origin string
	silent string // "", or why the server was not asked or did not answer
	node   string
	pods   map[parsers.PodUID]bool // by the names of their directories
	own    map[parsers.PodUID]bool // by their own UIDs, which no sandbox of a mirror pod has
	listed int
	// doubt says why the list is not known to be whole and this node's; "" where it is.
	doubt string
	err   error
}

// apiList asks the API server. It is asked after the listing, like everything else.
func (p *Probe) apiList(ctx context.Context, k *kubelet) *apiList {
	l := &apiList{origin: p.cfg.Kubeconfig, pods: map[parsers.PodUID]bool{}, own: map[parsers.PodUID]bool{}}
	if p.cfg.Kubeconfig == "" {
		l.silent = "not asked: no API server was named (--kubeconfig)"
		l.doubt = l.silent
		return l
	}
	type found struct {
		c   *kubeconfig
		err error
	}
	f, err := bounded.Do(ctx, p.guard, "kubeconfig", func() found {
		c, err := readKubeconfig(p.cfg.Kubeconfig, p.cfg.Clock.Now().Wall)
		return found{c, err}
	})
	if err == nil {
		err = f.err
	}
	if err == nil {
		l.node, err = p.nodeName(f.c, k)
	}
	if err != nil {
		l.fail("not asked", err)
		return l
	}
	l.origin = f.c.server.String() + ", node " + clean(l.node)
	ctx, cancel := context.WithTimeoutCause(ctx, p.guard.Limit(), bounded.ErrHangs)
	defer cancel()
	a := newAsker(strings.TrimSuffix(f.c.server.String(), "/"), f.c.token, f.c.tls)
	defer a.close()
	nameless, err := l.ask(ctx, a)
	switch {
	case err != nil:
		l.fail("not answered", fmt.Errorf("%w%s", err, l.advice(err, f.c.user)))
	case nameless > 0:
		l.doubt = "the API server's list has pods without a UID"
	}
	return l
}

func (l *apiList) fail(how string, err error) {
	l.silent = fmt.Sprintf("%s: %v", how, err)
	l.doubt = l.silent
	l.err = fmt.Errorf("cannot read the API server's list of pods (%s): %w", l.origin, err)
}

// nodeName returns the name under which the API server knows this node: the one that was
// set, that of the kubelet whose credentials we use, the one that the running kubelet was
// told, or this host's.
func (p *Probe) nodeName(c *kubeconfig, k *kubelet) (string, error) {
	if p.cfg.NodeName != "" {
		return p.cfg.NodeName, nil
	}
	if n := c.node(); n != "" {
		return n, nil
	}
	if k != nil {
		if n := k.flags.last("hostname-override"); n != "" {
			return strings.ToLower(strings.TrimSpace(n)), nil
		}
	}
	n, err := os.Hostname()
	if n = strings.ToLower(strings.TrimSpace(n)); err == nil && n == "" {
		err = errors.New("it has none")
	}
	if err != nil {
		return "", fmt.Errorf("cannot tell this host's name: %w; set --node-name", err)
	}
	return n, nil
}

// ask reads all pages. Where the server has forgotten a page's place (410), it begins again
// once; what was listed keeps its pod all the same.
func (l *apiList) ask(ctx context.Context, a *asker) (nameless int, err error) {
	for range 2 {
		l.listed = 0
		if nameless, err = l.pages(ctx, a); !refused(err, 410) {
			break
		}
	}
	return nameless, err
}

func (l *apiList) pages(ctx context.Context, a *asker) (nameless int, err error) {
	query := url.Values{"fieldSelector": {"spec.nodeName=" + l.node}, "limit": {fmt.Sprint(podsAPage)}}
	for range mostPages {
		r := podReader{each: func(pod *listedPod) {
			l.listed++
			pod.note(l.pods)
			if uid, ok := parsers.ParsePodUID(pod.Metadata.UID); ok {
				l.own[uid] = true
			}
			if pod.Metadata.UID == "" {
				nameless++
			}
		}}
		if err := a.get(ctx, "/api/v1/pods?"+query.Encode(), acceptMetadata, r.read); err != nil {
			return nameless, err
		}
		if r.more == "" {
			return nameless, nil
		}
		query.Set("continue", r.more)
	}
	return nameless, fmt.Errorf("the list does not end after %d pages", mostPages)
}

// advice says what a person can do about an error.
func (l *apiList) advice(err error, user string) string {
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case verify:
		return "; the file's certificate-authority does not know this server"
	case refused(err, 401):
		return "; it does not accept the credentials of " + clean(user)
	case refused(err, 403):
		return fmt.Sprintf("; %s needs the right to list pods with the field selector spec.nodeName=%s: "+
			"a node's own credentials have it (kubeadm: /etc/kubernetes/kubelet.conf), a service account by a ClusterRole", clean(user), clean(l.node))
	}
	return ""
}

// prove doubts the list unless it is shown to be this node's: it must have a pod that lives
// here, with a sandbox in the runtime and a cgroup in this kernel (the image of a disk that
// was copied has old sandboxes). A name that is not this node's has other pods or none, and
// so has another cluster's node of the same name.
//
// Mirror pods prove nothing: up to 1.20 the same manifest gives the same static UID on every
// node, and with a node of the same name in another cluster it still does.
func (l *apiList) prove(lives func(parsers.PodUID) bool) {
	if l.doubt != "" {
		return
	}
	for uid := range l.own {
		if lives(uid) {
			return
		}
	}
	l.doubt = fmt.Sprintf("the API server lists no pod that runs here (%d listed): is %s this node's name? set --node-name", l.listed, clean(l.node))
}

// fact says whether the list has the pod, which keeps it whatever node's the list is.
func (l *apiList) fact(uid parsers.PodUID) policy.Fact {
	f := policy.Fact{Origin: l.origin}
	switch {
	case l.pods[uid]:
		f.Truth, f.Detail = policy.Yes, "the API server binds it to this node"
	case l.doubt != "":
		f.Detail = l.doubt
	default:
		f.Truth, f.Detail = policy.No, fmt.Sprintf("%d pods listed", l.listed)
	}
	return f
}

// released says whether a list that is known to be whole came without the pod, from the
// kubelet or from the API server, and the manifests could be read.
//
// The manifests, because neither list shows that the kubelet's sources of static pods have
// delivered: a static pod whose manifest can be read is kept by the fact static_pod, and
// while one cannot, any UID may be one that it states. The API server's word alone lets no
// static pod go: its mirror may be made later, or refused by an admission plugin.
func (l *looking) released(uid parsers.PodUID) policy.Fact {
	k, a := l.podList, l.api
	switch {
	case k.pods[uid]:
		return policy.Fact{Truth: policy.No, Origin: k.origin, Detail: "the kubelet's pod list has it"}
	case a.pods[uid]:
		return policy.Fact{Truth: policy.No, Origin: a.origin, Detail: "the API server's list has it"}
	case l.static.err != nil:
		return policy.Fact{Origin: l.static.origin, Detail: l.static.err.Error()}
	case l.static.unsure != "":
		return policy.Fact{Origin: l.static.origin, Detail: l.static.unsure}
	case k.doubt == "":
		return policy.Fact{Truth: policy.Yes, Origin: k.origin, Detail: fmt.Sprintf("the kubelet's list of %d pods is whole and has it not", k.listed)}
	case a.doubt == "" && len(uid) != staticUIDLen:
		return policy.Fact{Truth: policy.Yes, Origin: a.origin, Detail: fmt.Sprintf("the list of %d pods is this node's and whole, and has it not", a.listed)}
	case a.doubt == "":
		return policy.Fact{Origin: a.origin, Detail: "the API server does not know every static pod"}
	}
	return policy.Fact{Detail: oneLine([]error{errors.New(k.doubt), errors.New(a.doubt)}).Error()}
}
