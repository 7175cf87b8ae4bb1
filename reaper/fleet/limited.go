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
	bounds
	came, asked *rate.Limiter
	open        int
}

// limits are what all listeners have open together.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	visitors map[netip.Prefix]*visitor // those of all clients together have no prefix
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, visitors: map[netip.Prefix]*visitor{}}
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

// origin returns the address of a client, the zero Addr for a Unix socket.
func origin(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return originOf(tcp.AddrPort())
	}
	return netip.Addr{}
}

func originOf(a netip.AddrPort) netip.Addr { return a.Addr().Unmap().WithZone("") }

// networkBits are of what one host, or all pods of one node, commonly have.
const networkBits = 64

// prefixes returns what a client counts for: all clients, its address and, of IPv6, its network.
func prefixes(from netip.Addr) []netip.Prefix {
	if !from.IsValid() {
		from = netip.IPv4Unspecified() // no TCP client has this address
	}
	all := []netip.Prefix{{}, netip.PrefixFrom(from, from.BitLen())}
	if from.Is6() {
		all = append(all, netip.PrefixFrom(from, networkBits).Masked())
	}
	return all
}

func boundsOf(p netip.Prefix) bounds {
	switch {
	case !p.IsValid():
		return together
	case p.IsSingleIP():
		return ofAddress
	}
	return ofNetwork
}

// of returns the visitors that a client counts for, nil where there is no room to remember one.
func (l *limits) of(from netip.Addr, now time.Time) (list []*visitor) {
	for _, p := range prefixes(from) {
		v := l.visitors[p]
		if v == nil {
			if len(l.visitors) >= mostVisitors {
				l.forget(now)
			}
			if len(l.visitors) >= mostVisitors {
				return nil
			}
			b := boundsOf(p)
			v = &visitor{bounds: b, came: b.connections.limiter(), asked: b.reviews.limiter()}
			l.visitors[p] = v
		}
		list = append(list, v)
	}
	return list
}

// enter counts a connection, and reports whether it is allowed.
func (l *limits) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	all := l.of(from, now)
	if all == nil || slices.ContainsFunc(all, func(v *visitor) bool { return v.open >= v.atOnce || v.came.TokensAt(now) < 1 }) {
		return false
	}
	for _, v := range all {
		v.came.AllowN(now, 1)
		v.open++
	}
	return true
}

// review counts a question to the API server about a token that a client sent, and reports whether it is allowed.
func (l *limits) review(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	all := l.of(from, now)
	if all == nil || slices.ContainsFunc(all, func(v *visitor) bool { return v.asked.TokensAt(now) < 1 }) {
		return false
	}
	for _, v := range all {
		v.asked.AllowN(now, 1)
	}
	return true
}

// forget drops the visitors that have nothing open and spent nothing.
func (l *limits) forget(now time.Time) {
	full := func(l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) }
	for p, v := range l.visitors {
		if v.open == 0 && full(v.came) && full(v.asked) {
			delete(l.visitors, p)
		}
	}
}

// leave ends a connection that was allowed: its visitors are remembered as long as it is open.
func (l *limits) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range prefixes(from) {
		l.visitors[p].open--
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
