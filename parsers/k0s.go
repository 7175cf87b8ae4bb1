package parsers

import (
	"slices"
	"strings"
)

// k0sPrograms are the names under which k0s's supervisor logs: its own, and those of its
// units where journalctl prints them.
var k0sPrograms = []string{"k0s", "k0sworker", "k0scontroller", "k0sworker.service", "k0scontroller.service"}

// cutK0s takes off what k0s's supervisor puts around a line of each program that it runs:
//
//	time="2026-11-21 09:15:33" level=info msg="E1121 09:15:33.1 …" component=kubelet stream=stderr
//
// The text is the kubelet's only where component names it, once, and nothing else
// stands beside it: of a line that is longer than its buffer k0s numbers the pieces
// (chunk=2), and a piece's beginning is no line's.
func cutK0s(s string) (string, bool) {
	if !strings.HasPrefix(s, `time="`) {
		return "", false
	}
	fields, err := textFields(" " + s)
	if err != nil {
		return "", false
	}
	var msg string
	var seen []string
	for _, f := range fields {
		if f.Cut || slices.Contains(seen, f.Key) {
			return "", false
		}
		seen = append(seen, f.Key)
		switch f.Key {
		case "time", "level":
		case "msg":
			msg = f.Value
		case "component":
			if f.Value != "kubelet" {
				return "", false
			}
		case "stream":
			if f.Value != "stderr" && f.Value != "stdout" {
				return "", false
			}
		default:
			return "", false
		}
	}
	return msg, slices.Contains(seen, "component")
}
