package checks

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// defaults are the durations in the configuration as it is installed, which is written from the code.
func defaults(t *testing.T) map[string]time.Duration {
	t.Helper()
	text, err := os.ReadFile("../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Duration{}
	for _, m := range regexp.MustCompile(`(?m)^#([a-z_]+): (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		if d, err := time.ParseDuration(m[2]); err == nil {
			all[m[1]] = d
		}
	}
	for _, key := range []string{"hold", "settle", "confirm", "retention"} {
		if all[key] <= 0 {
			t.Fatalf("config.yaml has no %s", key)
		}
	}
	return all
}

// words says a duration as people do, in its largest units.
func words(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, fmt.Sprint(int64(n))+" "+unit.name)
			d -= n * unit.of
		}
	}
	return strings.Join(parts, " ")
}

// TestTimeline draws docs/timeline.svg: what becomes of one dead pod, and when.
func TestTimeline(t *testing.T) {
	c := defaults(t)
	hold, confirm, retention := words(c["hold"]), words(c["confirm"]), words(c["retention"])
	parked, removed, purged := hold, words(c["hold"]+c["confirm"]), words(c["hold"]+c["confirm"]+c["retention"])
	const w, h, bar, barH = 900, 388, 100, 40
	at := []int{30, 230, 430, 650, 870} // where the parts begin and end
	var d drawing
	d.begin(w, h, "TestTimeline", "What becomes of a dead pod, and when",
		"A look finds the pod dead. For "+hold+" (hold) the evidence must stay good. After "+parked+" the directory is moved to quarantine, and the kubelet "+
			"is quiet. For "+confirm+" (confirm) the pod may show a sign of life. After "+removed+" what holds no data is removed. emptyDir content stays for "+
			retention+" more (retention), until "+purged+". What may be data stays until an operator purges it. A sign of life during the hold keeps the pod, "+
			"and the hold begins anew. During confirm it puts the directory back. Later it makes a conflict. Both open the breaker: nothing is removed until an "+
			"operator resumes.")
	d.text(30, 28, "name", "One dead pod, from the look that finds it to the last byte (with the default settings, not to scale)")
	for i, part := range []struct{ class, name string }{
		{"part", "hold: " + hold}, {"wait", "confirm: " + confirm}, {"go", "retention: " + retention}, {"zone", "until you purge it"},
	} {
		d.line(`<rect x="%d" y="%d" width="%d" height="%d" class="%s"/>`, at[i], bar, at[i+1]-at[i], barH, part.class)
		d.within(at[i]+12, bar+25, at[i+1]-at[i]-14, "name", part.name)
	}
	for i, when := range []string{"0", parked, removed, purged} {
		d.line(`<path class="tick" d="M%d %d V%d"/>`, at[i], bar-14, bar+barH+14)
		d.text(at[i]-6, bar-22, "name", when)
	}
	for i, what := range [][]string{
		{"A look finds it dead.", "Nothing is changed."},
		{"Its directory is moved to", "quarantine.", "The kubelet is quiet."},
		{"What holds no data is removed:", "secrets, configMaps, and what", "the kubelet made."},
		{"emptyDir content is removed.", "What may be data stays."},
	} {
		for j, line := range what {
			d.within(at[i], bar+barH+32+17*j, at[i+1]-at[i]-4, "", line)
		}
	}
	const row = bar + barH + 128
	d.text(30, row-34, "zoneName", "A sign of life, at any time:")
	d.box(at[0], row+8, at[1]-at[0]-20, "part", "it is kept", "the hold begins anew")
	d.box(at[1], row+8, at[2]-at[1]-20, "stop", "it is put back", "the breaker opens")
	d.box(at[2], row+8, at[4]-at[2], "stop", "it stays in quarantine as a conflict, and the breaker opens",
		"nothing of it is removed by itself: merge it, or purge it")
	d.text(30, h-60, "", "While the breaker is open nothing is removed. To end that: orphan-reaper quarantine resume.")
	d.text(30, h-40, "", "The kubelet must have run for "+words(c["settle"])+" (settle). A doubt about the node pauses the hold.")
	d.text(30, h-20, "", "After each start of the daemon one pod is moved first; the others follow once it is confirmed, so after "+removed+".")
	d.drawn(t, "../../docs/timeline.svg")
}

// question is one step of the decision: the answer that leads aside and what that ends in, the question, and what it looks at.
type question struct {
	ends, to, says string
	name           string
	lines          [2]string
}

// TestDecision draws docs/decision.svg: what keeps a pod, what waits, and what goes. It must have each fact of the
// table in docs/how-it-decides.md, which a test of policy holds to the rules.
func TestDecision(t *testing.T) {
	c := defaults(t)
	questions := []question{
		{"yes", "Keep", "one yes is enough", "Does a fact show that it lives, or must stay?", [2]string{
			"mounted, own_mount, sandbox, container, cgroup, kubelet_lists, api_lists,",
			"kubelet_file, static_pod, staged, held, restored, directory, remade, used",
		}},
		{"yes", "Keep", "doubt keeps", "Is one of these unknown, or the content not read?", [2]string{
			"content; a list that most nodes do not have may be unknown",
			"a doubt about the node pauses the hold, one about the pod begins it anew",
		}},
		{"no", "Keep", "kubelet-unknown", "Has the running kubelet released it?", [2]string{
			"named: it named this pod; released: a whole list does not have it;",
			"swept: it named another, and no pod_logs, pod_resources know this one",
		}},
		{"yes", "Wait", "ends by itself", "Is one of its files still in use?", [2]string{
			"in_use: open or mapped, a program, a working directory,",
			"a file of an io_uring, a loop device or swap",
		}},
		{"no", "Wait", "ends by itself", "Has it been so for long enough?", [2]string{
			"two looks agreed, and the directory is unchanged: " + words(c["hold"]) + " (hold)",
			"the kubelet has run for " + words(c["settle"]) + " (settle)",
		}},
		{"no", "Keep", "observe, breaker, …", "May this daemon act?", [2]string{
			"mode enforce, the breaker closed, no contradiction",
			"with the kubelet, and it sees the node's own mounts",
		}},
	}
	other := map[string]string{"yes": "no", "no": "yes"}
	class := map[string]string{"Keep": "stop", "Wait": "wait"}
	const w, left, boxW, step, top, aside = 900, 30, 560, 94, 84, 690
	height := top + len(questions)*step + 62
	var d drawing
	d.begin(w, height, "TestDecision", "How a verdict comes about",
		"Six questions from top to bottom. A fact that shows that the pod lives keeps it. An unknown fact keeps it. A kubelet that has not released it keeps it. "+
			"Files in use make it wait. Less than "+words(c["hold"])+" of good evidence make it wait. "+
			"Mode observe, an open breaker or a contradiction keep it. "+
			"What passes all six is moved to quarantine.")
	d.text(left, 28, "name", "One pod directory, one look: keep, wait or reap")
	var all []string
	for i, q := range questions {
		y := top + i*step
		d.box(left, y, boxW, "part", q.name, q.lines[:]...)
		d.box(aside, y, 180, class[q.to], q.to, q.says)
		d.arrow("M%d %d H%d", left+boxW, y, aside-2)
		d.text(left+boxW+40, y-6, "", q.ends)
		d.arrow("M%d %d V%d", left+boxW/2, y+32, y+step-34)
		d.text(left+boxW/2+8, y+step/2+4, "", other[q.ends])
		all = append(all, strings.Join(q.lines[:], " "))
	}
	d.box(left, top+len(questions)*step, boxW, "go", "Reap: the directory is moved to quarantine",
		"After "+words(c["confirm"])+" without a sign of life (confirm) what holds no data is removed.",
		"What may be data stays in quarantine.")
	d.drawn(t, "../../docs/decision.svg")

	page, err := os.ReadFile("../../docs/how-it-decides.md")
	if err != nil {
		t.Fatal(err)
	}
	told := factsTold(string(page))
	if len(told) < 20 {
		t.Errorf("docs/how-it-decides.md has %d facts", len(told))
	}
	drawn := regexp.MustCompile(`[a-z_]+`).FindAllString(strings.Join(all, " "), -1)
	for _, fact := range told {
		if !slices.Contains(drawn, fact) {
			t.Errorf("the picture does not have the fact %s", fact)
		}
	}
}

// factsTold are the facts in the first column of the table of facts.
func factsTold(page string) (facts []string) {
	_, table, _ := strings.Cut(page, "\n| fact | read from |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(table, -1) {
		for _, m := range codeSpan.FindAllString(row[1], -1) {
			facts = append(facts, strings.Trim(m, "`"))
		}
	}
	return facts
}
