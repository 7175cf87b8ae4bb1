package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// row is one line of the table of what was looked at, a pod or a file of CNI, with what
// stands below it.
type row struct {
	word    string
	colour  Colour
	title   string
	under   []string
	bytes   int64
	unread  bool
	reasons []string
}

// The widths of the table's columns; the first is the caller's.
const (
	nameWidth     = 36 // a pod's UID
	sizeWidth     = 8
	longestReason = len("kubelet-starting,")
)

// size is "-" where the pod was not read: a living pod is passed over.
func (r row) size() string {
	if r.unread {
		return "-"
	}
	return human.Size(r.bytes)
}

// table writes rows: a word, the name with more of it below, the size, the reasons.
func (p *Printer) table(head string, width int, what string, rows []row) {
	if len(rows) == 0 {
		return
	}
	left := width + nameWidth + 2 + sizeWidth + 2
	below := p.Columns-left < longestReason // no room beside: the reasons go under the name
	title := human.Pad(head, width) + human.Pad(what, nameWidth+2) + fmt.Sprintf("%*s", sizeWidth, "SIZE")
	if !below {
		title += "  REASONS"
	}
	p.Printf("%s\n", p.Paint(bold, title))
	for _, r := range rows {
		why := strings.Join(r.reasons, ", ")
		lines := []string{""}
		if !below {
			lines = human.Wrap(why, p.Columns-left)
		}
		p.Printf("%s\n", strings.TrimRight(p.Paint(r.colour, human.Pad(r.word, width))+human.Pad(human.Short(r.title, nameWidth), nameWidth+2)+
			fmt.Sprintf("%*s  ", sizeWidth, r.size())+lines[0], " "))
		for n := range max(len(lines)-1, len(r.under)) {
			name, more := "", ""
			if n < len(r.under) {
				name = human.Short(r.under[n], nameWidth)
			}
			if n+1 < len(lines) {
				more = lines[n+1]
			}
			p.Printf("%s\n", strings.TrimRight(human.Pad("", width)+human.Pad(name, nameWidth+2)+strings.Repeat(" ", sizeWidth+2)+more, " "))
		}
		if below && why != "" {
			for _, line := range human.Wrap(why, p.Columns-width) {
				p.Printf("%s%s\n", human.Pad("", width), line)
			}
		}
	}
}

// heading says what the rows are.
func heading(pods []podView, files []cniView) string {
	switch {
	case len(files) == 0:
		return "POD"
	case len(pods) == 0:
		return "CNI FILE"
	}
	return "POD OR CNI FILE"
}

// podRows are the rows of pods, in the table's order.
func podRows(pods []podView, word func(*podView) (string, Colour)) (rows []row) {
	for _, group := range tableOrder {
		for i := range pods {
			pod := &pods[i]
			if verdictOf(pod) != group {
				continue
			}
			r := row{title: pod.title(), bytes: total(pod.Residue).Bytes, unread: pod.evidence.Unread}
			r.word, r.colour = word(pod)
			for _, why := range pod.Reasons {
				r.reasons = append(r.reasons, string(why))
			}
			second := podName(pod.Namespace, pod.Name)
			if pod.Parked {
				second = strings.TrimSpace("parked " + second)
			}
			if pod.evidence.RuntimeOnly {
				second = strings.TrimSpace("only in the runtime " + second)
			}
			if second != "" {
				r.under = []string{second}
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// mostRows bounds the rows of files of one verdict: nobody reads more.
const mostRows = 20

// cniRows are the rows of files, in the table's order: the first of each verdict, and how
// many more there are.
func cniRows(views []cniView, word func(*cniView) (string, Colour)) (rows []row) {
	for _, group := range tableOrder {
		shown, more := 0, 0
		for i := range views {
			v := &views[i]
			if string(v.Verdict) != group {
				continue
			}
			if shown++; shown > mostRows {
				more++
				continue
			}
			r := row{title: v.title(), under: v.under(), bytes: v.Bytes}
			r.word, r.colour = word(v)
			for _, why := range v.Reasons {
				r.reasons = append(r.reasons, string(why))
			}
			rows = append(rows, r)
		}
		if more > 0 {
			last := &rows[len(rows)-1]
			last.under = append(slices.Clip(last.under), "… and more (-o json has all)")
		}
	}
	return rows
}
