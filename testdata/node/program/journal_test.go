package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	sdjournal "github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
)

// journalctl runs the journalctl of the node and returns the entries that it prints.
func journalctl(t *testing.T, args ...string) []map[string]string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("journalctl", append(args, "--no-pager", "--quiet", "--all", "--output=json", "--namespace=*")...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && errs.Len() > 0 {
		t.Fatal(err, errs.String())
	}
	var all []map[string]string
	for line := range bytes.Lines(out) {
		e := map[string]string{}
		testkit.Must(t, json.Unmarshal(line, &e))
		all = append(all, e)
	}
	return all
}

// TestJournal checks the entries of the journal and the options of journalctl that this program uses.
func TestJournal(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" dead csi-data\n", "--log", "journal", "--every", "20ms")
	if !here {
		return
	}
	waitLog(t, 0, uid(1))
	pid := kubelets(t)[0]
	entries := journalctl(t, "_SYSTEMD_UNIT=kubelet.service", "+", "MESSAGE_ID=x")
	last := entries[len(entries)-1]
	for name, want := range map[string]string{
		"_PID": pid, "_COMM": "kubelet", "_UID": "0", "_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "kubelet", "_LINE_BREAK": "",
	} {
		if last[name] != want {
			t.Errorf("%s is %q, want %q", name, last[name], want)
		}
	}
	if !strings.Contains(last["MESSAGE"], uid(1)) || len(last["_STREAM_ID"]) != 32 || last["__CURSOR"] == "" || last["__REALTIME_TIMESTAMP"] == "" {
		t.Errorf("the last entry is %v", last)
	}
	if got := journalctl(t, "--since=-1h", "--case-sensitive=yes", "--grep=rphaned pod.*nothing", "_SYSTEMD_UNIT=kubelet.service"); len(got) != 0 {
		t.Errorf("--grep: %v", got)
	}
	if got := journalctl(t, "--since=@4102444800", "_SYSTEMD_UNIT=kubelet.service"); len(got) != 0 {
		t.Errorf("--since: %v", got)
	}
	if got := journalctl(t, "--after-cursor="+last["__CURSOR"], "--output-fields=_PID"); len(got) > 0 && (got[0]["__CURSOR"] == last["__CURSOR"] || got[0]["MESSAGE"] != "") {
		t.Errorf("--after-cursor: %v", got)
	}
	if got := journalctl(t, "-n1", "-u", "kubelet"); len(got) != 1 {
		t.Errorf("-n1: %v", got)
	}
	if got := journalctl(t, "--reverse", "--lines=2", "--cursor="+last["__CURSOR"]); len(got) != 2 || got[0]["__CURSOR"] != last["__CURSOR"] {
		t.Errorf("--reverse --cursor: %v", got)
	}
	if got := journalctl(t, "--cursor="+last["__CURSOR"]); got[0]["__CURSOR"] != last["__CURSOR"] {
		t.Errorf("--cursor: %v", got)
	}
	if got := journalctl(t, "--reverse", "-u", "kubelet"); !strings.Contains(got[len(got)-1]["MESSAGE"], "Starting kubelet") {
		t.Errorf("--reverse: the last is %v", got[len(got)-1])
	}

	follow := exec.Command("journalctl", "--follow", "--since=-10s", "--output=cat", "_COMM=other")
	out, err := follow.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, follow.Start())
	n.Control(t, "log a line of another")
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "a line of another\n" {
		t.Errorf("--follow: %q, %v", line, err)
	}
	testkit.Must(t, follow.Process.Kill())
	_ = follow.Wait()

	n.Control(t, `quote a\0b`+strings.Repeat("c", 48<<10))
	waitLog(t, 0, `c /.*\nOutput:`)
	breaks := map[string]string{}
	for _, e := range journalctl(t, "_PID="+pid) {
		if b := e["_LINE_BREAK"]; b != "" {
			breaks[b] = strings.TrimRight(regexp.MustCompile(`^.*:a$|^b.*`).FindString(e["MESSAGE"]), "c")
		}
	}
	if !strings.HasSuffix(breaks["nul"], ":a") || breaks["line-max"] != "b" {
		t.Errorf("line breaks: %v", breaks)
	}

	testkit.Must(t, sdjournal.Send("a record\nof two lines", sdjournal.PriInfo, map[string]string{"KEY": "value"}))
	own := journalctl(t, "KEY=value")
	if len(own) != 1 || own[0]["MESSAGE"] != "a record\nof two lines" || own[0]["_TRANSPORT"] != "journal" {
		t.Errorf("an entry of our own: %v", own)
	}
	boot, err := os.ReadFile(journal.BootIDFile)
	testkit.Must(t, err)
	if got := strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", ""); last["_BOOT_ID"] != got {
		t.Errorf("_BOOT_ID is %s, want %s", last["_BOOT_ID"], got)
	}
	if err := exec.Command("journalctl", "--rotate").Run(); exitCode(err) != 1 {
		t.Errorf("an option that it does not have: %v", err)
	}
}

