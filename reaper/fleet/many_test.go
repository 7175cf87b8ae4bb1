package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// answers are nodes without a network: each answers a request on its connection, and the test controls the time.
type answers map[string]func(c net.Conn, r *http.Request)

// client returns a client of these nodes. served are the connections that are answered.
func (a answers) client(served *sync.WaitGroup) *Client {
	c := &Client{User: "op", Password: "right", Parallel: 100, Timeout: 5 * time.Second}
	c.open()
	c.transport.DialTLSContext = func(_ context.Context, _, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		serve, ok := a[host]
		if !ok {
			return nil, fmt.Errorf("connection refused")
		}
		ours, theirs := net.Pipe()
		served.Go(func() {
			defer theirs.Close()
			if r, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				serve(theirs, r)
			}
		})
		return ours, nil
	}
	return c
}

func (a answers) targets() (list []Target) {
	for host := range a {
		list = append(list, Target{Node: host, URL: "https://" + host + ":1"})
	}
	return list
}

// raw answers with a status and a body.
func raw(status int, body string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) {
		// The client may close the connection before its end.
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d X\r\nLocation: https://elsewhere:1/report\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	}
}

// endless answers with text without end, until the client closes the connection, and counts what the client has read.
func endless(read *atomic.Int64, first, then string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) {
		_, err := io.WriteString(c, first)
		sent := int64(0)
		for err == nil && sent < 16<<20 {
			_, err = io.WriteString(c, then)
			sent += int64(len(then))
		}
		read.Store(max(read.Load(), sent))
	}
}

// daemon answers as a daemon does that has ended one pass with this status.
func daemon(s *Server) func(net.Conn, *http.Request) {
	return func(c net.Conn, r *http.Request) {
		answer := httptest.NewRecorder()
		if serve := s.getReport; r.Method == "POST" {
			s.postScan(answer, r)
		} else {
			serve(answer, r)
		}
		_ = answer.Result().Write(c)
	}
}

