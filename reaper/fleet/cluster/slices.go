package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Service names a Service.
type Service struct{ Namespace, Name string }

// String is NAMESPACE/NAME.
func (s Service) String() string { return s.Namespace + "/" + s.Name }

// slice is the part that is read of an EndpointSlice (discovery.k8s.io/v1).
type slice struct {
	AddressType string `json:"addressType"`
	Endpoints   []struct {
		Addresses []string `json:"addresses"`
		NodeName  string   `json:"nodeName"`
		TargetRef struct {
			UID string `json:"uid"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []slicePort `json:"ports"`
}

type slicePort struct {
	Name     string `json:"name"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// slicesAPage is how many EndpointSlices a page has; each has 100 to 1,000 endpoints.
const slicesAPage = 50

// Daemons returns the daemons of a Service, by the addresses of its EndpointSlices, each with the name of its node. It
// includes daemons that are not ready. A daemon with several addresses is included once, with an IPv4 address if it
// has one.
func Daemons(ctx context.Context, s *kube.Server, service Service, scheme string) ([]report.Target, error) {
	defer s.Close()
	var found endpoints
	l := list{
		path:  "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(service.Namespace) + "/endpointslices",
		query: url.Values{"labelSelector": {"kubernetes.io/service-name=" + service.Name}},
		as:    "application/json", page: slicesAPage,
	}
	err := readAll(ctx, s, l, func() { found = endpoints{scheme: scheme, byPod: map[string]int{}} }, found.add)
	if err != nil {
		return nil, fmt.Errorf("cannot list the EndpointSlices of the Service %s: %w%s", service, err,
			advice(err, s.User, "list endpointslices (discovery.k8s.io) in the namespace "+service.Namespace))
	}
	return found.targets(), nil
}

// endpoints collects the endpoints of all slices.
type endpoints struct {
	scheme string
	all    []endpoint
	byPod  map[string]int // the index in all
}

type endpoint struct {
	address netip.AddrPort
	node    string
}

func (e *endpoints) add(s *slice) error {
	if s.AddressType != "IPv4" && s.AddressType != "IPv6" || len(s.Endpoints) == 0 {
		return nil // addresses of type FQDN are not pods'
	}
	port, err := portOf(s.Ports)
	if err != nil {
		return err
	}
	for _, p := range s.Endpoints {
		if len(e.all) > mostItems {
			return fmt.Errorf("it has more than %d endpoints", mostItems)
		}
		if len(p.Addresses) == 0 {
			continue
		}
		ip, err := netip.ParseAddr(p.Addresses[0]) // the others are the same endpoint's
		if err != nil || ip.Zone() != "" {
			return fmt.Errorf("the address %q of an endpoint is invalid", clean.Name(report.Short(p.Addresses[0])))
		}
		one := endpoint{netip.AddrPortFrom(ip, port), p.NodeName}
		i, again := e.byPod[p.TargetRef.UID]
		switch {
		case p.TargetRef.UID == "" || !again:
			e.byPod[p.TargetRef.UID] = len(e.all)
			e.all = append(e.all, one)
		case ip.Is4() && !e.all[i].address.Addr().Is4():
			e.all[i] = one
		}
	}
	return nil
}

// portOf returns the port with the name http or https, or the only one.
func portOf(ports []slicePort) (uint16, error) {
	var tcp []int
	for _, p := range ports {
		if cmp.Or(p.Protocol, "TCP") != "TCP" || p.Port < 1 || p.Port > 1<<16-1 {
			continue
		}
		if p.Name == "http" || p.Name == "https" {
			return uint16(p.Port), nil
		}
		tcp = append(tcp, p.Port)
	}
	if len(tcp) != 1 {
		return 0, fmt.Errorf("it has %d TCP ports, and none is called http or https", len(tcp))
	}
	return uint16(tcp[0]), nil
}

// targets returns each address once: a terminating pod and its successor may both have the node's address.
func (e *endpoints) targets() []report.Target {
	var list []report.Target
	seen := map[netip.AddrPort]bool{}
	for _, p := range e.all {
		if seen[p.address] {
			continue
		}
		seen[p.address] = true
		host := p.address.Addr().String()
		list = append(list, report.Target{
			Node: cmp.Or(report.Short(p.node), host), Named: p.node != "",
			URL: e.scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(p.address.Port()))),
		})
	}
	return list
}
