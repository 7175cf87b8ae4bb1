package ui

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Row is one line of a table: a pod, or CNI files.
type Row struct {
	Word    string
	Colour  Colour
	Title   string // the pod's UID, or a substitute
	Name    string // NAMESPACE/NAME, or the network
	Bytes   int64
	Unread  bool // the size is not known
	Reasons []policy.Reason
	Notes   []string
}

func (r Row) reasons(between string) string {
	var words []string
	for _, reason := range r.Reasons {
		words = append(words, string(reason))
	}
	return strings.Join(words, between)
}

const titleWidth = 36

// line is the row in a pipe: fields separated by tabs, "-" for an empty one.
func (r Row) line() string {
	size := fmt.Sprint(r.Bytes)
	if r.Unread {
		size = "-"
	}
	fields := []string{r.Word, cmp.Or(r.Title, "-"), cmp.Or(r.Name, "-"), size, cmp.Or(r.reasons(","), "-")}
	return strings.Join(append(fields, r.Notes...), "\t")
}

// details returns the last column of a terminal: the name, the reasons and the notes.
func (r Row) details() string {
	var parts []string
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	if len(r.Reasons) > 0 {
		parts = append(parts, r.reasons(", "))
	}
	return strings.Join(append(parts, r.Notes...), "; ")
}

// Table writes rows; head, what and details are the titles of the columns. On a terminal it wraps the last column.
func (p *Printer) Table(head string, width int, what, details string, rows []Row) {
	if p.Piped {
		for _, r := range rows {
			p.Printf("%s\n", r.line())
		}
		return
	}
	if len(rows) == 0 {
		return
	}
	const sizeWidth = 8
	p.Heading(human.Pad(head, width) + human.Pad(what, titleWidth) + fmt.Sprintf("%*s  %s", sizeWidth+2, "SIZE", details))
	left := width + titleWidth + 2 + sizeWidth + 2
	for _, r := range rows {
		size := "-"
		if !r.Unread {
			size = human.Size(r.Bytes)
		}
		first := p.Paint(r.Colour, human.Pad(r.Word, width)) + human.Pad(human.Short(r.Title, titleWidth), titleWidth+2) + fmt.Sprintf("%*s  ", sizeWidth, size)
		for _, line := range human.Wrap(r.details(), p.Columns-left) {
			p.Printf("%s\n", strings.TrimRight(first+line, " "))
			first = strings.Repeat(" ", left)
		}
	}
}
