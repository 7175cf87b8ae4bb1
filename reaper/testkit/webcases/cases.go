package webcases

import (
	"crypto/tls"
	"maps"
	"slices"
	"strings"
)

// The password is "secret", at bcrypt's least cost.
const (
	users = "basic_auth_users:\n  alice: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G\n"
	pair  = "cert_file: server.crt, key_file: server.key"
	in13  = "200, TLS 1.3 by server"
	in12  = "200, TLS 1.2 by server"
)

func with(section string) string { return "tls_server_config: {" + pair + ", " + section + "}\n" }

// one is a case of one request.
func one(name, file string, r Request, want string) Case {
	r.Want = want
	return Case{Name: name, File: file, Requests: []Request{r}}
}

// Cases are all of them.
func Cases() []Case {
	return slices.Concat(bad(), plain(), passwords(), secure(), certificates(), replaced(), limited())
}

// bad are files that are refused.
func bad() (list []Case) {
	files := map[string]string{
		"unknown section":           "tls_config: {}\n",
		"unknown key of TLS":        with("cert_fil: x"),
		"unknown key of HTTP":       "http_server_config: {http3: true}\n",
		"unknown key of the rate":   "rate_limit: {bursts: 1}\n",
		"no YAML":                   "tls_server_config: [\n",
		"no mapping":                "junk\n",
		"list of users":             "basic_auth_users: [alice]\n",
		"key without a name":        "~: {}\n",
		"mapping as a key":          "http_server_config: {headers: {{a: b}: deny}}\n",
		"section twice":             "http_server_config: {}\nhttp_server_config: {}\n",
		"user twice":                users + "  alice: x\n",
		"hash that is none":         "basic_auth_users: {alice: secret}\n",
		"user without a hash":       "basic_auth_users: {alice: }\n",
		"no key":                    "tls_server_config: {cert_file: server.crt}\n",
		"no certificate":            "tls_server_config: {key_file: server.key}\n",
		"only a type of clients":    "tls_server_config: {client_auth_type: NoClientCert}\n",
		"only an authority":         "tls_server_config: {client_ca_file: ca.crt}\n",
		"empty name of a file":      "tls_server_config: {cert_file: '', key_file: server.key}\n",
		"certificate not there":     "tls_server_config: {cert_file: none.crt, key_file: server.key}\n",
		"key not there":             "tls_server_config: {cert_file: server.crt, key_file: none.key}\n",
		"certificate that is none":  "tls_server_config: {cert_file: junk.crt, key_file: server.key}\n",
		"key of another":            "tls_server_config: {cert_file: server.crt, key_file: second.key}\n",
		"inline junk":               "tls_server_config: {cert: junk, key: junk}\n",
		"file wins over inline":     with("cert_file: none.crt, cert: x"),
		"authority without a type":  with("client_ca_file: ca.crt"),
		"authority and no client":   with("client_ca_file: ca.crt, client_auth_type: NoClientCert"),
		"authority not there":       with("client_ca_file: none.crt, client_auth_type: RequireAndVerifyClientCert"),
		"unknown type of clients":   with("client_auth_type: Sometimes"),
		"unknown cipher suite":      with("cipher_suites: [TLS_NONE]"),
		"weak cipher suite":         with("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]"),
		"unknown curve":             with("curve_preferences: [CurveP111]"),
		"unknown version":           with("min_version: SSL30"),
		"version by number":         with("max_version: 1.2"),
		"names that are no list":    with("client_allowed_sans: {a: b}"),
		"HTTP/2 neither way":        "http_server_config: {http2: perhaps}\n",
		"header that cannot be set": "http_server_config: {headers: {Server: x}}\n",
		"header in small letters":   "http_server_config: {headers: {x-frame-options: deny}}\n",
		"X-Frame-Options":           "http_server_config: {headers: {X-Frame-Options: allow}}\n",
		"X-Content-Type-Options":    "http_server_config: {headers: {X-Content-Type-Options: sniff}}\n",
		"burst in words":            "rate_limit: {burst: many}\n",
		"interval in words":         "rate_limit: {interval: often}\n",
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, Case{Name: "bad: " + name, File: files[name], Refused: true})
	}
	return append(list, Case{
		Name: "bad: user without a name", File: strings.Replace(users, "alice", "~", 1), Refused: true, Requests: []Request{{Want: "200"}},
		Theirs: "the user's name is empty",
	}, Case{
		Name: "bad: authority without a certificate", File: with("client_ca_file: empty.crt, client_auth_type: RequireAndVerifyClientCert"), Refused: true,
		Requests: []Request{{TLS: true, Cert: "bob", Want: in13}}, Theirs: "it starts, and no client can connect",
	})
}

