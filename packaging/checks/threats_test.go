package checks

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// threat is one attacker of SECURITY.md, with what stands between it and a part of the daemon.
type threat struct {
	who   string
	paths []path
	where string
}

// path is one way in: the guards on it, and the part where it ends.
type path struct {
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
		"Traces":     "counts and times; names no pod",
	}
)

var threats = []threat{
	{"Who connects over the network", []path{
		{[]string{"password, certificate, or a token that is reviewed", "64 connections, 8 for each address, 10 s for a request"}, "HTTP"},
	}, "from elsewhere"},
	{"A compromised node", []path{
		{[]string{"what it learns opens the report and look now, no more", "its own report is all that it can forge"}, "HTTP"},
	}, "from elsewhere"},
	{"A pod with hostNetwork", []path{
		{[]string{"by loopback: this node's report, one look in 10 s", "the port taken: looks go on as before"}, "HTTP"},
	}, "on this node"},
	{"Who writes log lines", []path{
		{[]string{"whole lines of the kubelet that runs now", "one look in 5 s; being named lets nothing go that lives"}, "Log"},
	}, "on this node"},
	{"An unprivileged pod", []path{
		{[]string{"what is known to live is not walked", "what does not answer is left, and is unknown"}, "Look"},
		{[]string{"inode and mount ID; a path or a name proves nothing", "unknown keeps, and one sign of life is enough"}, "Decision"},
		{[]string{"openat2, one name at a time; Landlock", "quarantine first; its data is not purged by itself"}, "Removal"},
	}, "on this node"},
	{"Who has the daemon's token", []path{
		{[]string{"no nodes/proxy, no secrets, no reports to read", "policy: its own node's report and events only"}, "API server"},
	}, "from elsewhere"},
	{"A collector of traces", []path{
		{[]string{"10 s for a look, 4 KiB of an answer, no redirect", "no look waits for it; off by default"}, "Traces"},
	}, "from elsewhere"},
}

const (
	drawingWidth = 1130
	rowHeight    = 78
	drawingTop   = 44
)

const drawingStyle = `<style>
text { font-family: Inter, "Helvetica Neue", Arial, sans-serif; fill: #24292e; font-size: 12px }
.name { font-weight: 600; font-size: 13px }
.zone { fill: none; stroke: #8b949e; stroke-dasharray: 5 4 }
.zoneName { fill: #57606a; font-style: italic }
.attacker { fill: #ffebe9; stroke: #cf222e }
.guard { fill: #dafbe1; stroke: #1a7f37 }
.part { fill: #ddf4ff; stroke: #0969da }
.way { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#arrow) }
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>`

type drawing struct{ strings.Builder }

func (d *drawing) line(format string, args ...any) { fmt.Fprintf(&d.Builder, format+"\n", args...) }

func (d *drawing) text(x, y int, class, s string) {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	d.line(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, b.String())
}

// box draws a name with lines below it, or lines alone, in the middle of y.
func (d *drawing) box(x, y, w int, class, name string, lines ...string) {
	const h = 54
	d.line(`<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="%s"/>`, x, y-h/2, w, h, class)
	first := y + 4 - 8*len(lines)
	if name != "" {
		d.text(x+10, first, "name", name)
		first += 18
	} else {
		first += 8
	}
	for i, line := range lines {
		d.text(x+10, first+17*i, "", line)
	}
}

// drawThreats draws attackers, guards and parts, from left to right.
func drawThreats() string {
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
	d.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`, drawingWidth, height, drawingWidth, height)
	d.line("<!-- Drawn by TestThreats in packaging/checks; UPDATE_GOLDEN=1 draws it anew. -->")
	d.line("%s\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>", drawingStyle)
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
			d.line(`<path class="way" d="M%d %d L%d %d"/>`, attackerX+attackerW, attackers[i], guardX-2, y)
			d.box(guardX, y, guardW, "guard", "", p.guards...)
			d.line(`<path class="way" d="M%d %d L%d %d"/>`, guardX+guardW, y, partX-2, where(p.to))
		}
	}
	for _, part := range append(slices.Clone(daemonParts), "API server", "Traces") {
		d.box(partX, where(part), partW, "part", part, partWords[part])
	}
	// Who asks over HTTP gets a look, as the log does.
	const right = partX + partW
	d.line(`<path class="way" d="M%d %d H%d V%d H%d"/>`, right, where("HTTP"), right+10, where("Look"), right+2)
	for i := 1; i < len(daemonParts)-1; i++ {
		a, b := where(daemonParts[i]), where(daemonParts[i+1])
		d.line(`<path class="way" d="M%d %d L%d %d"/>`, partX+partW/2, a+27, partX+partW/2, b-29)
	}
	d.line("</svg>")
	return d.String()
}

// TestThreats: the picture in SECURITY.md has its attackers, in its words, and each test that it names is there.
func TestThreats(t *testing.T) {
	const picture, page = "../../docs/threats.svg", "../../SECURITY.md"
	want := drawThreats()
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(picture, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs; UPDATE_GOLDEN=1 go test ./packaging/checks draws it anew", picture)
	}
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
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Error(err)
		}
	}
	tests := allTests(t)
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+|Fuzz[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("%s names %s, which is not there", page, name[1])
		}
	}
}

// allTests are the first lines of all tests.
func allTests(t *testing.T) string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*_test.go", "--exclude-dir=.cache", `^func (Test|Fuzz)[A-Za-z]+\(`, "../..")
	tests, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(tests)
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
