package ui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestReasonTable checks that exactly the reasons of the closed list are explained, each once.
func TestReasonTable(t *testing.T) {
	explained := map[policy.Reason]int{}
	for _, a := range Reasons {
		explained[a.Reason]++
		if !strings.HasSuffix(a.Means, ".") || !strings.HasSuffix(strings.TrimRight(a.Todo, "`"), ".") {
			t.Errorf("%s: no whole sentences: %q, %q", a.Reason, a.Means, a.Todo)
		}
	}
	for _, r := range policy.Reasons() {
		if explained[r] != 1 {
			t.Errorf("%s is explained %d times", r, explained[r])
		}
		delete(explained, r)
	}
	for r := range explained {
		t.Errorf("%s is explained and no reason", r)
	}
}

// TestReasonsDoc: docs/reasons.md is generated from the table.
func TestReasonsDoc(t *testing.T) {
	testkit.Golden(t, "../../../docs/reasons.md", reasonsDoc())
}

// TestAdvice: the advice for one pod has its UID and no mark, each brief form is one sentence with an action, and each command
// of this program runs as it is copied.
func TestAdvice(t *testing.T) {
	e := &policy.Evidence{UID: commandUID}
	texts := []string{Halted}
	for _, r := range policy.Reasons() {
		text, brief := AdviceOf(r, e).Advice, BriefOf(r)
		if strings.Contains(text+brief.Do, "`") || strings.Contains(text, "explain UID") || strings.Contains(text, "forget UID") {
			t.Errorf("%s: %q, %q", r, text, brief.Do)
		}
		if !strings.HasSuffix(brief.Means, ".") || brief.Do == "" {
			t.Errorf("%s: %+v", r, brief)
		}
		texts = append(texts, text, brief.Do)
	}
	for _, text := range texts {
		if printed := Given("--config 'X'").In(text); strings.Contains(printed+" ", "'X'. ") || strings.Contains(printed, "'X',") ||
			strings.Contains(printed, "'X':") || strings.Contains(printed, "'X';") {
			t.Errorf("punctuation breaks the command when it is copied: %q", printed)
		}
	}
}

// TestAdviceOfAMount checks that the unmount command is printed with the UID if it can act, and otherwise what ends
// the mount.
func TestAdviceOfAMount(t *testing.T) {
	e := &policy.Evidence{UID: commandUID}
	if got := AdviceOf(policy.ReasonMounted, e).Advice; got != MountedBeyond || len((Place{}).Commands(e, policy.ReasonMounted).Then) > 0 {
		t.Error(got)
	}
	e.Unmount = "orphan-reaper unmount " + commandUID
	text, then := AdviceOf(policy.ReasonMounted, e).Advice, (Place{}).Commands(e, policy.ReasonMounted).Then
	if strings.Contains(text, "orphan-reaper unmount") || len(then) != 1 || then[0] != e.Unmount {
		t.Errorf("%q, %q", text, then)
	}
}