// TestSyslog checks the lines in /var/log/messages, and that there is no journal.
func TestSyslog(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" dead csi-data\n", "--log", "syslog", "--kubelet", "1.19", "--every", "20ms")
	if !here {
		return
	}
	waitLog(t, 0, uid(1))
	n.Control(t, "log a line of another")
	waitLog(t, 0, `(?m)^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d node-1 other\[\d+\]: a line of another$`)
	text, err := os.ReadFile("/var/log/messages")
	testkit.Must(t, err)
	pid := kubelets(t)[0]
	want := regexp.MustCompile(`(?m)^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d node-1 kubelet\[` + pid + `\]: E\d{4} [0-9:.]{15} +` + pid +
		` kubelet_volumes\.go:154\] orphaned pod "` + uid(1) + `" found, but volume paths are still present on disk : There were a total of 1 errors`)
	if !want.Match(text) {
		t.Errorf("/var/log/messages has %s", text)
	}
	for _, dir := range []string{"/var/log/journal", "/run/log/journal", "/run/systemd/journal"} {
		if exists(dir) {
			t.Errorf("there is %s", dir)
		}
	}
}

// TestJSON checks the lines of JSON of two versions.
func TestJSON(t *testing.T) {
	for version, want := range map[string]string{
		"1.19": `(?m)^{"ts":\d{13}[\d.]*,"msg":"orphaned pod \\"` + uid(1) + `\\" found, but volume paths are still present on disk : There were a total of 1 errors similar to this\. Turn up verbosity to see them\.\\n","v":0}$`,
		"1.33": `(?m)^{"ts":\d{13}[\d.]*,"caller":"kubelet/kubelet_volumes\.go:263","msg":"There were many similar errors\. Turn up verbosity to see them\.","numErrs":2,"err":"orphaned pod \\"` + uid(1) + `\\" found, but failed to rmdir\(\) volume at path `,
	} {
		t.Run(version, func(t *testing.T) {
			if _, here := inside(t, "a "+uid(1)+" dead csi-data\n", "--log", "json", "--kubelet", version, "--every", "20ms"); here {
				waitLog(t, 0, want)
			}
		})
	}
}

// TestCgroupV1 checks the hierarchies of version 1.
func TestCgroupV1(t *testing.T) {
	if _, here := inside(t, "a "+uid(1)+" living\n", "--cgroup", "v1"); !here {
		return
	}
	for _, h := range v1Hierarchies {
		if !exists(cgroupRoot + "/" + h[0] + "/kubepods/besteffort/pod" + uid(1) + "/cgroup.procs") {
			t.Errorf("no cgroup in %s", h[0])
		}
	}
	cgroup, err := os.ReadFile("/proc/" + processes(t, namePause)[0] + "/cgroup")
	testkit.Must(t, err)
	if want := "1:name=systemd:/kubepods/besteffort/pod" + uid(1) + "/"; !strings.Contains(string(cgroup), want) {
		t.Errorf("%s is not in %s", want, cgroup)
	}
}
