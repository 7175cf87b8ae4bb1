package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// host is the client with number i, by IPv4; host6 has an address in a network.
func host(i int) netip.Addr {
	return originOf(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 9))
}

func host6(network, i int) netip.Addr {
	return originOf(netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(network), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}), 9))
}

// TestLimited: one address, and a crowd of them, get no more than their part.
func TestLimited(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimits(func() time.Time { return now })
	count := func(n int, from func(i int) netip.Addr) (in int) {
		for i := range n {
			if l.enter(from(i)) {
				in++
			}
		}
		return in
	}
	one := func(int) netip.Addr { return host(1) }
	if in := count(100, one); in != ofAddress.atOnce {
		t.Errorf("%d connections of one address are open", in)
	}
	for range ofAddress.atOnce {
		l.leave(host(1))
	}
	if in := count(1, func(int) netip.Addr { return host(2) }); in != 1 {
		t.Error("one address keeps out another")
	}
	l.leave(host(2))
	var quick int
	for range 1000 {
		if l.enter(host(1)) {
			quick++
			l.leave(host(1))
		}
	}
	if quick > ofAddress.connections.burst {
		t.Errorf("%d connections of one address at once", quick)
	}
	now = now.Add(10 * time.Second)
	if in := count(ofAddress.atOnce, one); in != ofAddress.atOnce {
		t.Errorf("%d connections after a while", in)
	}
	for range ofAddress.atOnce {
		l.leave(host(1))
	}
	if in := count(1000, func(i int) netip.Addr { return host(1000 + i) }); in != together.atOnce {
		t.Errorf("%d connections are open", in)
	}
	for range 100 {
		now = now.Add(time.Hour)
		for i := range 1000 {
			if l.enter(host(int(now.Unix()) + i)) {
				l.leave(host(int(now.Unix()) + i))
			}
		}
	}
	if len(l.visitors) > mostVisitors {
		t.Errorf("%d addresses are remembered", len(l.visitors))
	}
}

// TestReviewLimits: one address has no more than its part of the questions, and cannot use up that of the
// others; and what an address has asked is not forgotten by its going away.
func TestReviewLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimits(func() time.Time { return now })
	ask := func(from netip.Addr) bool {
		now = now.Add(time.Second) // so that connections are no matter
		if !l.enter(from) {
			t.Fatal("no room")
		}
		defer l.leave(from)
		return l.review(from)
	}
	count := func(n int, from func(i int) netip.Addr) (asked int) {
		for i := range n {
			if ask(from(i)) {
				asked++
			}
		}
		return asked
	}
	one := func(int) netip.Addr { return host(1) }
	if n := count(20, one); n != ofAddress.reviews.burst {
		t.Errorf("%d questions of one address", n)
	}
	if n := count(1, func(int) netip.Addr { return host(2) }); n != 1 {
		t.Error("one address keeps out another")
	}
	if l.forget(now); l.visitors[netip.PrefixFrom(host(1), 32)] == nil {
		t.Error("the address is forgotten, and may ask as much again")
	}
	now = now.Add(time.Hour)
	if n := count(100, func(i int) netip.Addr { return host(i) }); n > together.reviews.burst+int(100*time.Second/together.reviews.refill) {
		t.Errorf("%d questions in 100 s", n)
	}
	now = now.Add(time.Hour)
	if l.forget(now); len(l.visitors) != 0 {
		t.Errorf("%d are never forgotten", len(l.visitors))
	}
}

