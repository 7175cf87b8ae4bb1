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

// bounds limit a client's connections, and the reviews of bearer tokens that it causes.
type bounds struct {
	atOnce      int // open connections
	connections allowance
	reviews     allowance // of tokens that were not allowed recently
}

// allowance is a token bucket: burst at once, and one more each refill.
type allowance struct {
	burst  int
	refill time.Duration
}

// A TLS handshake and a wrong password cost milliseconds of processor time each, so one address may have two of them a
// second. An IPv6 network with its 2^64 addresses often belongs to one host, or to all pods of a node: it may have more
// than one address, and half of the total.
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
		if l != nil { // nil is not a stream socket
			all = append(all, l)
		}
	}
	if err == nil && len(all) == 0 {
		err = errors.New("systemd has passed none; check that orphan-reaper.socket is installed and started")
	}
	return all, err
}

// limiter returns a full token bucket.
func (a allowance) limiter() *rate.Limiter { return rate.NewLimiter(rate.Every(a.refill), a.burst) }

// visitor counts the connections of one address, one network, or all clients together.
type visitor struct {
	bounds
	came, asked *rate.Limiter
	open        int
}

// limits counts the connections of all listeners.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	visitors map[netip.Prefix]*visitor // the zero prefix is for all clients together
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, visitors: map[netip.Prefix]*visitor{}}
}

// limited is a listener that closes a connection at once if the client has too many (see limits).
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

// origin returns the address of a client, or the zero Addr for a Unix socket.
func origin(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return originOf(tcp.AddrPort())
	}
	return netip.Addr{}
}

func originOf(a netip.AddrPort) netip.Addr { return a.Addr().Unmap().WithZone("") }

// networkBits is the prefix length of the IPv6 network that one host, or all pods of one node, commonly have.
const networkBits = 64

// prefixes returns the keys of a client's visitors: all clients, its address and its IPv6 network.
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

// of returns the visitors of a client, or nil if there is no room for a new one.
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

// enter reports whether a connection is allowed, and then counts it.
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

// review reports whether the client may cause another review of a token, and then counts it.
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

// forget drops the visitors without open connections whose buckets are full.
func (l *limits) forget(now time.Time) {
	full := func(l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) }
	for p, v := range l.visitors {
		if v.open == 0 && full(v.came) && full(v.asked) {
			delete(l.visitors, p)
		}
	}
}

// leave ends an allowed connection. Its visitors exist, since forget keeps those with open connections.
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
