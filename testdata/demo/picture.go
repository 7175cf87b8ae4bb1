package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
)

// picture is a recording of the demo, which the README shows.
const picture = "docs/demo.svg"

// The recording's measures, in pixels and seconds. A column is a little wider than most fonts have it;
// textLength makes each line as wide as its columns.
const (
	column, row  = 7.8, 17
	margin, head = 16, 44
	pageSeconds  = 10
	lineSeconds  = 0.06
)

// recordingStyle has the colours of a terminal on a light and on a dark page. A page shows for its share of the
// time, and its lines one after the other; where nothing moves the first page stays.
const recordingStyle = `<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
.window { fill: #fff; stroke: #d0d7de }
.bar { fill: #f6f8fa; stroke: #d0d7de }
.comment { fill: #59636e } .prompt { font-weight: 600 } .good { fill: #116329; font-weight: 600 } .bad { fill: #cf222e; font-weight: 600 }
.tab { fill: #59636e } .at { fill: #0969da; font-weight: 600 }
.page + .page { opacity: 0 }
.page { animation: page %ds infinite step-end }
.page text { animation: line %ds infinite step-end backwards }
@keyframes page { from { opacity: 1 } %.2f%%, to { opacity: 0 } }
@keyframes line { from { opacity: 1 } 90%% { opacity: 0 } to { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .page text { animation: none } }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .window { fill: #0d1117; stroke: #3d444d } .bar { fill: #151b23; stroke: #3d444d }
.comment, .tab { fill: #9198a1 } .good { fill: #3fb950 } .bad { fill: #ff7b72 } .at { fill: #58a6ff }
}
</style>`

// draw draws the session, each part on a page of its own.
func draw(session []string, parts []part) string {
	pages, rows := make([][]string, len(parts)), 0
	for i, p := range parts {
		end := len(session)
		if i+1 < len(parts) {
			end = parts[i+1].line
		}
		pages[i] = session[p.line:end]
		rows = max(rows, len(pages[i]))
	}
	const wide = 2*margin + width*column
	high := head + row*rows + margin
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-labelledby="title desc">`,
		wide, high, wide, high)
	line("<!-- Recorded by make demo; UPDATE_GOLDEN=1 make demo records it anew. -->")
	line("<title id=\"title\">orphan-reaper at work: a recording of make demo</title>")
	line("<desc id=\"desc\">Four screens of a terminal. Before: the kubelet complains, and doctor says why. At work: the daemon's records. " +
		"After: doctor says that the complaints have stopped. Undo: a pod comes back from quarantine.</desc>")
	seconds := pageSeconds * len(parts)
	line(recordingStyle, seconds, seconds, 100/float64(len(parts)))
	line(`<rect x=".5" y=".5" width="%.0f" height="%d" rx="8" class="window"/>`, wide-1, high-1)
	line(`<path d="M.5 30.5V8.5a8 8 0 0 1 8-8H%.1fa8 8 0 0 1 8 8V30.5z" class="bar"/>`, wide-8.5)
	x := func(i int) int { return margin + i*150 }
	for i, p := range parts {
		line(`<text x="%d" y="20" class="tab">%s</text>`, x(i), p.title)
	}
	for i, p := range parts {
		line(`<g class="page" style="animation-delay:%ds">`, i*pageSeconds)
		line(`<text x="%d" y="20" class="at">%s</text>`, x(i), p.title)
		for j, text := range pages[i] {
			if text = strings.TrimRight(text, " "); text == "" {
				continue
			}
			kind, _ := class(text)
			line(`<text x="%d" y="%d" textLength="%.1f" class="%s" style="animation-delay:%.2fs">%s</text>`, margin, head+row*j+10,
				column*float64(columns(text)), kind, float64(i*pageSeconds)+lineSeconds*float64(j), escape(text))
		}
		line("</g>")
	}
	line("</svg>")
	return b.String()
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

var (
	drawnText = regexp.MustCompile(`<text[^>]*>([^<]*)</text>`)
	figures   = regexp.MustCompile(`([0-9]+[smhd]?)+`)
)

// said is what a picture says, without what differs from run to run: times, counts, and where lines break.
func said(svg string) string {
	var b strings.Builder
	for _, m := range drawnText.FindAllStringSubmatch(svg, -1) {
		b.WriteString(html.UnescapeString(m[1]))
	}
	return figures.ReplaceAllString(strings.Join(strings.Fields(b.String()), ""), "0")
}

// recording fails where the picture in the docs says something else than this demo did.
func (d *demo) recording() error {
	drawn := draw(d.session, d.parts)
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		return os.WriteFile(picture, []byte(drawn), 0o644)
	}
	kept, err := os.ReadFile(picture)
	if err != nil {
		return err
	}
	if got, want := said(string(kept)), said(drawn); got != want {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		return errors.New(picture + " is out of date; UPDATE_GOLDEN=1 make demo records it anew. It says " +
			got[max(at-30, 0):min(at+60, len(got))] + ", and the demo " + want[max(at-30, 0):min(at+60, len(want))])
	}
	return nil
}
