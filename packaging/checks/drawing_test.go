package checks

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"
)

// drawing is a picture for docs/, written as SVG. It has a background of its own, which follows the reader's
// choice of light or dark, so that it can be read on any page.
type drawing struct {
	strings.Builder
	faults []string // texts that are wider than their place
}

const drawingStyle = `<style>
text { font-family: Inter, "Helvetica Neue", Arial, sans-serif; fill: #24292e; font-size: 12px }
.paper { fill: #fff }
.name { font-weight: 600; font-size: 13px }
.zone { fill: none; stroke: #8b949e; stroke-dasharray: 5 4 }
.zoneName { fill: #57606a; font-style: italic }
.attacker, .stop { fill: #ffebe9; stroke: #cf222e }
.guard, .go { fill: #dafbe1; stroke: #1a7f37 }
.part { fill: #ddf4ff; stroke: #0969da }
.wait { fill: #fff8c5; stroke: #9a6700 }
.way { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#arrow) }
.tick { stroke: #57606a; stroke-width: 1.5; fill: none }
.head { fill: #57606a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.paper { fill: #0d1117 }
.zoneName { fill: #9198a1 }
.attacker, .stop { fill: #3c1618; stroke: #f85149 }
.guard, .go { fill: #12261e; stroke: #3fb950 }
.part { fill: #0c2d4d; stroke: #4493f8 }
.wait { fill: #32270b; stroke: #d29922 }
.way, .tick { stroke: #9198a1 }
.head { fill: #9198a1 }
}
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>
<rect width="100%" height="100%" class="paper"/>`

func (d *drawing) line(format string, args ...any) { fmt.Fprintf(&d.Builder, format+"\n", args...) }

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// begin writes the head of a picture, with a title and a text for those who do not see it.
func (d *drawing) begin(w, h int, drawnBy, title, alternative string) {
	d.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title text">`, w, h, w, h)
	d.line("<title id=\"title\">%s</title>\n<desc id=\"text\">%s</desc>", escaped(title), escaped(alternative))
	d.line("<!-- Drawn by %s in packaging/checks; UPDATE_GOLDEN=1 draws it anew. -->", drawnBy)
	d.line("%s", drawingStyle)
}

func (d *drawing) text(x, y int, class, s string) {
	d.line(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, escaped(s))
}

// within writes a text that must fit into a width: the letters of the widest of the fonts are taken for 6.4 units each.
func (d *drawing) within(x, y, w int, class, s string) {
	if need := len([]rune(s)) * 64 / 10; need > w {
		d.faults = append(d.faults, fmt.Sprintf("%q needs %d and has %d", s, need, w))
	}
	d.text(x, y, class, s)
}

// box draws a name with lines below it, or lines alone, in the middle of y.
func (d *drawing) box(x, y, w int, class, name string, lines ...string) {
	h, first := 54, y-8*len(lines)+12
	if name != "" {
		h = max(h, 28+18*len(lines))
	}
	d.line(`<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="%s"/>`, x, y-h/2, w, h, class)
	if name != "" {
		d.within(x+10, first-8, w-12, "name", name)
		first += 10
	}
	for i, line := range lines {
		d.within(x+10, first+17*i, w-12, "", line)
	}
}

// arrow draws a way along the commands of a path.
func (d *drawing) arrow(format string, args ...any) {
	d.line(`<path class="way" d="%s"/>`, fmt.Sprintf(format, args...))
}

// drawn ends a picture and holds the file to it.
func (d *drawing) drawn(t *testing.T, picture string) {
	t.Helper()
	d.line("</svg>")
	for _, fault := range d.faults {
		t.Error(fault)
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(picture, []byte(d.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != d.String() {
		t.Errorf("%s differs; UPDATE_GOLDEN=1 go test ./packaging/checks draws it anew", picture)
	}
}
