package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
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
	// Its containers can write that name, so that only who looks may go by it.
	for _, args := range [][]string{{"sweep"}, {"sweep", "--dry-run"}} {
		if out, code := n.run(append(args, "default/web-0")...); code != 2 {
			t.Errorf("%v by the name of its etc-hosts: %d\n%s", args, code, out)
		}
	}
	if out, code := n.run("explain", "default/web-0"); code != 0 || !strings.Contains(out, "Pod "+wholeUID(0xabcdef01)) {
		t.Errorf("explain by the name of its etc-hosts: %d\n%s", code, out)
	}
	n.mkdir("var/log/pods/shop_db-0_" + wholeUID(0xabcdef01))
	n.write("root/pods/"+wholeUID(0xabcdef02)+"/etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"+
		"10.0.0.8\tdb-0.db.shop.svc.cluster.local\tdb-0\n")
	if out, code := n.run("sweep", "-o", "json", "shop/db-0"); code != 0 || n.outcomes(out)[wholeUID(0xabcdef01)] != "quarantined" {
		t.Errorf("sweep by name: %d\n%s", code, out)
	}
	dir := n.path("root/pods/" + wholeUID(0xabcdef02))
	if out, code := n.run("sweep", "-o", "json", dir+"/"); code != 0 || n.outcomes(out)[wholeUID(0xabcdef02)] != "quarantined" {
		t.Errorf("sweep by directory: %d\n%s", code, out)
	}
	if out, code := n.run("explain", wholeUID(0xabcdef01)); code != 0 || !strings.Contains(out, "Pod "+wholeUID(0xabcdef01)) {
		t.Errorf("explain of what lies in quarantine: %d\n%s", code, out)
	}
	n.mkdir("root/pods/" + wholeUID(0xabcdef01) + "/volumes")
	// Neither restore nor purge goes by a name, or by what is less or more than an entry.
	for _, word := range []string{"shop/db-0", n.path("root/pods/" + wholeUID(0xabcdef01)), n.path("root/orphan-reaper/" + n.entryOf(0xabcdef01) + "/volumes")} {
		for _, command := range []string{"restore", "purge"} {
			args := []string{"quarantine", command, word}
			if command == "purge" {
				args = append(args, "--yes")
			}
			if out, code := n.run(args...); code != 2 {
				t.Errorf("%v: %d\n%s", args, code, out)
			}
		}
	}
	if out, code := n.run("quarantine", "restore", n.path("root/orphan-reaper/"+n.entryOf(0xabcdef01))); code != 0 {
		t.Fatalf("restore by entry: %d\n%s", code, out)
	}
	if out, code := n.run("quarantine", "purge", "--yes", "abcdef02"); code != 0 || !strings.Contains(out, "purged: "+wholeUID(0xabcdef02)) {
		t.Errorf("purge by prefix: %d\n%s", code, out)
	}
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".7")
	n.mkdir("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".8")
	one := n.path("root/orphan-reaper/" + wholeUID(0xabcdef01) + ".7")
	if said, code := n.said("quarantine", "purge", "--yes", one); code != 2 || !strings.Contains(said, "may mean several") {
		t.Errorf("purge of one entry of two: %d\n%s", code, said)
	}
}

// entryOf is the one entry in quarantine of a pod.
func (n *wholeNode) entryOf(i int) string {
	n.t.Helper()
	found, err := filepath.Glob(n.path("root/orphan-reaper/" + wholeUID(i) + "*"))
	if err != nil || len(found) == 0 {
		n.t.Fatalf("%v, %v", found, err)
	}
	return filepath.Base(found[0])
}

// TestWholePurgeWhileAsked: an entry that comes while the question waits for its answer is not
// removed, and neither is what was shown: the person sees the new list first.
func TestWholePurgeWhileAsked(t *testing.T) {
	n := newWholeNode(t)
	entry := "root/orphan-reaper/" + wholeUID(1)
	n.pod(1, true)
	if _, code := n.run("sweep"); code != 0 {
		t.Fatal("sweep")
	}
	first := n.entryOf(1)
	purge := func(meanwhile func()) (said string, code int) {
		master, tty := testkit.Terminal(t, 80)
		cmd := n.command("quarantine", "purge", wholeUID(1))
		cmd.Stdin = tty
		stderr, err := cmd.StderrPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		var b strings.Builder
		for one := make([]byte, 1); !strings.HasSuffix(b.String(), "Type yes: "); b.Write(one) {
			if _, err := stderr.Read(one); err != nil {
				t.Fatalf("%v after %s", err, b.String())
			}
		}
		meanwhile()
		if _, err := master.WriteString("yes\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(stderr)
		testkit.Must(t, err)
		_ = cmd.Wait() // the exit code says it
		return strings.Join(strings.Fields(b.String()+string(rest)), " "), cmd.ProcessState.ExitCode()
	}
	said, code := purge(func() { n.write(entry+".8/volumes/kubernetes.io~nfs/share/file", "canary") })
	if code != 1 || !strings.Contains(said, "Pod "+wholeUID(1)+", entry "+first+": ") || !strings.Contains(said, wholeUID(1)+".8 has come since") {
		t.Errorf("%d: %s", code, said)
	}
	for _, e := range []string{"root/orphan-reaper/" + first, entry + ".8"} {
		if _, err := os.Stat(n.path(e + "/volumes/kubernetes.io~nfs/share/file")); err != nil {
			t.Error(err)
		}
	}
	if said, code := purge(func() {}); code != 0 || !strings.Contains(said, "1 pod in 2 entries") {
		t.Errorf("shown anew: %d: %s", code, said)
	}
	if left, err := filepath.Glob(n.path(entry + "*")); err != nil || len(left) != 0 {
		t.Errorf("shown anew: %v, %v", left, err)
	}
}
