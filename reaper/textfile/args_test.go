package textfile

import (
	"strings"
	"testing"
)

func TestDirectoryIn(t *testing.T) {
	for args, want := range map[string]string{
		"node_exporter": "",
		"node_exporter --collector.textfile.directory=/a/b":                                   "/a/b",
		"node_exporter --collector.textfile.directory /a/b --x":                               "/a/b",
		"node_exporter -collector.textfile.directory=/old":                                    "/old",
		"node_exporter --collector.textfile.directory":                                        "",
		"node_exporter --collector.textfile.directory=":                                       "",
		"node_exporter --collector.textfile.directory=rel/ative":                              "",
		"node_exporter --collector.textfile.directory=/p/* --collector.textfile.directory=/q": "/q",
		"node_exporter collector.textfile.directory=/a":                                       "",
		"node_exporter --no-collector.textfile":                                               "",
		"node_exporter --collector.textfile.directory=/a --collector.textfile.directory=/b":   "/a",
	} {
		if got := directoryIn(strings.Fields(args)); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestDirectoryOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"ARGS=\"\"\n# Prometheus-node-exporter supports the following options:\n#  --collector.textfile.directory=\"/var/lib/prometheus/node-exporter\"\n": "",
		"ARGS=\"--collector.textfile.directory=/a --web.listen-address=:9\"\n":                                                                             "/a",
		"OPTIONS=\"--collector.textfile.directory /var/lib/node_exporter/textfile_collector\"\n":                                                           "/var/lib/node_exporter/textfile_collector",
		"export ARGS='--x \\\n  --collector.textfile.directory=/b \\\n --y'\n":                                                                             "/b",
		"ARGS=--collector.textfile.directory=/c\n":                                                                                                         "/c",
		"A=1\nARGS=\"--collector.textfile.directory=\\\"/d\\\"\"\n":                                                                                        "",
		"this is no assignment --collector.textfile.directory=/e\n":                                                                                        "",
	} {
		if got := directoryOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
