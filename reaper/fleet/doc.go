// Package fleet serves the status of one node over HTTP, and asks many nodes for theirs.
//
// # One node
//
// Nothing listens by default. With web_listen_address the daemon serves
//
//	GET  /metrics   Prometheus' text format
//	GET  /healthz   503 while a changing call hangs: the same rule as systemd's watchdog
//	GET  /readyz    503 in mode enforce, until the daemon has run for hold, confirm and four minutes with a closed circuit
//	                breaker, and while the last pass failed. A rolling update waits for it, node by node.
//	GET  /report    the status of the last pass, at most 64 KiB
//	POST /scan      asks for a pass, and answers with its number
//
// TLS and passwords are those of Prometheus' web configuration (web_config_file), which its exporter-toolkit reads anew for
// each connection and request. /report and /scan answer 404 unless the request came over TLS and with a password of
// basic_auth_users: the toolkit passes every request on if the file names no user, and it reads the file at another moment
// than this package. So the password is compared here, too. A client certificate is no password.
//
// The toolkit asks for a password on every path, and a probe of the kubelet has none. An address with the prefix "probes="
// serves /healthz and /readyz, without TLS and password, and nothing else.
//
// No request moves, removes, restores or resumes anything. A request is answered from the last pass, reads no file but the
// web configuration, and is bounded in time and size. Each address serves at most 64 connections, of one request each.
//
// # Many nodes
//
// List and Sweep ask daemons, which Daemons finds by the EndpointSlices of a Service: also those that are not ready, since
// an open circuit breaker must not hide a node. They read the head of a report, at most 64 KiB, and nothing of it is
// believed but its own node's numbers, within bounds. Redirects and proxies are not followed: the password goes to the
// address that was given.
package fleet
