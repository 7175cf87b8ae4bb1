package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

const bundleNote = "It has names of pods, namespaces and processes, and paths; it has no content of files, and no credentials. Read it before you send it."

// bundle writes the output of other commands into one file for a bug report, and prints its name.
func (a *cli) bundle(ctx context.Context, cfg config.Config, shown *ui.Doctor, file string) error {
	node := app.NodeName(cfg)
	var wrong []error
	piece := func(name string, write func(*ui.Printer) error) app.BundleFile {
		var text bytes.Buffer
		p := ui.NewPrinter(&text, func(string) string { return "" })
		if err := errors.Join(write(p), p.Flush()); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
		return app.BundleFile{Name: name, Text: text.Bytes()}
	}
	files := []app.BundleFile{
		piece("README.txt", func(p *ui.Printer) error {
			p.Para("", "What orphan-reaper doctor -o bundle wrote on node "+node+". "+bundleNote)
			return nil
		}),
		piece("version.json", func(p *ui.Printer) error { return p.JSON(version()) }),
		piece("config.json", func(p *ui.Printer) error { return p.JSON(cfg.JSON()) }),
		piece("doctor.txt", func(p *ui.Printer) error { p.Doctor(shown); return nil }),
		piece("doctor.json", func(p *ui.Printer) error { return p.JSON(shown) }),
	}
	if s, err := app.Look(ctx, cfg, nil); err == nil { // doctor has the error
		scan := ui.NewReport(s.Report, a.lookContext(cfg, &s), ui.Show{All: true})
		files = append(files,
			piece("scan.txt", func(p *ui.Printer) error { p.Report(&scan); return nil }),
			piece("scan.json", func(p *ui.Printer) error { return p.JSON(scan) }))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	at := app.Now().Wall.UTC()
	dir := "orphan-reaper-" + strings.Map(nameRune, node) + "-" + at.Format("20060102T150405Z")
	if file == "" {
		file = dir + ".tar.gz"
	}
	size, err := app.WriteBundle(file, dir, append(files, app.BundleOf(cfg)...), at, a.stdout)
	if err != nil {
		return err
	}
	out := a.stdout
	if file == "-" {
		file, out = "the bundle", a.stderr
	}
	p := a.printer(out)
	p.Para("", fmt.Sprintf("%s has %s: doctor, scan, configuration, version, the last records and the metrics. %s", file, human.Size(size), bundleNote))
	return p.Flush()
}

// nameRune replaces a rune that a file's name may not have.
func nameRune(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}
