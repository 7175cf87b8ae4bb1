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

// host returns the client with number i, by IPv4; host6 returns an address in a network.
func host(i int) netip.Addr {
	return originOf(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 9))
}

func host6(network, i int) netip.Addr {
	return originOf(netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(network), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}), 9))
}

// TestLimits checks that one address, one network of IPv6 and all clients together get no more than their share of
// connections and token reviews, and that one address or network excludes no other.
func TestLimits(t *testing.T) {
	one := func(int) netip.Addr { return host(1) }
	one6 := func(int) netip.Addr { return host6(1, 1) }
	network := func(i int) netip.Addr { return host6(1, i) }
	for name, c := range map[string]struct {
		from  func(i int) netip.Addr
		holds bool          // the connections stay open
		asks  bool          // each sends a token
		each  time.Duration // time between two of them
		want  int           // accepted of 1,000
	}{
		"open, of an address":            {one, true, false, 0, ofAddress.atOnce},
		"open, of an address of IPv6":    {one6, true, false, 0, ofAddress.atOnce},
		"open, of a network":             {network, true, false, 0, ofNetwork.atOnce},
		"open, of all":                   {host, true, false, 0, together.atOnce},
		"quick, of an address":           {one, false, false, 0, ofAddress.connections.burst},
		"quick, of a network":            {network, false, false, 0, ofNetwork.connections.burst},
		"slow, of an address":            {one, false, false, ofAddress.connections.refill, 1000},
		"questions, of an address":       {one, false, true, time.Second, ofAddress.reviews.burst + int(999*time.Second/ofAddress.reviews.refill)},
		"questions, of a network's host": {one6, false, true, time.Second, ofAddress.reviews.burst + int(999*time.Second/ofAddress.reviews.refill)},
		"questions, of a network":        {network, false, true, time.Second, ofNetwork.reviews.burst + int(999*time.Second/ofNetwork.reviews.refill)},
		"questions, of all":              {host, false, true, time.Second, together.reviews.burst + int(999*time.Second/together.reviews.refill)},
	} {
		now := time.Unix(1e9, 0)
		l := newLimits(func() time.Time { return now })
		enter := func(from netip.Addr, holds bool) bool {
			if !l.enter(from) {
				return false
			}
			if !holds {
				defer l.leave(from)
			}
			return !c.asks || l.review(from)
		}
		got := 0
		for i := range 1000 {
			if now = now.Add(c.each); enter(c.from(i), c.holds) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if others := enter(host(1<<20), false) && enter(host6(2, 1), false); others != !strings.HasSuffix(name, "of all") {
			t.Errorf("%s: others are accepted: %t", name, others)
		}
	}
}

// TestVisitors checks that a bounded number of addresses and networks is kept, each while it has used up some of its
// share.
func TestVisitors(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimits(func() time.Time { return now })
	for i := range 10 * mostVisitors {
		now = now.Add(time.Second)
		if from := host6(i, i); l.enter(from) {
			l.review(from)
			l.leave(from)
		}
		if len(l.visitors) > mostVisitors {
			t.Fatalf("%d visitors are kept", len(l.visitors))
		}
	}
	now = now.Add(time.Hour)
	if !l.enter(host(1)) || !l.review(host(1)) {
		t.Fatal("an address was excluded")
	}
	l.leave(host(1))
	now = now.Add(ofAddress.reviews.refill / 2)
	if l.forget(now); l.visitors[netip.PrefixFrom(host(1), 32)] == nil {
		t.Error("an address was dropped and has a full share again")
	}
	now = now.Add(time.Hour)
	if l.forget(now); len(l.visitors) != 0 {
		t.Errorf("%d visitors were never dropped", len(l.visitors))
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

// pipes is a listener without a network, so that the test controls the time.
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

// TestSlowAndHuge checks that a client that is slow or sends without end is cut off, and that another one is served
// meanwhile.
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
			sent.Go(func() { _ = send(ours) }) // fails when the connection is cut
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

// endless sends begin, and then the same text without end.
func endless(c net.Conn, begin, then string) error {
	_, err := io.WriteString(c, begin)
	for err == nil {
		_, err = io.WriteString(c, then)
	}
	return err
}
