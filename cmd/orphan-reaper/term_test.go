package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 10, []string{"one two", "three"}},
		{"0123456789", 10, []string{"0123456789"}},
		{"0123456789a", 10, []string{"0123456789", "a"}},
		{"/var/lib/kubelet/pods", 10, []string{"/var/lib/", "kubelet/", "pods"}},
		{"a /var/lib/kubelet", 10, []string{"a", "/var/lib/", "kubelet"}},
		{"äöüäöüäöüäöü", 10, []string{"äöüäöüäöüä", "öü"}},
		{"too narrow", 1, []string{"too narrow"}},
	} {
		if got := wrap(c.text, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain /path-1": "plain /path-1", "grün": "grün", "a\x1b[2Jb": `a\x1b[2Jb`, "a\nb\x00": `a\nb\x00`,
		"a\u202eb": `a\u202eb`, "a\xffb": `a\xffb`, "a\u00a0b": `a\u00a0b`, "\ufffd": "\ufffd",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 1 << 20: "1.0 MiB", 1023 << 10: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 62: "4096 PiB"} {
		if got := size(n); got != want || len(got) > 8 {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 10 * time.Minute: "10m", 20 * time.Hour: "20h"} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %s, want %s", d.String(), got, want)
		}
		if back, err := parseDuration(span(d)); err != nil || back != d {
			t.Errorf("span(%s) reads as %s, %v", d, back, err)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", time.Hour: "1h00m", 47 * time.Hour: "47h00m", 72 * time.Hour: "3d"} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
	for want, got := range map[string]string{"1 pod": count(1, "pod"), "0 pods": count(0, "pod"), "2 entries": count(2, "entry"), "1 entry": count(1, "entry")} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestHelp: every command's help fits 80 columns, has an example and says what it is.
func TestHelp(t *testing.T) {
	env := func(string) string { return "" }
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		name := strings.Join(append(path, "--help"), " ")
		code, out, errs := call(t, "", append(path, "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s: code %d, %s", name, code, errs)
		}
		fits(t, name, out)
		if c.Name() != "help" && !c.HasSubCommands() && !strings.Contains(out, "\nExamples:\n  ") {
			t.Errorf("%s: no example", name)
		}
		if strings.HasSuffix(c.Short, ".") || c.Short == "" || len(c.Short) > 65 {
			t.Errorf("%s: short text %q", name, c.Short)
		}
		for _, sub := range c.Commands() {
			walk(append(slices.Clone(path), sub.Name()), sub)
		}
	}
	walk(nil, newRootCommand(&app{env: env, given: map[string][]string{}}))
}

// TestContractFlags: every flag and command of the command line's contract is there.
func TestContractFlags(t *testing.T) {
	root := newRootCommand(&app{env: func(string) string { return "" }, given: map[string][]string{}})
	for name := range strings.FieldsSeq(`config root-dir mode hold settle confirm retention max-per-look quarantine-dir state-dir
		log-source journal-unit log-file runtime-endpoint node-namespaces node-root cgroup-root kubelet-token-file kubelet-client-certificate kubelet-client-key
		kubeconfig node-name api-unreachable cni-cache-dir cni-data-dir cni-conf-dir
		cni-older-than metrics-file output log-level log-format`) {
		if root.PersistentFlags().Lookup(name) == nil {
			t.Errorf("no flag --%s", name)
		}
	}
	for _, path := range []string{
		"run", "scan", "explain", "sweep", "parse", "quarantine list", "quarantine restore", "quarantine purge", "quarantine resume",
		"config print", "config check", "version", "completion",
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err != nil || len(rest) > 0 || !c.Runnable() {
			t.Errorf("no command %s", path)
		}
	}
	if c, _, err := root.Find([]string{"parse"}); err != nil || c.Flags().Lookup("hints") == nil {
		t.Error("no parse --hints")
	}
}

// goneReader is a pipe that nobody reads any more.
type goneReader struct{ err error }

func (g goneReader) Write([]byte) (int, error) { return 0, g.err }

// TestPipe: a reader that has gone is no failure and does not change the code; a full
// disk is one.
func TestPipe(t *testing.T) {
	env := func(key string) string { return map[string]string{"FAKE": "all"}[key] }
	line := `E0331 15:47:45.892216    3416 kubelet_volumes.go:245] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"0badf00d-6131-4aaa-8bbb-cccc00006131\" found, but volume paths are still present on disk" numErrs=1` + "\n"
	for _, c := range []struct {
		args         []string
		gone, failed int
	}{
		{[]string{"scan"}, 3, 1},
		{[]string{"scan", "-o", "json"}, 3, 1},
		{[]string{"version"}, 0, 1},
		{[]string{"parse"}, 0, 1},
		{[]string{"completion", "bash"}, 0, 1},
		{[]string{"quarantine", "list"}, 0, 1},
	} {
		in := strings.NewReader(strings.Repeat(line, 100))
		if code := runWith(fakeDeps(env), c.args, in, goneReader{syscall.EPIPE}, io.Discard, env); code != c.gone {
			t.Errorf("%v into a closed pipe: code %d, want %d", c.args, code, c.gone)
		}
		in = strings.NewReader(strings.Repeat(line, 100))
		if code := runWith(fakeDeps(env), c.args, in, goneReader{syscall.ENOSPC}, io.Discard, env); code != c.failed {
			t.Errorf("%v onto a full disk: code %d, want %d", c.args, code, c.failed)
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, ok := range map[string]bool{"yes\n": true, "yes": true, "y\n": false, "\n": false, "": false, "YES\n": false, "no\nyes\n": false} {
		var out bytes.Buffer
		err := ask(strings.NewReader(answer), &out, "Remove?")
		if ok != (err == nil) || (!ok && !errors.Is(err, errNotConfirmed)) {
			t.Errorf("%q: %v", answer, err)
		}
		if out.String() != "Remove?\nType yes: " {
			t.Errorf("%q", out.String())
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"hold", "settle", "confirm", "max_per_look", "log_sources", "log_files"}
	for in, want := range map[string]string{
		"hodl": "hold", "hol": "hold", "Hold": "hold", "setle": "settle", "confrim": "confirm", "max_per": "max_per_look",
		"x": "", "": "", "zzzz": "", "log_file": "log_files", "hold": "hold",
	} {
		if got := nearest(in, words); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestProgress: on a terminal one line, replaced and taken away; elsewhere nothing.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{w: &out, width: 20}
	p.Show("held %d of %d", 1, 2)
	p.Show("held %d of %d", 1, 2)
	p.Show("a text that is longer than the line \x1b[2J")
	p.Clear()
	p.Clear()
	if got, want := out.String(), "\r\x1b[Kheld 1 of 2\r\x1b[Ka text that is lon…\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	a := &app{stderr: &out, env: func(string) string { return "" }}
	silent := newProgress(a.stderr, a.env)
	silent.Show("x")
	silent.Clear()
	if out.Len() > 0 {
		t.Errorf("%q without a terminal", out.String())
	}
}
