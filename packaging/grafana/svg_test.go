package grafana

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// The picture's measures, in pixels. Grafana's grid has 24 columns.
const (
	width  = 1200
	gap    = 8
	column = (width - gap) / 24.0
	unit   = 26 // of the grid's height
)

// canvas is a picture that grows.
type canvas struct{ strings.Builder }

func (c *canvas) line(format string, args ...any) { c.WriteString(fmt.Sprintf(format, args...) + "\n") }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// text writes at x, y; class is one of the style's.
func (c *canvas) text(x, y float64, class, attributes, s string) {
	c.line(`<text x="%.1f" y="%.1f" class="%s"%s>%s</text>`, x, y, class, attributes, escape(s))
}

const style = `<style>
text { font-family: Inter, "Helvetica Neue", Arial, sans-serif; fill: #24292e; font-size: 11px }
.row { font-size: 15px; font-weight: 600 }
.title { font-size: 12px; font-weight: 600 }
.value { font-size: 30px; font-weight: 600; text-anchor: middle }
.axis { fill: #6e7680; font-size: 10px }
.head { fill: #3274d9; font-weight: 600 }
.card { fill: #fff; stroke: #d8dbdf }
.grid { stroke: #e9ebee }
</style>`

// area is where something is drawn.
type area struct{ x, y, w, h float64 }

// draw draws panels with the answers to their queries, by ID.
func draw(panels []panel, answers map[int][]series) string {
	top, bottom := panels[0].GridPos.Y, 0
	for _, p := range panels {
		bottom = max(bottom, p.GridPos.Y+p.GridPos.H)
	}
	var c canvas
	height := (bottom-top)*unit + gap
	c.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`, width, height, width, height)
	c.line("%s\n<rect width=\"100%%\" height=\"100%%\" fill=\"#f4f5f5\"/>", style)
	for i := range panels {
		p := &panels[i]
		a := area{
			gap + float64(p.GridPos.X)*column, float64(gap + (p.GridPos.Y-top)*unit), float64(p.GridPos.W)*column - gap, float64(p.GridPos.H*unit - gap),
		}
		if p.Type == "row" {
			c.text(a.x, a.y+15, "row", "", p.Title)
			continue
		}
		c.line(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" class="card"/>`, a.x, a.y, a.w, a.h)
		c.text(a.x+8, a.y+17, "title", "", p.Title)
		inner := area{a.x + 8, a.y + 26, a.w - 16, a.h - 34}
		switch p.Type {
		case "stat":
			c.stat(p, inner, answers[p.ID])
		case "table":
			c.table(p, inner, answers[p.ID])
		default:
			c.chart(p, inner, p.sorted(answers[p.ID]))
		}
	}
	c.line("</svg>")
	return c.String()
}

func (c *canvas) stat(p *panel, a area, all []series) {
	if len(all) == 0 {
		return
	}
	d := &p.FieldConfig.Defaults
	v := all[0].points[len(all[0].points)-1].value
	text, colour := format(v, d.Unit), "text"
	for _, s := range d.Thresholds.Steps {
		if s.Value == nil || v >= *s.Value {
			colour = s.Color
		}
	}
	for _, m := range d.Mappings {
		if o, ok := m.Options[fmt.Sprint(v)]; ok {
			text, colour = o.Text, o.Color
		}
	}
	if p.Options.TextMode == "name" {
		text = all[0].name
	}
	size := min(30, 1.7*a.w/float64(len(text)))
	c.text(a.x+a.w/2, a.y+a.h/2+10, "value", fmt.Sprintf(` style="fill:%s;font-size:%.0fpx"`, colours[colour], size), text)
}

// table draws what the panel's transformation leaves: the labels by their new names, then the value.
func (c *canvas) table(p *panel, a area, all []series) {
	o := p.Transformations[0].Options
	var labels []string
	for name := range o.RenameByName {
		if _, ok := all[0].labels[name]; ok {
			labels = append(labels, name)
		}
	}
	place := func(name string) int {
		if i, ok := o.IndexByName[name]; ok {
			return i
		}
		return len(o.IndexByName)
	}
	slices.SortFunc(labels, func(x, y string) int { return cmp.Or(place(x)-place(y), strings.Compare(x, y)) })
	slices.SortFunc(all, func(x, y series) int {
		return cmp.Or(cmp.Compare(y.points[0].value, x.points[0].value), strings.Compare(x.labels["instance"], y.labels["instance"]))
	})
	rows := [][]string{nil}
	for _, name := range labels {
		rows[0] = append(rows[0], o.RenameByName[name])
	}
	value := o.RenameByName["Value"]
	if !o.ExcludeByName["Value"] {
		rows[0] = append(rows[0], value)
	}
	for _, s := range all {
		var cells []string
		for _, name := range labels {
			cells = append(cells, s.labels[name])
		}
		if !o.ExcludeByName["Value"] {
			cells = append(cells, format(s.points[0].value, p.unitOf(value)))
		}
		rows = append(rows, cells)
	}
	c.rows(a, rows)
}

