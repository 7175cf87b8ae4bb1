// Package webconfig has Prometheus' exporter-toolkit and our own reader of web configurations (reaper/fleet/webconfig) answer
// to the same files and requests: make lint-web.
package webconfig
