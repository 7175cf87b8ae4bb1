package main

import (
	"strings"
	"testing"
)

// TestHintsLeadThere: a hint names a page that lists what was wrong.
func TestHintsLeadThere(t *testing.T) {
	for _, c := range []struct {
		args []string
		page []string
		flag string
	}{
		{[]string{"scan", "--hold", "5"}, []string{"run", "--help"}, "--hold"},
		{[]string{"scan", "--confirm", "5"}, []string{"run", "--help"}, "--confirm"},
		{[]string{"scan", "--hold"}, []string{"run", "--help"}, "--hold"},
		{[]string{"sweep", "--hold", "5"}, []string{"sweep", "--help"}, "--hold"},
		{[]string{"scan", "--verdict", "5"}, []string{"scan", "--help"}, "--verdict"},
		{[]string{"fleet", "list", "--config", "/x"}, []string{"fleet", "list", "--help"}, "--output"},
	} {
		_, _, said := call(t, c.args...)
		if !strings.Contains(said, "hint: orphan-reaper "+strings.Join(c.page, " ")) {
			t.Errorf("%v: %s", c.args, said)
		}
		if _, help, _ := call(t, c.page...); !strings.Contains(help, c.flag+" ") {
			t.Errorf("%v does not list %s", c.page, c.flag)
		}
	}
	if _, help, _ := call(t, "parse", "--help"); !strings.Contains(help, "text or json (default json)") {
		t.Errorf("parse writes JSON by default: %s", help)
	}
	_, help, _ := call(t, "run", "--help")
	for _, key := range []string{"in the file log_sources", "in the file log_files", "in the file web.config_file"} {
		if !strings.Contains(strings.Join(strings.Fields(help), " "), key) {
			t.Errorf("--help does not say %q", key)
		}
	}
}

// TestPathsOfKubelet: where nothing is changed a path below a pod's directory names the pod, by whatever name the
// kubelet has its directory.
func TestPathsOfKubelet(t *testing.T) {
	uid := wholeUID(1)
	for path, want := range map[string]string{
		uid + "/": uid, uid + "/volumes": uid, uid + "/volumes/kubernetes.io~csi/x/mount": uid, "/mnt/k/pods/" + uid + "/volumes": uid,
		"/mnt/k/" + uid + "/volumes": "", "/mnt/" + uid: "", "volumes/" + uid: "",
	} {
		if got := uidIn(path); string(got) != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	n := newWholeNode(t)
	n.pod(1, false)
	for _, path := range []string{uid + "/", uid + "/volumes", "/mnt/k/pods/" + uid + "/volumes", n.path("root/pods/" + uid + "/volumes/x")} {
		if text, code := n.said("explain", path); code != 0 || !strings.Contains(text, "Pod "+uid) {
			t.Errorf("explain %s: %d\n%s", path, code, text)
		}
	}
	for _, path := range []string{uid + "/volumes", "/mnt/k/pods/" + uid + "/volumes"} {
		if text, code := n.said("sweep", path); code != 2 {
			t.Errorf("sweep %s: %d\n%s", path, code, text)
		}
	}
}