// plain are files without TLS and passwords.
func plain() []Case {
	return []Case{
		one("empty", "", Request{}, "200"),
		one("comment", "# nothing\n", Request{}, "200"),
		one("null", "tls_server_config:\nhttp_server_config: ~\nrate_limit:\nbasic_auth_users:\n", Request{}, "200"),
		one("no users", "basic_auth_users: {}\n", Request{}, "200"),
		one("second document", "http_server_config: {}\n---\njunk: [\n", Request{}, "200"),
		one("versions alone are no TLS", "tls_server_config: {min_version: TLS13, client_allowed_sans: [a], prefer_server_cipher_suites: false}\n", Request{}, "200"),
		one("no TLS", "", Request{TLS: true}, refused),
		one("HTTP/2 off", "http_server_config: {http2: off}\n", Request{}, "200"),
		one("headers", `http_server_config:
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Content-Type-Options: nosniff
    X-Frame-Options: sameorigin
    X-XSS-Protection: 0
    Content-Security-Policy: default-src 'self'
`, Request{}, "200, Strict-Transport-Security: max-age=31536000, X-Content-Type-Options: nosniff, X-Frame-Options: sameorigin, X-XSS-Protection: 0, "+
			"Content-Security-Policy: default-src 'self'"),
		{Name: "header added and file broken", Requests: []Request{
			{Want: "200"},
			{Before: map[string]string{"web.yml": "http_server_config: {headers: {X-Frame-Options: deny}}\n"}, Want: "200, X-Frame-Options: deny"},
			{Before: map[string]string{"web.yml": "http_server_config: ["}, Want: "500"},
			{Before: map[string]string{"web.yml": "-"}, Want: "500"},
			{Before: map[string]string{"web.yml": "{}"}, Want: "200"},
		}},
	}
}

// passwords are files with users.
func passwords() []Case {
	const no = "401, WWW-Authenticate: Basic"
	return []Case{
		{Name: "passwords", File: users, Requests: []Request{
			{Want: no},
			{User: "alice", Pass: "secret", Want: "200"},
			{User: "alice", Pass: "secret", Want: "200"},
			{User: "alice", Pass: "wrong", Want: no},
			{User: "alice", Want: no},
			{User: "bob", Pass: "secret", Want: no},
			{User: "Alice", Pass: "secret", Want: no},
		}},
		{Name: "password taken back", File: users, Requests: []Request{
			{User: "alice", Pass: "secret", Want: "200"},
			{Before: map[string]string{"web.yml": strings.Replace(users, "alice", "bob", 1)}, User: "alice", Pass: "secret", Want: no},
			{User: "bob", Pass: "secret", Want: "200"},
			{Before: map[string]string{"web.yml": "basic_auth_users: {bob: secret}"}, User: "bob", Pass: "secret", Want: no},
			{Before: map[string]string{"web.yml": "{}"}, Want: "200"},
			{Before: map[string]string{"web.yml": users}, Want: no},
		}},
		one("headers of a refusal", users+"http_server_config: {headers: {X-Frame-Options: deny}}\n", Request{}, no+", X-Frame-Options: deny"),
		one("password by TLS", with("")+users, Request{TLS: true, User: "alice", Pass: "secret"}, in13),
		one("no password by TLS", with("")+users, Request{TLS: true}, no+", TLS 1.3 by server"),
	}
}

