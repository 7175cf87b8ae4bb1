package ui

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// Row is one line of the table of what was looked at, a pod or files of CNI, with what
// stands below it.
type Row struct {
	Word    string
	Colour  Colour
	Title   string
	ID      string // instead of title in a pipe, where it is not the same
	Name    string // NAMESPACE/NAME
	Network string // instead of it in a pipe, of files of CNI
	Notes   []string
	Bytes   int64
	Unread  bool
	Reasons []string
}

// The widths of the table's columns; the first is the caller's.
const (
	titleWidth    = 36 // a pod's UID
	sizeWidth     = 8
	gap           = 2
	longestReason = len("kubelet-starting,")
	// leastName and leastReasons are the least that the name's and the reasons' column get where
	// there is one for each.
	leastName, leastReasons = 20, 30
)

// size is "-" where the pod was not read: a living pod is passed over.
func (r Row) size() string {
	if r.Unread {
		return "-"
	}
	return human.Size(r.Bytes)
}

// line is the row in a pipe: fields apart by tabs, "-" for one that is empty.
func (r Row) line() string {
	fields := []string{r.Word, cmp.Or(r.ID, r.Title), cmp.Or(r.Network, r.Name), fmt.Sprint(r.Bytes), strings.Join(r.Reasons, ",")}
	if r.Unread {
		fields[3] = ""
	}
	for i, f := range fields {
		if f == "" {
			fields[i] = "-"
		}
	}
	return strings.Join(append(fields, r.Notes...), "\t")
}

// columns are the widths of one table.
type columns struct {
	word, name int  // name is 0 where it stands below the title
	below      bool // the reasons stand below, too
	reasons    int
}

// layout gives the name a column of its own where there is room for it.
func (p *Printer) layout(word int, rows []Row) columns {
	c := columns{word: word, reasons: p.Columns - word - titleWidth - gap - sizeWidth - gap}
	longest := 0
	for i := range rows {
		longest = max(longest, human.Columns(rows[i].Name))
	}
	if room := c.reasons - leastReasons - gap; longest > 0 && room >= min(longest, leastName) {
		c.name = min(longest, room)
		c.reasons -= c.name + gap
	}
	c.below = c.reasons < longestReason
	return c
}

// Table writes rows: a word, the title, the name, the size, the reasons, and below them what else is
// to be said. In a pipe each row is one line.
func (p *Printer) Table(head string, width int, what string, rows []Row) {
	if p.Piped {
		for _, r := range rows {
			p.Printf("%s\n", r.line())
		}
		return
	}
	if len(rows) == 0 {
		return
	}
	c := p.layout(width, rows)
	title := human.Pad(head, width) + human.Pad(what, titleWidth+gap)
	if c.name > 0 {
		title += human.Pad("NAME", c.name+gap)
	}
	title += fmt.Sprintf("%*s", sizeWidth, "SIZE")
	if !c.below {
		title += "  REASONS"
	}
	p.Printf("\n%s\n", p.Paint(Bold, title))
	for _, r := range rows {
		p.row(c, r)
	}
}

func (p *Printer) row(c columns, r Row) {
	left := titleWidth + gap // of what stands between the word and the size
	text := human.Pad(human.Short(r.Title, titleWidth), titleWidth+gap)
	var under []string
	if c.name > 0 {
		left += c.name + gap
		text += human.Pad(human.Short(r.Name, c.name), c.name+gap)
	} else if r.Name != "" {
		under = append(under, human.Short(r.Name, left-gap))
	}
	why := strings.Join(r.Reasons, ", ")
	beside := []string{""}
	if c.below && why != "" {
		under = append(under, human.Wrap(why, p.Columns-c.word)...)
	} else if !c.below {
		beside = human.Wrap(why, c.reasons)
	}
	p.Printf("%s\n", strings.TrimRight(p.Paint(r.Colour, human.Pad(r.Word, c.word))+text+fmt.Sprintf("%*s  ", sizeWidth, r.size())+beside[0], " "))
	for n := range max(len(beside)-1, len(under)) {
		first, second := "", ""
		if n < len(under) {
			first = under[n]
		}
		if n+1 < len(beside) {
			second = beside[n+1]
		}
		p.Printf("%s\n", strings.TrimRight(human.Pad("", c.word)+human.Pad(first, left)+strings.Repeat(" ", sizeWidth+gap)+second, " "))
	}
	for _, note := range r.Notes {
		p.Para(strings.Repeat(" ", c.word), note)
	}
}