// rows draws rows of a table, as many as there is room for; each column is as wide as its words ask for.
func (c *canvas) rows(a area, rows [][]string) {
	widths := make([]float64, len(rows[0]))
	total := 0.0
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], 3+float64(len(cell)))
		}
	}
	for _, w := range widths {
		total += w
	}
	const height = 20
	for n, cells := range rows[:min(len(rows), int(a.h/height))] {
		y, x, class := a.y+float64(n)*height+13, a.x, "cell"
		if n == 0 {
			class = "head"
		}
		for i, cell := range cells {
			c.text(x, y, class, "", cell)
			x += widths[i] * a.w / total
		}
		c.line(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`, a.x, y+6, a.x+a.w, y+6)
	}
}

// unitOf is the unit that an override gives to a column.
func (p *panel) unitOf(name string) string {
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.Options == name && o.Properties[0].ID == "unit" {
			var u string
			_ = json.Unmarshal(o.Properties[0].Value, &u)
			return u
		}
	}
	return ""
}

// chart draws lines over a day, stacked where the panel stacks them.
func (c *canvas) chart(p *panel, a area, all []series) {
	plot := area{a.x + 46, a.y + 2, a.w - 64, a.h - 18 - c.legend(p, a, all)}
	stacked := p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	below := map[int64]float64{}
	tops := make([]map[int64]float64, len(all))
	highest := 0.0
	for i, s := range all {
		tops[i] = map[int64]float64{}
		for _, pt := range s.points {
			v := pt.value
			if stacked {
				v += below[pt.at.Unix()]
				below[pt.at.Unix()] = v
			}
			tops[i][pt.at.Unix()] = v
			highest = max(highest, v)
		}
	}
	tick := c.axes(plot, highest, p.FieldConfig.Defaults.Unit)
	scale := plot.h / (4 * tick)
	for i, s := range slices.Backward(all) { // what is below is drawn last
		c.curve(plot, scale, s, tops[i], p.colour(s.name, i), stacked)
	}
}

// legend draws the names of all series and their last values at the bottom of an area, and returns how high that is.
func (c *canvas) legend(p *panel, a area, all []series) float64 {
	const height = 14.0
	names, lines := make([]string, len(all)), 1.0
	at := make([]area, len(all))
	x := a.x
	for i, s := range all {
		names[i] = fmt.Sprintf("%s  %s", s.name, format(s.points[len(s.points)-1].value, p.FieldConfig.Defaults.Unit))
		wide := 28 + 5.4*float64(len(names[i]))
		if x+wide > a.x+a.w {
			x, lines = a.x, lines+1
		}
		at[i] = area{x: x, y: lines}
		x += wide
	}
	for i, s := range all {
		y := a.y + a.h - (lines-at[i].y)*height
		c.line(`<rect x="%.1f" y="%.1f" width="12" height="4" fill="%s"/>`, at[i].x, y-5, p.colour(s.name, i))
		c.text(at[i].x+16, y, "axis", "", names[i])
	}
	return lines * height
}

// axes draws the grid, and returns a quarter of the height as a round number.
func (c *canvas) axes(plot area, highest float64, unit string) float64 {
	tick := roundUp(highest/4, unit)
	for i := range 5 {
		y := plot.y + plot.h*float64(4-i)/4
		c.line(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`, plot.x, y, plot.x+plot.w, y)
		c.text(plot.x-5, y+3, "axis", ` text-anchor="end"`, format(float64(i)*tick, unit))
	}
	for hour := 0; hour <= 24; hour += 6 {
		c.text(plot.x+plot.w*float64(hour)/24, plot.y+plot.h+13, "axis", ` text-anchor="middle"`, fmt.Sprintf("%02d:00", (12+hour)%24))
	}
	return tick
}

// roundUp returns the least round number that is not below v: 1, 2 or 5 of a unit, an hour or a day for seconds.
func roundUp(v float64, unit string) float64 {
	steps, base, first := []float64{1, 2, 5}, 10.0, 1.0
	switch unit {
	case "s":
		steps, base, first = []float64{1, 2, 3, 6, 12}, 24, 3600
	case "bytes":
		steps, base = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}, 1024
	}
	for ; ; first *= base {
		for _, s := range steps {
			if s*first >= v {
				return s * first
			}
		}
	}
}

// curve draws one series; where it has no points it has a gap.
func (c *canvas) curve(plot area, scale float64, s series, top map[int64]float64, colour string, stacked bool) {
	var path, runs []string
	foot := fmt.Sprintf("%.1f", plot.y+plot.h)
	first, last := "", int64(0)
	end := func() {
		if len(path) == 0 {
			return
		}
		if stacked {
			x, _, _ := strings.Cut(path[len(path)-1], ",")
			path = append([]string{first + "," + foot}, append(path, x+","+foot)...)
		}
		runs, path = append(runs, wrapped(path)), nil
	}
	for _, pt := range s.points {
		at := pt.at.Unix()
		if last != 0 && at-last > 600 {
			end()
		}
		last = at
		x := fmt.Sprintf("%.1f", plot.x+plot.w*(1-noon.Sub(pt.at).Hours()/24))
		if len(path) == 0 {
			first = x
		}
		path = append(path, fmt.Sprintf("%s,%.1f", x, plot.y+plot.h-top[at]*scale))
	}
	end()
	for _, points := range runs {
		if stacked {
			c.line(`<polygon fill="%s" stroke="#fff" stroke-width="0.5" points="`+"\n"+`%s"/>`, colour, points)
			continue
		}
		c.line(`<polyline fill="none" stroke="%s" stroke-width="1.8" points="`+"\n"+`%s"/>`, colour, points)
	}
}

// wrapped joins points, ten a line.
func wrapped(points []string) string {
	var lines []string
	for some := range slices.Chunk(points, 10) {
		lines = append(lines, strings.Join(some, " "))
	}
	return strings.Join(lines, "\n")
}
