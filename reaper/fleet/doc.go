// Package fleet serves one node's metrics, health and report of orphans over HTTP. A client may also
// request a look.
//
// It is off by default. No request can remove, restore or resume anything: an intruder can read the
// report and request a limited number of looks.
//
// # What it must not do
//
// It does not read the node, judge or change anything. The loop passes it the results of each pass
// (Server.Publish), and it asks the loop for a look (Config.Ask). A request is answered from the
// last pass; it waits for no runtime, and reads no file except the web configuration.
//
// # Limits
//
// A connection carries one request. The connections that are open at once, and those of a second, are limited for
// each address, for each IPv6 network and in total (see limits). Headers, bodies and the time of a request are
// limited as well. The report has at most 100 pods.
//
// # Access
//
// /metrics, /healthz and /readyz name no pod. /v1/orphans names pods and /v1/sweep costs a look, so both require an
// authenticated client or one on this host (see trusted). TLS, passwords and client certificates are those of
// Prometheus' web configuration, which its exporter-toolkit reads and enforces.
//
// The API server checks a bearer token ([Reviewer]): a TokenReview returns its user, and a SubjectAccessReview whether
// that user may make the request, as for the kubelet. Only tokens for [Audience] count, so a compromised node that
// receives a token can use it only for the daemons of other nodes. Results are kept for a short time by a hash of the
// token. For an hour the Reviewer remembers that a token was allowed, so that known and unknown tokens have separate
// limits. A token that could not be checked is refused. No log and no error contains a token.
package fleet