// TestListWorstAnswers asks a thousand nodes, of which every tenth gives one of the worst answers: each of these is named
// with an error, none stops the others.
func TestListWorstAnswers(t *testing.T) {
	var headers, bodies atomic.Int64
	head := `{"node":"n1","start":"2026-01-01T00:00:00Z",`
	hostile := []func(net.Conn, *http.Request){
		func(c net.Conn, _ *http.Request) { _, _ = io.Copy(io.Discard, c) }, // no answer
		func(c net.Conn, _ *http.Request) { // a byte a second
			for {
				if _, err := io.WriteString(c, "H"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
		endless(&headers, "HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n"),
		endless(&bodies, "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat(" ", 1000)),
		func(net.Conn, *http.Request) {},
		raw(200, "<html>"),
		raw(200, head+`"summary":{"reasons":{`+strings.Repeat(`"a":1,`, 1<<18)+`"b":1}}}`),
		raw(200, head+`"status":`+strings.Repeat("[", 30_000)+strings.Repeat("]", 30_000)+`}`),
		raw(200, head+`"summary":{"keep":-1}}`),
		raw(200, head+`"summary":{"bytes":9223372036854775807}}`),
		raw(200, head+`"summary":{"wait":"`+strings.Repeat("x", 1000)+`"}}`),
		raw(200, `{}`), raw(302, ""), raw(401, ""), raw(404, ""), raw(500, ""), raw(503, ""),
	}
	synctest.Test(t, func(t *testing.T) {
		nodes := answers{}
		good := newServer()
		good.Ended(1, reaper.Status{Mode: "enforce", Hidden: 2}, nil)
		for i := range 1000 {
			name := fmt.Sprintf("n%d", i)
			if nodes[name] = daemon(good); i%10 == 0 {
				nodes[name] = hostile[i/10%len(hostile)]
			}
		}
		var served sync.WaitGroup
		f := nodes.client(&served).list(t.Context(), nodes.targets())
		served.Wait()
		if headers.Load() > 2*headerBytes || bodies.Load() > 2*mostReport {
			t.Errorf("the client has read %d bytes of headers, and %d of an answer", headers.Load(), bodies.Load())
		}
		if f.Sums.Nodes != 1000 || f.Sums.Failed != 100 || f.Sums.Hidden != 1800 || !f.Operator {
			t.Errorf("%+v, operator %v", f.Sums, f.Operator)
		}
		for i, n := range f.Nodes {
			if bad := strings.HasSuffix(n.Node, "0"); bad != (n.Error != "") || bad != (i < 100) || len(n.Error) > mostText {
				t.Errorf("%d: %s: %q", i, n.Node, n.Error)
			}
		}
	})
}

// TestParseHead has the texts of an answer that only a hostile node sends: they are cut, or dropped.
func TestParseHead(t *testing.T) {
	text := fmt.Sprintf(`{"node":%q,"start":"2026-01-01T00:00:00Z","mode":"\ud800","stopped":"%s","summary":{"reasons":{"mounted":2,"evil":3,"data":-4}}}`,
		strings.Repeat("n", 10_000), strings.Repeat("s", 1000))
	h, err := parseHead([]byte(text))
	must(t, err)
	if len(h.Node) > mostText || h.Stopped != "unknown" || len(h.Summary.Reasons) != 1 || h.Summary.Reasons[judge.IsMounted] != 2 {
		t.Errorf("%+v", h)
	}
}

// TestSweep waits for the scans of nodes: a daemon that starts anew is asked again, one that does not end its pass is named,
// an open breaker is, and observing is no failure.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// node ends a pass each 10 seconds, and another daemon starts after restart.
		node := func(restart time.Duration, s reaper.Status, end bool) func(net.Conn, *http.Request) {
			asked := time.Duration(-1)
			return func(c net.Conn, r *http.Request) {
				now := time.Since(began)
				d := newServer()
				if restart > 0 && now >= restart {
					d.Start = d.Start.Add(time.Minute)
					if asked < restart {
						asked = -1
					}
				}
				d.Ask = func(string) uint64 { asked = now; return 4 }
				d.Ended(3, s, nil)
				if end && asked >= 0 && now-asked > 10*time.Second {
					d.Ended(4, s, nil)
				}
				daemon(d)(c, r)
			}
		}
		enforce := reaper.Status{Mode: "enforce"}
		nodes := answers{
			"quick":    node(0, enforce, true),
			"restarts": node(5*time.Second, enforce, true),
			"stuck":    node(0, enforce, false),
			"breaker":  node(0, reaper.Status{Mode: "enforce", Operator: true, Breaker: &judge.Event{}}, true),
			"dies": func(c net.Conn, r *http.Request) {
				if r.Method == "POST" {
					node(0, enforce, true)(c, r)
					return
				}
				raw(503, "")(c, r)
			},
			"observes": node(0, reaper.Status{Mode: "observe", Operator: true}, true),
		}
		targets := append(nodes.targets(), Target{Node: "gone", URL: "https://gone:1"})
		var served sync.WaitGroup
		f := nodes.client(&served).sweep(t.Context(), targets, time.Minute)
		got := map[string]Node{}
		for _, n := range f.Nodes {
			got[n.Node] = n
		}
		for name, pass := range map[string]uint64{"quick": 4, "restarts": 4, "breaker": 4, "observes": 4} {
			if n := got[name]; n.Error != "" || n.Pass != pass {
				t.Errorf("%s: %+v", name, n)
			}
		}
		if n := got["restarts"]; n.Start.Equal(got["quick"].Start) {
			t.Errorf("the answer of a daemon that has ended: %+v", n)
		}
		if !strings.Contains(got["stuck"].Error, "has not ended after 1m0s") || !strings.Contains(got["gone"].Error, "refused") {
			t.Errorf("stuck: %q; gone: %q", got["stuck"].Error, got["gone"].Error)
		}
		if text := got["dies"].Error; !strings.Contains(text, "has not ended") || !strings.Contains(text, "503") {
			t.Errorf("a daemon that dies: %s", text)
		}
		if f.Sums.Failed != 3 || f.Sums.Breakers != 1 || f.Sums.Observe != 1 || !f.Operator || f.Nodes[0].Node != "breaker" || f.Nodes[0].Summary.Operator != 1 {
			t.Errorf("%+v, first %s", f.Sums, f.Nodes[0].Node)
		}
		// More nodes hang than are asked at once: the others are asked none the less.
		nodes["quick2"] = node(0, enforce, true)
		c := nodes.client(&served)
		c.Parallel = 1
		two := []Target{{Node: "stuck", URL: "https://stuck:1"}, {Node: "quick2", URL: "https://quick2:1"}}
		for _, n := range c.sweep(t.Context(), two, time.Minute).Nodes {
			if n.Node == "quick2" && n.Error != "" {
				t.Errorf("a node after one that hangs: %s", n.Error)
			}
		}
		only := answers{"breaker": nodes["breaker"]}
		if f := only.client(&served).sweep(t.Context(), only.targets(), 0); f.Sums.Failed != 0 || !f.Operator {
			t.Errorf("no operator is needed for an open breaker: %+v", f)
		}
		delete(nodes, "breaker")
		delete(nodes, "stuck")
		delete(nodes, "dies")
		if f := nodes.client(&served).sweep(t.Context(), nodes.targets(), 0); f.Operator {
			t.Errorf("an operator is needed for nothing: %+v", f)
		}
	})
}

// TestOverTLS asks a real server: with its authority and the right password it answers, and each error says what to do.
func TestOverTLS(t *testing.T) {
	s := serve(t, withTLS+users(t), false)
	s.Ended(8, reaper.Status{Mode: "enforce"}, nil)
	for _, c := range []struct {
		name, password, host string
		trusted              bool
		want                 string
	}{
		{"right", "right", "", true, ""},
		{"by the Service's name", "right", Service{"ns", "orphan-reaper"}.Host(), true, ""},
		{"another name", "right", "elsewhere", true, "--ca"},
		{"not trusted", "right", "", false, "--ca"},
		{"wrong password", "wrong", "", true, "--password-file"},
	} {
		conf := &tls.Config{ServerName: c.host}
		if c.trusted {
			conf.RootCAs = s.roots
		}
		client := &Client{TLS: conf, User: "op", Password: c.password, Parallel: 1, Timeout: time.Minute}
		target, err := ParseTarget(s.url)
		must(t, err)
		list, sweep := client.List(t.Context(), []Target{target}), client.Sweep(t.Context(), []Target{target}, 0)
		for _, n := range []Node{list.Nodes[0], sweep.Nodes[0]} {
			if c.want == "" && (n.Error != "" || n.Pass != 8 || n.Version != "v1") || !strings.Contains(n.Error, c.want) {
				t.Errorf("%s: %+v", c.name, n)
			}
		}
		if c.want == "" && sweep.Nodes[0].Scan != 9 {
			t.Errorf("%s: asked for pass %d", c.name, sweep.Nodes[0].Scan)
		}
	}
}

// TestModel checks that the JSON of a fleet has the sums and the nodes without a name twice.
func TestModel(t *testing.T) {
	f := newFleet([]Node{{Head: Head{Node: "a", Mode: "observe", Summary: Summary{Keep: 2, Operator: 1}}, URL: "https://a:1"}})
	text, err := json.Marshal(f)
	must(t, err)
	for _, want := range []string{`"sums":{"nodes":1,`, `"keep":2`, `"nodes":[{"node":"a",`, `"url":"https://a:1"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
