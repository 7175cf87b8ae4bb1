package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Service names the Service of the daemons.
type Service struct{ Namespace, Name string }

// ParseService parses NAMESPACE/NAME.
func ParseService(text string) (Service, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Service{}, fmt.Errorf("%q is not a Service: write NAMESPACE/NAME", text)
	}
	return Service{namespace, name}, nil
}

// Host returns the name that the daemons' certificates have: their addresses are not known when a certificate is made.
func (s Service) Host() string { return s.Name + "." + s.Namespace + ".svc" }

// Daemons returns the daemons behind a Service, by its EndpointSlices: also those that are not ready. kubeconfig is a file;
// with "" it is $KUBECONFIG, ~/.kube/config, or the pod's service account.
func Daemons(ctx context.Context, kubeconfig string, service Service) ([]Target, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // its own text names a variable that nobody sets
		err = errors.New("there is no kubeconfig, and no service account of a pod")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the API server; name it by --kubeconfig: %w", err)
	}
	config.Timeout = pageTime
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	list := base.JoinPath("apis/discovery.k8s.io/v1/namespaces", service.Namespace, "endpointslices")
	var found endpoints
	for again := 0; ; again++ {
		found = endpoints{byPod: map[string]int{}}
		err = found.read(ctx, client, list, service.Name)
		if status, ok := errors.AsType[*statusError](err); !ok || status.code != http.StatusGone || again == 3 {
			break // 410: the list was too old for its next page, so it is read from its beginning
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the EndpointSlices of the Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	if len(found.all) == 0 {
		return nil, fmt.Errorf("the Service %s/%s has no endpoints: check its name, and that its daemons run", service.Namespace, service.Name)
	}
	return found.targets(), nil
}

// Limits of what the API server answers.
const (
	pageTime     = 30 * time.Second
	slicesAPage  = 50 // an EndpointSlice has up to 1,000 endpoints
	mostPage     = 32 << 20
	mostPages    = 1000
	mostDaemons  = 32_000
	mostMessages = 4 << 10
)

// endpointSlices is what is read of an EndpointSliceList (discovery.k8s.io/v1). The typed client would add megabytes for it.
type endpointSlices struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []endpointSlice `json:"items"`
}

type endpointSlice struct {
	AddressType string `json:"addressType"`
	Endpoints   []struct {
		Addresses []string `json:"addresses"`
		NodeName  string   `json:"nodeName"`
		TargetRef struct {
			UID string `json:"uid"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []endpointPort `json:"ports"`
}

type endpointPort struct {
	Name     string `json:"name"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

// statusError is an answer of the API server that is not 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	switch e.code {
	case http.StatusUnauthorized:
		return "the API server does not accept the credentials: they may have expired"
	case http.StatusForbidden:
		return "the right to list endpointslices (discovery.k8s.io) in the Service's namespace is missing: " + e.text
	}
	return fmt.Sprintf("the API server answers %d: %s", e.code, e.text)
}

// endpoints collects the endpoints of all slices.
type endpoints struct {
	all   []endpoint
	byPod map[string]int // the index in all
}

type endpoint struct {
	address netip.AddrPort
	node    string
}

// read reads all pages.
func (e *endpoints) read(ctx context.Context, client *http.Client, list *url.URL, service string) error {
	query := url.Values{"labelSelector": {"kubernetes.io/service-name=" + service}, "limit": {strconv.Itoa(slicesAPage)}}
	for range mostPages {
		at := *list
		at.RawQuery = query.Encode()
		page, err := readPage(ctx, client, at.String())
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := e.add(&page.Items[i]); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return fmt.Errorf("the list has more than %d pages", mostPages)
}

func readPage(ctx context.Context, client *http.Client, address string) (*endpointSlices, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	a, err := client.Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the long URL
	}
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		text, _ := io.ReadAll(io.LimitReader(a.Body, mostMessages)) // what is there explains the status
		_ = json.Unmarshal(text, &status)
		return nil, &statusError{a.StatusCode, short(cmp.Or(status.Message, http.StatusText(a.StatusCode)))}
	}
	page := new(endpointSlices)
	if err := json.NewDecoder(io.LimitReader(a.Body, mostPage)).Decode(page); err != nil {
		return nil, fmt.Errorf("the answer is not an API server's: %w", err)
	}
	return page, nil
}

// add adds the endpoints of one slice. Of a pod with an address of each family the IPv4 address is taken.
func (e *endpoints) add(s *endpointSlice) error {
	if s.AddressType != "IPv4" && s.AddressType != "IPv6" || len(s.Endpoints) == 0 {
		return nil
	}
	port, err := portOf(s.Ports)
	if err != nil {
		return err
	}
	for _, p := range s.Endpoints {
		if len(e.all) >= mostDaemons {
			return fmt.Errorf("it has more than %d endpoints", mostDaemons)
		}
		if len(p.Addresses) == 0 {
			continue
		}
		ip, err := netip.ParseAddr(p.Addresses[0]) // the others are the same endpoint's
		if err != nil || ip.Zone() != "" {
			return fmt.Errorf("%q is no address", short(p.Addresses[0]))
		}
		found := endpoint{netip.AddrPortFrom(ip, port), p.NodeName}
		i, again := e.byPod[p.TargetRef.UID]
		switch {
		case p.TargetRef.UID == "" || !again:
			e.byPod[p.TargetRef.UID] = len(e.all)
			e.all = append(e.all, found)
		case ip.Is4() && !e.all[i].address.Addr().Is4():
			e.all[i] = found
		}
	}
	return nil
}

// portOf returns the port with the name https, or the only one.
func portOf(ports []endpointPort) (uint16, error) {
	var tcp []uint16
	for _, p := range ports {
		if cmp.Or(p.Protocol, "TCP") != "TCP" || p.Port == 0 {
			continue
		}
		if p.Name == "https" {
			return p.Port, nil
		}
		tcp = append(tcp, p.Port)
	}
	if len(tcp) != 1 {
		return 0, fmt.Errorf("it has %d TCP ports, and none has the name https", len(tcp))
	}
	return tcp[0], nil
}

// targets returns each address once: a pod that terminates and its successor may both have the node's address.
func (e *endpoints) targets() []Target {
	var list []Target
	seen := map[netip.AddrPort]bool{}
	for _, p := range e.all {
		if seen[p.address] {
			continue
		}
		seen[p.address] = true
		host := p.address.Addr().String()
		list = append(list, Target{
			Node: cmp.Or(short(p.node), host),
			URL:  "https://" + net.JoinHostPort(host, strconv.Itoa(int(p.address.Port()))),
		})
	}
	return list
}
