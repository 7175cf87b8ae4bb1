package checks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// threat is one attacker of SECURITY.md, with what stands between it and a part of the daemon.
type threat struct {
	who   string
	paths []route
	where string
}

// route is one way in: the guards on it, and the part where it ends.
type route struct {
	guards []string
	to     string
}

// The parts, from top to bottom. Those of the daemon have a zone around them.
var (
	daemonParts = []string{"HTTP", "Log", "Look", "Decision", "Removal"}
	partWords   = map[string]string{
		"HTTP":       "metrics, health, the report, look now",
		"Log":        "a hint that a look is due",
		"Look":       "reads the node, changes nothing",
		"Decision":   "doubt keeps; values in, values out",
		"Removal":    "park, confirm, then remove",
		"API server": "and the kubelets' lists of pods",
		"Answers":    "facts beside others; doubt keeps",
	}
)

var threats = []threat{
	{"Who connects over the network", []route{
		{[]string{"password, certificate, or a token that is reviewed", "64 connections, 8 for each address, 10 s for a request"}, "HTTP"},
	}, "from elsewhere"},
	{"A compromised node", []route{
		{[]string{"what it learns opens the report and look now, no more", "its own report is all that it can forge"}, "HTTP"},
	}, "from elsewhere"},
	{"A pod with hostNetwork", []route{
		{[]string{"by loopback: this node's report, one look in 10 s", "the port taken: looks go on as before"}, "HTTP"},
	}, "on this node"},
	{"Who writes log lines", []route{
		{[]string{"whole lines of the kubelet that runs now", "one look in 5 s; being named lets nothing go that lives"}, "Log"},
	}, "on this node"},
	{"An unprivileged pod", []route{
		{[]string{"what is known to live is not walked", "what does not answer is left, and is unknown"}, "Look"},
		{[]string{"inode and mount ID; a path or a name proves nothing", "unknown keeps, and one sign of life is enough"}, "Decision"},
		{[]string{"openat2, one name at a time; Landlock", "quarantine first; its data is not purged by itself"}, "Removal"},
	}, "on this node"},
	{"Who has the daemon's token", []route{
		{[]string{"no nodes/proxy, no secrets, no reports to read", "policy: its own node's report and events only"}, "API server"},
	}, "from elsewhere"},
	{"A server that the daemon asks", []route{
		{[]string{"it shows who it is before it gets a credential", "late, cut off, too long or not whole: nothing goes"}, "Answers"},
	}, "from elsewhere"},
}

const (
	drawingWidth = 1130
	rowHeight    = 78
	drawingTop   = 44
)

// drawThreats draws attackers, guards and parts, from left to right.
func drawThreats() *drawing {
	const attackerX, attackerW, guardX, guardW, partX, partW = 24, 264, 346, 370, 816, 280
	rows := 0
	at, guards := map[string][]int{}, map[string][]int{} // the rows that lead to a part
	var attackers []int
	for _, t := range threats {
		middle := drawingTop + rows*rowHeight + (len(t.paths)-1)*rowHeight/2 + rowHeight/2
		attackers = append(attackers, middle)
		for _, p := range t.paths {
			y := drawingTop + rows*rowHeight + rowHeight/2
			at[p.to] = append(at[p.to], y)
			guards[t.who] = append(guards[t.who], y)
			rows++
		}
	}
	height := drawingTop + rows*rowHeight + 12
	where := func(part string) int { // the middle of the ways to it
		ys := at[part]
		return (ys[0] + ys[len(ys)-1]) / 2
	}
	var d drawing
	d.begin(drawingWidth, height, "TestThreats", "Who could attack orphan-reaper, and what stands between",
		"Seven attackers on the left, the guards against each in the middle, and on the right the part of the daemon that each would reach. "+
			"SECURITY.md says the same in words.")
	d.text(attackerX, 24, "name", "Attackers")
	d.text(guardX, 24, "name", "What stands between")
	d.text(partX, 24, "name", "What they reach")
	top, bottom := where(daemonParts[0])-rowHeight/2-12, where(daemonParts[len(daemonParts)-1])+rowHeight/2-2
	d.line(`<rect x="%d" y="%d" width="%d" height="%d" rx="8" class="zone"/>`, partX-20, top, partW+40, bottom-top)
	d.text(partX-10, top+18, "zoneName", "orphan-reaper on this node")
	for i, t := range threats {
		d.box(attackerX, attackers[i], attackerW, "attacker", fmt.Sprintf("%d  %s", i+1, t.who), t.where)
		for j, p := range t.paths {
			y := guards[t.who][j]
			d.arrow("M%d %d L%d %d", attackerX+attackerW, attackers[i], guardX-2, y)
			d.box(guardX, y, guardW, "guard", "", p.guards...)
			d.arrow("M%d %d L%d %d", guardX+guardW, y, partX-2, where(p.to))
		}
	}
	for _, part := range append(slices.Clone(daemonParts), "API server", "Answers") {
		d.box(partX, where(part), partW, "part", part, partWords[part])
	}
	// Who asks over HTTP gets a look, as the log does.
	const right = partX + partW
	d.arrow("M%d %d H%d V%d H%d", right, where("HTTP"), right+10, where("Look"), right+2)
	for i := 1; i < len(daemonParts)-1; i++ {
		a, b := where(daemonParts[i]), where(daemonParts[i+1])
		d.arrow("M%d %d L%d %d", partX+partW/2, a+27, partX+partW/2, b-29)
	}
	return &d
}

// TestThreats: the picture in SECURITY.md has its attackers, in its words.
func TestThreats(t *testing.T) {
	const page = "../../SECURITY.md"
	drawThreats().drawn(t, "../../docs/threats.svg")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var told, drawn []string
	for _, m := range regexp.MustCompile(`(?m)^### (\d+\. .*)$`).FindAllStringSubmatch(string(text), -1) {
		told = append(told, m[1])
	}
	for i, a := range threats {
		drawn = append(drawn, fmt.Sprintf("%d. %s", i+1, a.who))
	}
	if !slices.Equal(told, drawn) {
		t.Errorf("%s has %q, and the picture %q", page, told, drawn)
	}
}

// TestRightsTold: SECURITY.md tells of each right that the chart gives to anybody.
func TestRightsTold(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Glob("../chart/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rights := 0
	for _, file := range charts {
		template, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Each right that the chart gives; a policy's rules name what it watches.
		for _, m := range regexp.MustCompile(`(?:resources|nonResourceURLs): \[([^\]]+)\]\n +verbs:`).FindAllStringSubmatch(string(template), -1) {
			for right := range strings.SplitSeq(m[1], ", ") {
				rights++
				if !strings.Contains(string(text), strings.Trim(right, `"`)) {
					t.Errorf("%s gives %s, of which SECURITY.md does not tell", file, right)
				}
			}
		}
	}
	if rights < 8 {
		t.Errorf("only %d rights were found in the chart", rights)
	}
}
