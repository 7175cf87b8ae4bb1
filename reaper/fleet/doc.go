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
// A connection carries one request. Each listener serves at most mostOpen connections at once, and the others wait.
// Headers, bodies and the time of a request are limited as well. The report has at most 100 pods.
//
// # Access
//
// /metrics, /healthz and /readyz name no pod. /v1/orphans names pods and /v1/sweep costs a look, so both require an
// authenticated client or one on this host (see trusted). TLS, passwords and client certificates are those of
// Prometheus' web configuration, which its exporter-toolkit reads and enforces.
package fleet
