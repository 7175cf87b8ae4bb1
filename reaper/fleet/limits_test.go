package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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

// TestManyConnections checks that clients that open every connection and say nothing keep another one out for
// headerTime only.
func TestManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTestServer(t, "")
		l := make(pipes)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.serve(ctx, l) }()
		var silent []net.Conn
		for range mostOpen {
			ours, theirs := net.Pipe()
			l <- theirs
			silent = append(silent, ours)
		}
		began := time.Now()
		other, otherEnd := net.Pipe()
		var sent sync.WaitGroup
		sent.Go(func() { l <- otherEnd })
		sent.Go(func() { _, _ = io.WriteString(other, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") })
		if text, err := io.ReadAll(other); err != nil || !strings.Contains(string(text), "200 OK") {
			t.Errorf("%q, %v", text, err)
		}
		if waited := time.Since(began); waited != headerTime {
			t.Errorf("it was served after %s", waited)
		}
		sent.Wait()
		for _, c := range silent {
			_ = c.Close()
		}
		cancel()
		close(l)
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
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