// secure are files with TLS and no client's certificate.
func secure() []Case {
	old := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
	only := with("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256], max_version: TLS12, prefer_server_cipher_suites: true")
	return []Case{
		one("TLS", with(""), Request{TLS: true}, in13),
		one("TLS 1.2", with(""), Request{TLS: true, Max: tls.VersionTLS12}, in12),
		one("TLS 1.1", with(""), Request{TLS: true, Max: tls.VersionTLS11}, refused),
		one("TLS 1.1 allowed", with("min_version: TLS10"), Request{TLS: true, Max: tls.VersionTLS11}, "200, TLS 1.1 by server"),
		one("TLS 1.2 not allowed", with("min_version: TLS13"), Request{TLS: true, Max: tls.VersionTLS12}, refused),
		one("TLS 1.3 not allowed", with("max_version: TLS12"), Request{TLS: true}, in12),
		one("no version left", with("min_version: TLS13, max_version: TLS12"), Request{TLS: true}, refused),
		one("without TLS", with(""), Request{}, "400"),
		one("cipher suite", only, Request{TLS: true}, in12),
		one("other cipher suite", only, Request{TLS: true, Suites: old}, refused),
		one("curve", with("curve_preferences: [CurveP384]"), Request{TLS: true}, in13),
		one("other curve", with("curve_preferences: [CurveP384, CurveP521]"), Request{TLS: true, Curves: []tls.CurveID{tls.X25519}}, refused),
		one("HTTP/1.1", with(""), Request{TLS: true, Protos: []string{"http/1.1"}}, in13),
		one("HTTP/2 only", with(""), Request{TLS: true, Protos: []string{"h2"}}, refused),
		one("headers by TLS", with("")+"http_server_config: {headers: {X-Frame-Options: deny}, http2: true}\n", Request{TLS: true},
			"200, X-Frame-Options: deny, TLS 1.3 by server"),
	}
}

// certificates are files that ask for clients' certificates: of each type, what is answered to each client.
func certificates() (list []Case) {
	for kind, in := range map[string]string{
		"NoClientCert":               " none alice bob mallory eve ",
		"RequestClientCert":          " none alice bob mallory eve ",
		"RequireAnyClientCert":       " alice bob mallory eve ",
		"RequireClientCert":          " alice bob mallory eve ",
		"VerifyClientCertIfGiven":    " none alice bob ",
		"RequireAndVerifyClientCert": " alice bob ",
	} {
		section := "client_auth_type: " + kind
		if kind != "NoClientCert" {
			section += ", client_ca_file: ca.crt"
		}
		list = append(list,
			ofEach(kind, with(section), in),
			// A name is asked for wherever a certificate is.
			ofEach(kind+" and a name", with(section+", client_allowed_sans: [other, bob.example]"), named(kind, in, "bob")),
			ofEach(kind+" and no name", with(section+", client_allowed_sans: []"), named(kind, in, "")),
		)
	}
	const all = "client_auth_type: RequireAndVerifyClientCert"
	for kind, name := range map[string]string{"IP address": "192.0.2.5", "e-mail": "bob@example.com", "URI": "spiffe://example/bob"} {
		list = append(list, ofEach("name that is an "+kind, with(all+", client_ca_file: ca.crt, client_allowed_sans: ['"+name+"']"), " bob "))
	}
	slices.SortFunc(list, func(a, b Case) int { return strings.Compare(a.Name, b.Name) })
	return append(list,
		one("name of the subject is none", with(all+", client_ca_file: ca.crt, client_allowed_sans: [bob]"), Request{TLS: true, Cert: "bob"}, refused),
		one("public authorities", with(all), Request{TLS: true, Cert: "bob"}, refused),
		one("empty authority and no certificate", with("client_ca_file: empty.crt, client_auth_type: VerifyClientCertIfGiven"), Request{TLS: true}, in13),
		one("empty authority", with("client_ca_file: empty.crt, client_auth_type: VerifyClientCertIfGiven"), Request{TLS: true, Cert: "bob"}, refused),
	)
}

// named are the clients whose certificate has a name that is allowed.
func named(kind, in, name string) string {
	switch {
	case kind == "NoClientCert":
		return in
	case name == "":
		return ""
	}
	return " " + name + " "
}

