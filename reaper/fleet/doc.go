// Package fleet serves one node's metrics, health and report of orphans over HTTP. A client may also
// ask for a look.
//
// It is off by default. No request can remove, restore or resume anything: an intruder
// can read the report and ask for a look, at most once in a while.
//
// # What it must not do
//
// It does not read the node, judge or change anything. The loop passes it the results of each pass
// (Server.Publish), and it asks the loop for a look (Config.Ask). A request is answered from the
// last pass; it waits for no runtime, and for no file but the web configuration.
//
// # What a client may cost
//
// A connection carries one request. How many are open, and how many come in a second, is bounded
// for each address, for each network of IPv6 and for all together (see limits); headers, bodies, and the time that each may
// take are bounded as well. The report has at most 100 pods, whatever lies on the node.
//
// # Who may ask
//
// /metrics, /healthz and /readyz name no pod. /v1/orphans names pods and /v1/sweep costs a look,
// so both want either an authenticated client or one of this host (see trusted). TLS, passwords
// and client certificates are those of Prometheus' web configuration, which its exporter-toolkit reads and enforces.
//
// A bearer token is checked by the API server ([Reviewer]): a TokenReview returns its user and a SubjectAccessReview whether that
// user may make the request, as for the kubelet. Only tokens for [Audience] count. So a compromised node
// that is sent a token can use it for the daemons of other nodes, and for nothing else. Results are kept for a short while
// by a hash of the token; that it was allowed, for an hour, so that questions about known and unknown tokens are counted apart. A
// token that could not be checked is refused. No log and no error has a token.
package fleet