// reasonsDoc returns docs/reasons.md from explain's table. make golden writes the file, and a test compares it.
func reasonsDoc() string {
	var b strings.Builder
	b.WriteString(`# Reasons

After two minutes you know why a pod is kept and what ends that: ` + "`orphan-reaper explain UID`" + ` shows its reasons, what was
seen on this node, and the commands below with the pod's own UID, paths and names.

A reason is one name of this closed list, the same in ` + "`scan`" + `, JSON, the journal and the metrics. Each reason by itself
is enough to keep a pod.

**Exit code 3** of ` + "`scan` and `sweep`" + ` asks for your attention. They end with it when a conflict lies in quarantine, or
when a pod is kept for a reason that has no line "Attention" below, or a "yes" there. A pod that only waits never asks.
One reason with "no, it lives" outweighs all others, except those with "yes". A sweep also asks while it cannot go on
with a pod in quarantine.

`)
	for _, a := range Reasons {
		fmt.Fprintf(&b, "## %s\n\n", a.Reason)
		paragraph := func(text string) { b.WriteString(strings.Join(human.Wrap(text, 120), "\n") + "\n\n") }
		paragraph(a.Means)
		paragraph("**What to do:** " + a.Todo)
		if a.Beyond != "" {
			paragraph(a.Beyond)
		}
		c := anywhere.Commands(&anyPod, a.Reason)
		for _, command := range append(c.Look, c.Then...) {
			b.WriteString("    " + command + "\n")
		}
		if len(c.Look)+len(c.Then) > 0 {
			b.WriteString("\n")
		}
		if words := outlookWords[a.Reason.Outlook()]; words != "" {
			paragraph("**Attention:** " + words)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// anyPod and anywhere replace the values of one pod in the commands.
var (
	anywhere = Place{PodsDir: "ROOT-DIR/pods", QuarantineDir: "QUARANTINE-DIR", Node: "NODE"}
	anyPod   = policy.Evidence{
		UID: "UID", Namespace: "NAMESPACE", PodName: "NAME", Unmount: "orphan-reaper unmount UID", Sandboxes: []policy.Sandbox{{ID: "ID"}},
		VolData: map[string]string{"": `{"driverName":"DRIVER"}`},
	}
)

// outlookWords has the reasons that differ from the rule in the introduction.
var outlookWords = map[policy.Outlook]string{
	policy.OutlookAlive: "no, it lives",
	policy.OutlookQuiet: "no, an operator wanted it so",
	policy.OutlookStuck: "yes, whatever other reasons it has",
}

const commandUID = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"

// TestCommands checks that each command to paste has the pod's own values, no placeholder, and is one line of valid
// shell.
func TestCommands(t *testing.T) {
	x := Place{PodsDir: "/var/lib/kubelet/pods", QuarantineDir: "/var/lib/kubelet/orphan-reaper", Node: "n1"}
	e := policy.Evidence{
		UID: commandUID, Namespace: "shop", PodName: "cart-0", Unmount: "orphan-reaper unmount " + commandUID,
		Sandboxes: []policy.Sandbox{{ID: "0af1", Socket: "/run/containerd/containerd.sock"}, {ID: "77aa", Ready: true}},
		VolData: map[string]string{
			"a/vol_data.json": `{"driverName":"ebs.csi.aws.com","volumeHandle":"vol-1"}`, "b/vol_data.json": "{", "c/vol_data.json": `{"driverName":"x\u001b[2J"}`,
		},
	}
	for reason, want := range map[policy.Reason][]string{
		policy.ReasonMounted:  {"grep " + commandUID + " /proc/[0-9]*/mountinfo", e.Unmount},
		policy.ReasonSandbox:  {"crictl -r unix:///run/containerd/containerd.sock pods --label io.kubernetes.pod.uid=" + commandUID},
		policy.ReasonStaged:   {"kubectl get csinode n1 -o jsonpath='{.spec.drivers[*].name}' | grep -F ebs.csi.aws.com"},
		policy.ReasonAPILists: {"kubectl --namespace shop get pod cart-0 -o wide"},
		policy.ReasonHold:     nil,
	} {
		c := x.Commands(&e, reason)
		if got := append(c.Look, c.Then...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	for _, reason := range policy.Reasons() {
		c := x.Commands(&e, reason)
		for _, command := range append(c.Look, c.Then...) {
			for _, placeholder := range []string{"UID", "PATH", "PODS-DIR", "NAME", "CGROUP/"} {
				if strings.Contains(command, placeholder) {
					t.Errorf("%s: %s is not filled in: %s", reason, placeholder, command)
				}
			}
			if out, err := exec.Command("sh", "-n", "-c", command).CombinedOutput(); err != nil || strings.Contains(command, "\n") {
				t.Errorf("%s: a shell rejects %q: %v %s", reason, command, err, out)
			}
		}
	}
}

// TestInUseNamesTheProcess checks that the command that finds a process with an open file of the pod prints its PID.
func TestInUseNamesTheProcess(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), commandUID))
	testkit.Must(t, err)
	command := Place{PodsDir: "/pods"}.Commands(&policy.Evidence{UID: commandUID}, policy.ReasonInUse).Look[0]
	out, _ := exec.Command("sh", "-c", command).Output() // find fails if a process has ended since
	testkit.Must(t, f.Close())
	if !strings.Contains(string(out), fmt.Sprintf("/proc/%d/fd/", os.Getpid())) {
		t.Errorf("%s prints no process: %s", command, out)
	}
}

// TestCommandsOfHostileNames checks that no name from the node runs a command or controls the terminal when pasted.
func TestCommandsOfHostileNames(t *testing.T) {
	for _, bad := range []string{"a; touch /tmp/x", "$(reboot)", "`reboot`", "a'b", "a\x1b[2Jb", "a\nb", "a\u202eb", "{name}", "{uid}", ""} {
		x := Place{PodsDir: "/pods", QuarantineDir: "/q", Node: bad}
		e := policy.Evidence{
			UID: commandUID, Namespace: bad, PodName: bad, Sandboxes: []policy.Sandbox{{ID: bad, Socket: "/" + bad}},
			VolData: map[string]string{"a": `{"driverName":"` + bad + `"}`},
		}
		for _, reason := range policy.Reasons() {
			c := x.Commands(&e, reason)
			for _, command := range append(c.Look, c.Then...) {
				if strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s: %q", reason, command)
				}
				bare := strings.ReplaceAll(strings.ReplaceAll(command, `'a'\''b'`, ""), "'"+bad+"'", "")
				if bad != "" && strings.Contains(bare, bad) && !strings.Contains(bare, "'/"+bad+"'") && !strings.Contains(bare, "/"+bad+"'") {
					t.Errorf("%s: %q is not quoted in %q", reason, bad, command)
				}
			}
		}
	}
	if c := (Place{}).Commands(&policy.Evidence{Name: "lost+found"}, policy.ReasonOwnMount); len(c.Look)+len(c.Then) > 0 {
		t.Errorf("without a pod: %q", c)
	}
}