// TestNetworks: one address of IPv6 keeps out neither its neighbours nor others, and a host that has
// a whole network no other network: of connections, of questions, and of what is remembered.
func TestNetworks(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimits(func() time.Time { return now })
	open := map[netip.Addr]int{}
	enter := func(c netip.Addr) (in bool) {
		if in = l.enter(c); in {
			open[c]++
		}
		return in
	}
	leave := func() {
		for c, n := range open {
			for range n {
				l.leave(c)
			}
		}
		clear(open)
	}
	for range 1000 {
		enter(host6(1, 1))
	}
	if open[host6(1, 1)] != ofAddress.atOnce || !enter(host6(1, 2)) {
		t.Errorf("one address has %d open, and its neighbour %d", open[host6(1, 1)], open[host6(1, 2)])
	}
	leave()
	now = now.Add(time.Hour)
	for i := range 1000 {
		enter(host6(1, i))
	}
	if len(open) != ofNetwork.atOnce || !enter(host6(2, 1)) || !enter(host(1)) {
		t.Errorf("one network has %d open", len(open))
	}
	leave()
	now = now.Add(time.Hour)
	var quick int
	for i := range 10 * mostVisitors {
		if l.enter(host6(1, i)) {
			quick++
			l.leave(host6(1, i))
		}
	}
	if quick != ofNetwork.connections.burst || !enter(host6(2, 1)) || !enter(host(1)) || len(l.visitors) > mostVisitors {
		t.Errorf("%d connections of one network at once; %d are remembered", quick, len(l.visitors))
	}
	leave()
	asked := func(n int, c func(i int) netip.Addr) (asked int) {
		for i := range n {
			now = now.Add(time.Millisecond)
			if from := c(i); l.enter(from) {
				if l.review(from) {
					asked++
				}
				l.leave(from)
			}
		}
		return asked
	}
	now = now.Add(time.Hour)
	if n := asked(19, func(int) netip.Addr { return host6(1, 1) }); n != ofAddress.reviews.burst {
		t.Errorf("%d questions of one address", n)
	}
	if asked(1, func(int) netip.Addr { return host6(1, 2) }) != 1 {
		t.Error("one address uses up its network's questions")
	}
	now = now.Add(time.Hour)
	if n := asked(90, func(i int) netip.Addr { return host6(1, i) }); n != ofNetwork.reviews.burst || asked(1, func(int) netip.Addr { return host6(2, 1) }) != 1 {
		t.Errorf("%d questions of one network", n)
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.ParseIP("192.0.2.7")}:                 "invalid Prefix 192.0.2.7/32",
		&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7")}:          "invalid Prefix 192.0.2.7/32",
		&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Zone: "eth0"}: "invalid Prefix 2001:db8::1/128 2001:db8::/64",
		&net.UnixAddr{}: "invalid Prefix 0.0.0.0/32",
	} {
		if got := strings.Trim(fmt.Sprint(prefixes(origin(address))), "[]"); got != want {
			t.Errorf("%v: %s, want %s", address, got, want)
		}
	}
}

// pipes is a listener without a network, so that time can be the test's.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestSlowAndHuge: a client that is slow, or sends without end, is cut off and costs nothing
// more; another is served meanwhile.
func TestSlowAndHuge(t *testing.T) {
	for name, send := range map[string]func(net.Conn) error{
		"says nothing":    func(net.Conn) error { return nil },
		"half a line":     func(c net.Conn) error { _, err := io.WriteString(c, "GET /metr"); return err },
		"a byte a second": drip,
		"endless headers": func(c net.Conn) error {
			return endless(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n")
		},
		"endless body": func(c net.Conn) error {
			return endless(c, "POST /v1/sweep HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", strings.Repeat("a", 1000))
		},
		"HTTP/2":           func(c net.Conn) error { _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); return err },
		"request upon one": func(c net.Conn) error { return endless(c, "", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _, _ := newTestServer(t, "")
			s.limits.now = time.Now
			l := make(pipes)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- s.serve(ctx, l) }()
			ours, theirs := net.Pipe()
			l <- theirs
			began := time.Now()
			var sent sync.WaitGroup
			sent.Go(func() { _ = send(ours) }) // it fails when it is cut off
			other, otherEnd := net.Pipe()
			l <- otherEnd
			sent.Go(func() { _, _ = io.WriteString(other, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") })
			if text, err := io.ReadAll(other); err != nil || !strings.Contains(string(text), "200 OK") {
				t.Errorf("%s: another client: %q, %v", name, text, err)
			}
			if text, err := io.ReadAll(ours); err != nil && !errors.Is(err, io.ErrClosedPipe) || strings.Count(string(text), "HTTP/1.1 ") > 1 {
				t.Errorf("%s: %q, %v", name, text, err)
			}
			if took := time.Since(began); took > answerTime {
				t.Errorf("%s was cut off after %s", name, took)
			}
			_ = ours.Close()
			sent.Wait()
			cancel()
			close(l)
			if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// drip sends a byte each second.
func drip(c net.Conn) error {
	for {
		if _, err := io.WriteString(c, "a"); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// endless sends what it begins with, and then the same without end.
func endless(c net.Conn, begin, then string) error {
	_, err := io.WriteString(c, begin)
	for err == nil {
		_, err = io.WriteString(c, then)
	}
	return err
}
