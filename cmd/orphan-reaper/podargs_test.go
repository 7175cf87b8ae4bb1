package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestWholePodArgs: on a node, a pod that is named by less than its UID is the one that is meant, and
// of two entries of one pod none is purged by the directory of the other.
func TestWholePodArgs(t *testing.T) {
	n := newWholeNode(t)
	n.pod(0xabcdef01, true)
	n.pod(0xabcdef02, true)
	n.write("root/pods/"+wholeUID(0xabcdef01)+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"+
		"10.0.0.7\tweb-0.web.default.svc.cluster.local\tweb-0\n")
	if out, code := n.run("scan", "abcdef01"); code != 0 || !strings.Contains(out, wholeUID(0xabcdef01)) || strings.Contains(out, wholeUID(0xabcdef02)) {
		t.Errorf("scan by prefix: %d\n%s", code, out)
	}
	if _, code := n.run("sweep", "abcdef"); code != 2 {
		t.Errorf("sweep of an ambiguous prefix: %d", code)
	}
	if out, code := n.run("sweep", "-o", "json", "default/web-0"); code != 0 || n.outcomes(out)[wholeUID(0xabcdef01)] != "quarantined" {
		t.Errorf("sweep by name: %d\n%s", code, out)
	}
	dir := n.path("root/pods/" + wholeUID(0xabcdef02))
	if out, code := n.run("sweep", "-o", "json", dir+"/"); code != 0 || n.outcomes(out)[wholeUID(0xabcdef02)] != "quarantined" {
		t.Errorf("sweep by directory: %d\n%s", code, out)
	}
	if out, code := n.run("explain", "default/web-0"); code != 0 || !strings.Contains(out, "Pod "+wholeUID(0xabcdef01)) {
		t.Errorf("explain of what lies in quarantine: %d\n%s", code, out)
	}
	n.mkdir("root/pods/" + wholeUID(0xabcdef01) + "/volumes")
	if out, code := n.run("quarantine", "restore", "default/web-0"); code != 0 {
		t.Fatalf("restore by name: %d\n%s", code, out)
	}
	if out, code := n.run("quarantine", "purge", "--yes", "abcdef02"); code != 0 || !strings.Contains(out, "purged: "+wholeUID(0xabcdef02)) {
		t.Errorf("purge by prefix: %d\n%s", code, out)
	}
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".7")
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".8")
	cmd := n.command("quarantine", "purge", "--yes", n.path("root/orphan-reaper/"+wholeUID(0xabcdef01)+".7"))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said.String(), "may mean several") {
		t.Errorf("purge of one entry of two: %v\n%s", err, said.String())
	}
}
