package main

var fleetFaults = []fault{
	{
		kind: refused, slip: "a password that came without TLS gets the report",
		file: "reaper/fleet/auth.go", in: "Server.authenticated",
		old: `r.TLS == nil || !ok`, new: `!ok`,
	},
	{
		kind: refused, slip: "a password that the toolkit has not compared is right",
		file: "reaper/fleet/auth.go", in: "Server.authenticated",
		old: `known && bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil`, new: `known && bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != bcrypt.ErrHashTooShort`,
	},
	{
		kind: refused, slip: "a page of another origin has a node scan",
		file: "reaper/fleet/server.go", in: "Server.handler",
		old: `http.NewCrossOriginProtection().Handler(mux)`, new: `mux`,
	},
	{
		kind: refused, slip: "the listener for probes has the report, too",
		file: "reaper/fleet/server.go", in: "Server.handler",
		old: `if !probes {`, new: `{`,
	},
	{
		kind: refused, slip: "an address without TLS is asked with the password",
		file: "reaper/fleet/ask.go", in: "ParseTarget",
		old: `case u.Scheme != "https":`, new: `case u.Scheme != "https" && u.Scheme != "http":`,
	},
	{
		kind: refused, slip: "the client follows the redirect of an API server with its token",
		file: "reaper/fleet/service.go", in: "Daemons",
		old: `client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }`, new: ``,
	},
	{
		kind: refused, slip: "the answer of a node may have any length",
		file: "reaper/fleet/ask.go", in: "Client.ask",
		old: `io.LimitReader(a.Body, mostReport+1)`, new: `a.Body`,
	},
	{
		kind: refused, slip: "a node adds any number to the sums",
		file: "reaper/fleet/ask.go", in: "Summary.check",
		old: `if *n < 0 || *n > most {`, new: `if *n < 0 {`,
	},
	{
		kind: refused, slip: "a node chooses the name under which it is shown",
		file: "reaper/fleet/many.go", in: "Client.each",
		old: `h.Node = t.Node`, new: `h.Node = cmp.Or(h.Node, t.Node)`,
	},
	{
		kind: refused, slip: "one connection carries requests without end",
		file: "reaper/fleet/server.go", in: "Server.serve",
		old: `h.SetKeepAlivesEnabled(false)`, new: `h.SetKeepAlivesEnabled(true)`,
	},
	{
		kind: slip, slip: "the header with the password is not sent",
		file: "reaper/fleet/ask.go", in: "Client.ask",
		old: `r.SetBasicAuth(c.User, c.Password)`, new: `r.Header.Set("User", c.User+c.Password)`,
	},
	{
		kind: slip, slip: "the time with a closed circuit breaker goes on from before it opened",
		file: "reaper/fleet/server.go", in: "Server.Ended",
		old: "case s.head.Breaker:\n\t\ts.closed = judge.Instant{}", new: "case s.head.Breaker:",
	},
	{
		kind: slip, slip: "a node that is ready does not wait for confirm",
		file: "reaper/fleet/server.go", in: "Server.unready",
		old: `s.Settings.Hold + s.Settings.Confirm + settled`, new: `s.Settings.Hold + settled`,
	},
	{
		kind: slip, slip: "a pass that failed is the last one that ended well",
		file: "reaper/fleet/server.go", in: "Server.Ended",
		old: `s.head.Pass, s.head.Failed = pass, err.Error()`, new: `s.head.Pass = pass`,
	},
	{
		kind: slip, slip: "the report of a daemon that hangs is that of its last pass",
		file: "reaper/fleet/server.go", in: "Server.getReport",
		old: `if hangs != nil { // the pass`, new: `if hangs != nil && status == nil { // the pass`,
	},
	{
		kind: slip, slip: "the reason why a node did nothing at an earlier pass stays",
		file: "reaper/fleet/report.go", in: "Head.fill",
		old: `s.Operator, ""`, new: `s.Operator, h.Stopped`,
	},
	{
		kind: slip, slip: "a long report leaves out the pods that need an operator",
		file: "reaper/fleet/report.go", in: "Report.encode",
		old: `func(a, b reaper.PodStatus) int { return first(a.Operator, b.Operator) }`,
		new: `func(a, b reaper.PodStatus) int { return first(b.Operator, a.Operator) }`,
	},
	{
		kind: slip, slip: "a daemon that has started since is not asked again",
		file: "reaper/fleet/many.go", in: "Client.again",
		old: `err == nil && !h.Start.Equal(asked.Start)`, new: `err == nil && h.Start.Before(asked.Start)`,
	},
	{
		kind: slip, slip: "a scan that has not ended counts as ended",
		file: "reaper/fleet/many.go", in: "Client.await",
		old: `n.Pass >= asked[i].Scan`, new: `n.Pass >= asked[i].Pass`,
	},
	{
		kind: slip, slip: "a node that hangs keeps the others from being asked",
		file: "reaper/fleet/ask.go", in: "Client.ask",
		old: `context.WithTimeoutCause(ctx, c.Timeout, errNoAnswer)`, new: `context.WithCancel(ctx)`,
	},
	{
		kind: slip, slip: "a node that has not answered is no failure",
		file: "reaper/fleet/many.go", in: "Client.list",
		old: `f.Sums.Failed+f.Sums.Breakers`, new: `f.Sums.Breakers`,
	},
	{
		kind: slip, slip: "a list of the API server that is too old is an empty one",
		file: "reaper/fleet/service.go", in: "Daemons",
		old: `status.code != http.StatusGone || again == 3`, new: `status.code != http.StatusConflict || again == 3`,
	},
	{
		kind: slip, slip: "the Service's other port is asked",
		file: "reaper/fleet/service.go", in: "portOf",
		old: `if p.Name == "https" {`, new: `if p.Name != "" {`,
	},
}
