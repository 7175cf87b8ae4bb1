package grafana

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPicture: docs/grafana.svg and docs/grafana-node.svg show what the dashboard's queries return of the played day: all rows but
// the last, and the last one.
func TestPicture(t *testing.T) {
	p := history(t)
	board := load(t)
	answers := map[int][]series{}
	for _, q := range queries(t, board) {
		all := p.query(t, q, span{noon, 24 * time.Hour, 10 * time.Minute})
		if len(all) == 0 {
			t.Errorf("%s shows nothing: %s", q.title, q.expr)
		}
		for i := range all {
			all[i].name = legend(q.legend, all[i].labels)
			checkNames(t, &q, all[i])
		}
		answers[q.panel.ID] = append(answers[q.panel.ID], all...)
	}
	last := slices.IndexFunc(board.Panels, func(p panel) bool { return strings.Contains(p.Title, "$node") })
	board.Panels[last].Title = strings.ReplaceAll(board.Panels[last].Title, "$node", nodeShown)
	for file, panels := range map[string][]panel{"grafana.svg": board.Panels[:last], "grafana-node.svg": board.Panels[last:]} {
		path := root + "/docs/" + file
		got := draw(panels, answers)
		if os.Getenv("UPDATE_GOLDEN") == "1" {
			testkit.Must(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		testkit.Must(t, err)
		if got != string(want) {
			t.Errorf("%s shows something else than the queries return: UPDATE_GOLDEN=1 go test ./packaging/grafana draws it anew", path)
		}
	}
}

// checkNames: a series has the labels that its legend names, and a table's row those that its columns show.
func checkNames(t *testing.T, q *query, s series) {
	t.Helper()
	if strings.Contains(s.name, "{{") {
		t.Errorf("%s: %v has no label for %s", q.title, s.labels, s.name)
	}
	if q.panel.Type != "table" {
		return
	}
	o := q.panel.Transformations[0].Options
	for label, column := range o.RenameByName {
		if _, ok := s.labels[label]; !ok && label != "Value" && column != "Node" {
			t.Errorf("%s: %v has no label %s", q.title, s.labels, label)
		}
	}
	for label := range s.labels { // what is not shown has to be left out
		if o.RenameByName[label] == "" && !o.ExcludeByName[label] {
			t.Errorf("%s shows %s too", q.title, label)
		}
	}
}

// legend is the name of a series.
func legend(format string, labels map[string]string) string {
	for name, value := range labels {
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	return format
}

// The colours of Grafana's light theme.
var colours = map[string]string{
	"green": "#56a64b", "blue": "#3274d9", "red": "#e02f44", "yellow": "#e0b400", "orange": "#ff780a", "purple": "#a352cc", "text": "#24292e",
}

var palette = []string{"green", "yellow", "blue", "orange", "red", "purple"}

// colour is that of a series: its own, or the next of the palette.
func (p *panel) colour(name string, i int) string {
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.Options == name {
			for c := range colours {
				if strings.Contains(string(o.Properties[0].Value), `"`+c+`"`) {
					return colours[c]
				}
			}
		}
	}
	return colours[palette[i%len(palette)]]
}

// sorted are the series in the order of the panel's overrides, then by name.
func (p *panel) sorted(all []series) []series {
	rank := func(s series) int {
		i := slices.IndexFunc(p.FieldConfig.Overrides, func(o override) bool { return o.Matcher.Options == s.name })
		if i < 0 {
			return len(p.FieldConfig.Overrides)
		}
		return i
	}
	slices.SortFunc(all, func(a, b series) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.name, b.name)) })
	return all
}

// format writes a value with its unit as Grafana would, about.
func format(v float64, unit string) string {
	scaled := func(v, by float64, units ...string) string {
		i := 0
		for ; v >= by && i < len(units)-1; i++ {
			v /= by
		}
		text := strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
		return strings.TrimSpace(text + " " + units[i])
	}
	switch unit {
	case "bytes":
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB", "TiB")
	case "s":
		switch d := time.Duration(v) * time.Second; {
		case d >= 48*time.Hour:
			return scaled(d.Hours()/24, 1e9, "days")
		case d >= time.Hour:
			return scaled(d.Hours(), 1e9, "hours")
		case d >= time.Minute:
			return scaled(d.Minutes(), 1e9, "min")
		}
		return scaled(v, 1e9, "s")
	}
	return scaled(v, 1e9, "")
}
