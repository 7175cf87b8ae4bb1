package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func network(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
}

// TestLimited: one address, and a crowd of them, get no more than their part.
func TestLimited(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := limits{now: func() time.Time { return now }}
	count := func(n int, from func(i int) netip.Prefix) (in int) {
		for i := range n {
			if l.enter(from(i)) {
				in++
			}
		}
		return in
	}
	one := func(int) netip.Prefix { return network(1) }
	if in := count(100, one); in != mostOpenEach {
		t.Errorf("%d connections of one address are open", in)
	}
	for range mostOpenEach {
		l.leave(network(1))
	}
	if in := count(1, func(int) netip.Prefix { return network(2) }); in != 1 {
		t.Error("one address keeps out another")
	}
	l.leave(network(2))
	var quick int
	for range 1000 {
		if l.enter(network(1)) {
			quick++
			l.leave(network(1))
		}
	}
	if quick > burstEach {
		t.Errorf("%d connections of one address at once", quick)
	}
	now = now.Add(10 * time.Second)
	if in := count(mostOpenEach, one); in != mostOpenEach {
		t.Errorf("%d connections after a while", in)
	}
	for range mostOpenEach {
		l.leave(network(1))
	}
	if in := count(1000, func(i int) netip.Prefix { return network(1000 + i) }); in != mostOpen {
		t.Errorf("%d connections are open", in)
	}
	for range 100 {
		now = now.Add(time.Hour)
		for i := range 1000 {
			if l.enter(network(int(now.Unix()) + i)) {
				l.leave(network(int(now.Unix()) + i))
			}
		}
	}
	if len(l.visitors) > mostAddresses {
		t.Errorf("%d addresses are remembered", len(l.visitors))
	}
}

// TestReviewLimits: one address has no more than its part of the questions, and cannot use up that of the
// others; and what an address has asked is not forgotten by its going away.
func TestReviewLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := limits{now: func() time.Time { return now }}
	ask := func(from netip.Prefix) bool {
		now = now.Add(time.Second) // so that connections are no matter
		if !l.enter(from) {
			t.Fatal("no room")
		}
		defer l.leave(from)
		return l.review(from)
	}
	count := func(n int, from func(i int) netip.Prefix) (asked int) {
		for i := range n {
			if ask(from(i)) {
				asked++
			}
		}
		return asked
	}
	one := func(int) netip.Prefix { return network(1) }
	if n := count(20, one); n != burstReviewsEach {
		t.Errorf("%d questions of one address", n)
	}
	if n := count(1, func(int) netip.Prefix { return network(2) }); n != 1 {
		t.Error("one address keeps out another")
	}
	if l.forget(now); l.visitors[network(1)] == nil {
		t.Error("the address is forgotten, and may ask as much again")
	}
	now = now.Add(time.Hour)
	if n := count(100, func(i int) netip.Prefix { return network(i) }); n > burstReviewsTogether+int(100*time.Second/refillReviewsTogether) {
		t.Errorf("%d questions in 100 s", n)
	}
	now = now.Add(time.Hour)
	if l.forget(now); len(l.visitors) != 0 {
		t.Errorf("%d are never forgotten", len(l.visitors))
	}
	if l.review(network(9)) {
		t.Error("somebody who has no connection asks")
	}
}

func TestOrigin(t *testing.T) {
	at := func(ip string) netip.Prefix { return origin(&net.TCPAddr{IP: net.ParseIP(ip), Port: 9}) }
	if at("::ffff:192.0.2.7") != at("192.0.2.7") || at("192.0.2.7") == at("192.0.2.8") {
		t.Error("IPv4")
	}
	if at("2001:db8::1") != at("2001:db8::2") || at("2001:db8::1") == at("2001:db8:0:1::1") {
		t.Error("a host has a whole network of IPv6")
	}
	if origin(&net.UnixAddr{}) != (netip.Prefix{}) {
		t.Error("Unix")
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