// ofEach asks by each certificate, by TLS 1.3 and 1.2.
func ofEach(name, file, in string) Case {
	c := Case{Name: name, File: file}
	for _, client := range []string{"none", "alice", "bob", "mallory", "eve"} {
		for version, want := range map[uint16]string{tls.VersionTLS12: in12, tls.VersionTLS13: in13} {
			if !strings.Contains(in, " "+client+" ") {
				want = refused
			}
			r := Request{TLS: true, Max: version, Cert: client, Want: want}
			if client == "none" {
				r.Cert = ""
			}
			c.Requests = append(c.Requests, r)
		}
	}
	return c
}

// replaced are files that are replaced while the server runs.
func replaced() []Case {
	second := map[string]string{"server.crt": "=second.crt", "server.key": "=second.key"}
	const verify = "client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt"
	return []Case{
		{Name: "certificate replaced", File: with(""), Requests: []Request{
			{TLS: true, Want: in13},
			{TLS: true, Before: second, Want: "200, TLS 1.3 by second"},
			{TLS: true, Before: map[string]string{"server.crt": "=server.crt"}, Want: refused},
			{TLS: true, Before: map[string]string{"server.key": "=server.key"}, Want: in13},
			{TLS: true, Before: map[string]string{"server.crt": "-"}, Want: refused},
			{TLS: true, Before: map[string]string{"server.crt": "=server.crt"}, Want: in13},
		}},
		{Name: "authority replaced", File: with(verify), Requests: []Request{
			{TLS: true, Cert: "bob", Want: in13},
			{TLS: true, Cert: "bob", Before: map[string]string{"ca.crt": "=otherca.crt"}, Want: refused},
			{TLS: true, Cert: "mallory", Want: in13},
			{TLS: true, Cert: "mallory", Before: map[string]string{"ca.crt": "-"}, Want: refused},
		}},
		{Name: "file replaced", File: with(verify), Requests: []Request{
			{TLS: true, Want: refused},
			{TLS: true, Before: map[string]string{"web.yml": with("")}, Want: in13},
			{TLS: true, Before: map[string]string{"web.yml": "{}"}, Want: refused}, // off takes a restart
			{Want: "400"},
			{TLS: true, Before: map[string]string{"web.yml": with("min_version: none")}, Want: refused},
			{TLS: true, Before: map[string]string{"web.yml": "-"}, Want: refused},
			{TLS: true, Before: map[string]string{"web.yml": with("max_version: TLS12")}, Want: in12},
		}},
		{Name: "TLS turned on", File: "", Requests: []Request{
			{Want: "200"},
			{TLS: true, Before: map[string]string{"web.yml": with("")}, Want: refused}, // on, too
			{Want: "200"},
		}},
	}
}

// limited are files that bound the rate.
func limited() []Case {
	const many = "429"
	return []Case{
		{Name: "rate", File: "rate_limit: {burst: 2, interval: 1h}\n", Requests: []Request{{Want: "200"}, {Want: "200"}, {Want: many}, {Want: many}}},
		{Name: "rate by number", File: "rate_limit: {burst: 1, interval: 3600000000000}\n", Requests: []Request{{Want: "200"}, {Want: many}}},
		{Name: "rate comes before passwords", File: users + "rate_limit: {burst: 1, interval: 1h}\n", Requests: []Request{
			{Want: "401, WWW-Authenticate: Basic"}, {User: "alice", Pass: "secret", Want: many},
		}},
		one("rate without a burst", "rate_limit: {interval: 1h}\n", Request{}, many),
		{Name: "rate without an interval", File: "rate_limit: {burst: 1}\n", Requests: []Request{{Want: "200"}, {Want: "200"}}},
		{Name: "rate of no interval", File: "rate_limit: {burst: 1, interval: 0}\n", Requests: []Request{{Want: "200"}, {Want: "200"}}},
		{Name: "rate below nothing", File: "rate_limit: {burst: 1, interval: -1s}\n", Requests: []Request{{Want: "200"}, {Want: "200"}}},
		{Name: "rate by TLS", File: with("") + "rate_limit: {burst: 1, interval: 1h}\n", Requests: []Request{
			{TLS: true, Want: in13}, {TLS: true, Want: many + ", TLS 1.3 by server"},
		}},
	}
}
