package fleet

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/time/rate"
)

// bounds are what a client may have: of connections, and of questions to the API server about bearer
// tokens.
type bounds struct {
	atOnce      int // connections
	connections allowance
	reviews     allowance // about tokens that were not allowed lately
}

// allowance is burst at once, and one more each refill.
type allowance struct {
	burst  int
	refill time.Duration
}

// A TLS handshake and a wrong password cost milliseconds of processor time each, so that one address
// may have two of them a second for long. A network of IPv6 is often one host's, with 2^64 addresses,
// and often that of all pods of a node: it may have more than one of its addresses, and half of what
// all may have.
var (
	ofAddress = bounds{8, allowance{20, 500 * time.Millisecond}, allowance{10, 30 * time.Second}}
	ofNetwork = bounds{32, allowance{100, 40 * time.Millisecond}, allowance{15, 20 * time.Second}}
	together  = bounds{64, allowance{200, 20 * time.Millisecond}, allowance{20, 10 * time.Second}}
)

// renewals bounds the questions about tokens that were allowed lately, of all clients together. Unknown clients
// cannot use it up.
var renewals = allowance{20, 2 * time.Second}

const mostVisitors = 2048 // addresses and networks that are remembered

// systemdSockets returns the sockets that systemd has opened (sd_listen_fds(3)). It can be called once.
func systemdSockets() ([]net.Listener, error) {
	var all []net.Listener
	given, err := activation.Listeners()
	for _, l := range given {
		if l != nil { // no stream socket
			all = append(all, l)
		}
	}
	if err == nil && len(all) == 0 {
		err = errors.New("systemd has given none: is orphan-reaper.socket there, and started?")
	}
	return all, err
}

// limiter returns a token bucket that is full.
func (a allowance) limiter() *rate.Limiter { return rate.NewLimiter(rate.Every(a.refill), a.burst) }

// visitor is what one address, one network, or all clients together have open, and how often they connected lately.
type visitor struct {
	came, asked *rate.Limiter
	open        int
}

func newVisitor(b bounds) *visitor {
	return &visitor{came: b.connections.limiter(), asked: b.reviews.limiter()}
}

// client is what a connection is counted for: an address and, of IPv6, its network.
type client struct{ network, address netip.Prefix }

func (c client) prefixes() []netip.Prefix {
	if c.network.IsValid() {
		return []netip.Prefix{c.network, c.address}
	}
	return []netip.Prefix{c.address}
}

// limits are what all listeners have open together.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	all      *visitor
	renewed  *rate.Limiter
	visitors map[netip.Prefix]*visitor
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, all: newVisitor(together), renewed: renewals.limiter(), visitors: map[netip.Prefix]*visitor{}}
}

// limited is a listener that closes a connection at once if its address, or all together, have too many.
// So one address cannot keep the others out for long.
type limited struct {
	net.Listener
	*limits
}

// Accept returns the next connection that is allowed.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := origin(c.RemoteAddr())
		if l.enter(from) {
			return &visit{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		_ = c.Close() // it was not used
	}
}

// origin is what counts as one client.
func origin(a net.Addr) client {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return client{} // Unix sockets
	}
	return originOf(tcp.AddrPort())
}

// networkBits are of what one host, or all pods of one node, commonly have.
const networkBits = 64

// originOf is the client that has an address.
func originOf(a netip.AddrPort) (c client) {
	ip := a.Addr().Unmap().WithZone("")
	if !ip.IsValid() {
		return client{}
	}
	c.address = netip.PrefixFrom(ip, ip.BitLen())
	if ip.Is6() {
		c.network = netip.PrefixFrom(ip, networkBits).Masked()
	}
	return c
}

// part is a visitor that a client belongs to, and what it may have.
type part struct {
	*visitor
	most *bounds
}

// parts returns the visitors of a client, from the largest to its address; nil for one that is not remembered.
func (l *limits) parts(from client) []part {
	list := []part{{l.all, &together}}
	if from.network.IsValid() {
		list = append(list, part{l.visitors[from.network], &ofNetwork})
	}
	return append(list, part{l.visitors[from.address], &ofAddress})
}

// remember makes room for a client, and reports whether there is any.
func (l *limits) remember(from client, now time.Time) bool {
	known := func(p netip.Prefix) bool { return l.visitors[p] != nil }
	all := from.prefixes()
	if len(l.visitors)+len(all) > mostVisitors && slices.ContainsFunc(all, func(p netip.Prefix) bool { return !known(p) }) {
		if l.forget(now); len(l.visitors)+len(all) > mostVisitors {
			return false
		}
	}
	for _, p := range all {
		if most := ofAddress; !known(p) {
			if p == from.network {
				most = ofNetwork
			}
			l.visitors[p] = newVisitor(most)
		}
	}
	return true
}

// enter counts a connection, and reports whether it is allowed.
func (l *limits) enter(from client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.remember(from, now) {
		return false
	}
	all := l.parts(from)
	for _, v := range all {
		if v.open >= v.most.atOnce || v.came.TokensAt(now) < 1 {
			return false
		}
	}
	for _, v := range all {
		v.came.AllowN(now, 1)
		v.open++
	}
	return true
}

// review counts a question to the API server for a client that has a connection open, and reports
// whether it is allowed. Tokens that were allowed lately are counted apart.
func (l *limits) review(from client, lately bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if lately {
		return l.renewed.AllowN(now, 1)
	}
	all := l.parts(from)
	for _, v := range all {
		if v.visitor == nil || v.asked.TokensAt(now) < 1 {
			return false
		}
	}
	for _, v := range all {
		v.asked.AllowN(now, 1)
	}
	return true
}

// forget drops the visitors that have nothing open and spent nothing.
func (l *limits) forget(now time.Time) {
	for p, v := range l.visitors {
		if v.open == 0 && full(v.came, now) && full(v.asked, now) {
			delete(l.visitors, p)
		}
	}
}

// full reports whether nothing is spent.
func full(l *rate.Limiter, now time.Time) bool { return l.TokensAt(now) >= float64(l.Burst()) }

func (l *limits) leave(from client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.parts(from) {
		v.open--
	}
}

// visit is a connection that is counted until it is closed.
type visit struct {
	net.Conn
	leave func()
}

// Close closes the connection and makes room for another.
func (v *visit) Close() error {
	defer v.leave()
	return v.Conn.Close()
}
