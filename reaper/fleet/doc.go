// Package fleet answers for one node over HTTP: with its metrics, whether it is well, and which
// orphans it has and why. A client may also ask for a look.
//
// It is off by default. Nothing that removes, restores or resumes can be asked for: who breaks in
// can read the report and ask for a look, at most once in a while.
//
// # What it must not do
//
// It does not read the node, judge or change anything. The loop hands it what each pass found
// (Server.Publish), and it asks the loop for a look (Config.Ask). A request is answered from what the
// last pass found; it waits for no runtime, and for no file but the web configuration.
//
// # What a client may cost
//
// A connection carries one request. How many are open, and how many come in a second, is bounded
// for each address, for each network of IPv6 and for all together (see limited); headers, bodies, and the time that each may
// take are bounded as well. The report has at most 100 pods, whatever lies on the node.
//
// # Who may ask
//
// /metrics, /healthz and /readyz name no pod. /v1/orphans names pods and /v1/sweep costs a look,
// so both want either an authenticated client or one of this host (see trusted). TLS, passwords
// and client certificates are those of Prometheus' web configuration, which its exporter-toolkit reads and enforces;
// whose a bearer token is, and what it may, is asked of the API server (see review).
package fleet
