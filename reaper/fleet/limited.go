package fleet

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// The bounds on connections. A TLS handshake and a wrong password cost milliseconds of
// processor time each, so that one address may have two of them a second for long.
const (
	mostOpen       = 64
	mostOpenEach   = 8
	mostAddresses  = 1024
	burstEach      = 20
	refillEach     = 500 * time.Millisecond // how long one connection takes to be allowed again
	burstTogether  = 200
	refillTogether = 20 * time.Millisecond
)

// The bounds on questions to the API server whose a bearer token is. A client has one token, and the
// answer is kept: 5,000 nodes that are all sent garbage without end ask it 500 times a second.
const (
	burstReviewsEach      = 10
	refillReviewsEach     = 30 * time.Second
	burstReviewsTogether  = 20
	refillReviewsTogether = 10 * time.Second
)

// systemdSockets takes what systemd has opened (sd_listen_fds(3)). It can be asked once.
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

// bucket is a token bucket: burst at once, and one more each refill.
type bucket struct {
	spent time.Duration // of burst*refill
	at    time.Time     // when spent was true
}

// take takes one token, or reports that there is none.
func (b *bucket) take(now time.Time, burst int, refill time.Duration) bool {
	if !b.has(now, burst, refill) {
		return false
	}
	b.spent += refill
	return true
}

// has reports whether there is a token.
func (b *bucket) has(now time.Time, burst int, refill time.Duration) bool {
	b.spent = max(0, b.spent-now.Sub(b.at))
	b.at = now
	return b.spent+refill <= time.Duration(burst)*refill
}

// full reports whether nothing is spent.
func (b *bucket) full(now time.Time) bool { return now.Sub(b.at) >= b.spent }

// visitor is what one address has open, and how often it came lately.
type visitor struct {
	bucket
	reviews bucket
	open    int
}

// limits are what all listeners have open together.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	all      visitor
	visitors map[netip.Prefix]*visitor
}

// limited is a listener that closes a connection at once which is one too many: of its address,
// or of all. So one address cannot keep the others out for long.
type limited struct {
	net.Listener
	*limits
}

// Accept returns the next connection that is not one too many.
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
		_ = c.Close() // it is nobody's
	}
}

// origin is what counts as one client.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{} // Unix sockets
	}
	return originOf(tcp.AddrPort())
}

// originOf is an address, of IPv6 the network of a host.
func originOf(a netip.AddrPort) netip.Prefix {
	ip := a.Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// enter counts a connection in, or reports that it is one too many.
func (l *limits) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	v := l.visitors[from]
	if v == nil {
		if len(l.visitors) >= mostAddresses && !l.forget(now) {
			return false
		}
		v = &visitor{}
		if l.visitors == nil {
			l.visitors = map[netip.Prefix]*visitor{}
		}
		l.visitors[from] = v
	}
	if l.all.open >= mostOpen || v.open >= mostOpenEach || !v.take(now, burstEach, refillEach) || !l.all.take(now, burstTogether, refillTogether) {
		return false
	}
	v.open++
	l.all.open++
	return true
}

// review counts a question to the API server in for a client that has a connection open, or reports
// that it is one too many.
func (l *limits) review(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, v := l.now(), l.visitors[from]
	if v == nil || !v.reviews.has(now, burstReviewsEach, refillReviewsEach) || !l.all.reviews.take(now, burstReviewsTogether, refillReviewsTogether) {
		return false
	}
	return v.reviews.take(now, burstReviewsEach, refillReviewsEach)
}

// forget drops the addresses that have nothing open and spent nothing, and reports whether
// there were any.
func (l *limits) forget(now time.Time) bool {
	was := len(l.visitors)
	for from, v := range l.visitors {
		if v.open == 0 && v.full(now) && v.reviews.full(now) {
			delete(l.visitors, from)
		}
	}
	return len(l.visitors) < was
}

func (l *limits) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.open--
	l.visitors[from].open--
}

// visit is a connection that is counted out when it is closed.
type visit struct {
	net.Conn
	leave func()
}

// Close closes the connection and makes room for another.
func (v *visit) Close() error {
	defer v.leave()
	return v.Conn.Close()
}
