//go:build generate

// Generating writes what is made from the tables of the program: the package's configuration, the manual pages, and the
// reference. Each template is below; md2man makes the pages. cobra/doc, which uses md2man, too, would write a page for each
// command, with all settings in each.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// placeholder matches what a screen fills in.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// trailing matches spaces at the end of a line, which templates leave, and lines that are empty for the same reason.
var trailing = regexp.MustCompile(` +(\n)|\n(\n\n)\n*`)

// Where the files go, from the directory of this package.
const (
	top       = "../../"
	packaging = top + "packaging/"
	reference = top + "docs/reference.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// facts is what the templates are filled with.
type facts struct {
	Date     string
	Root     *cobra.Command
	Commands []*cobra.Command // that can be run
	Settings []config.Setting
	Reasons  []judge.ReasonText
	Metrics  []audit.Metric
	Records  []audit.Record
	Fields   []audit.Field
	Status   []object
}

func generate() error {
	root := newRoot(&app{in: os.Stdin, out: io.Discard, stderr: io.Discard})
	f := facts{
		Date: "@DATE@", Root: root, Commands: runnable(root), Settings: config.Table, Reasons: judge.ReasonTexts[:],
		Metrics: audit.MetricTable[:], Records: audit.Records[:], Fields: audit.JournalFields[:],
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" { // reproducible-builds.org/specs/source-date-epoch
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		f.Date = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	source := comments{}
	f.Status = source.objects(reflect.TypeFor[reaper.Status]())
	funcs := template.FuncMap{
		"manual": func(s config.Setting) *comment.Doc { return source.of(reflect.TypeFor[config.Settings](), s.Field) },
		"hash":   hash,
		"text":   markdown,
		"cell":   cell,
		"flags":  ownFlags,
		"value":  func(f *pflag.Flag) string { value, _ := pflag.UnquoteUsage(f); return value },
		"usage":  func(f *pflag.Flag) string { _, usage := pflag.UnquoteUsage(f); return usage },
		"upper": func(s string) string {
			return placeholder.ReplaceAllStringFunc(s, func(s string) string { return strings.ToUpper(strings.Trim(s, "{}")) })
		},
		"kind":   kind,
		"indent": func(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") },
	}
	errs := []error{os.WriteFile(packaging+"orphan-reaper.catalog", []byte(audit.Catalog()), 0o644)}
	for name, text := range map[string]string{
		packaging + "config.yaml": configTemplate, packaging + "orphan-reaper.8": commandsTemplate, packaging + "orphan-reaper.5": settingsTemplate,
		reference: referenceTemplate,
	} {
		var b bytes.Buffer
		t, err := template.New(name).Funcs(funcs).Parse(text)
		if err == nil {
			err = t.Execute(&b, f)
		}
		out := trailing.ReplaceAll(b.Bytes(), []byte("$1$2"))
		if strings.HasPrefix(text, "%") {
			out = md2man.Render(out)
		}
		if err == nil {
			err = os.WriteFile(name, out, 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// runnable returns the commands that can be run, in the order of --help.
func runnable(parent *cobra.Command) (all []*cobra.Command) {
	for _, c := range parent.Commands() {
		if c.HasSubCommands() {
			all = append(all, runnable(c)...)
		} else if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
		}
	}
	return all
}

// ownFlags returns the flags of a command that are no settings.
func ownFlags(c *cobra.Command) (own []*pflag.Flag) {
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(settings)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if settings.Lookup(f.Name) == nil && f.Name != "help" {
			own = append(own, f)
		}
	})
	return own
}

// hash returns the text of a comment as comment lines of YAML.
func hash(d *comment.Doc) string {
	text := (&comment.Printer{TextWidth: 90}).Text(d)
	return "# " + strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n# "), "# \n", "#\n")
}

func markdown(d *comment.Doc) string {
	return strings.TrimSpace(string((&comment.Printer{}).Markdown(d)))
}

// cell returns a text for a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func kind(t prometheus.ValueType) string {
	if t == prometheus.CounterValue {
		return "counter"
	}
	return "gauge"
}

// comments are the comments of types and fields in the sources, by package, type and field.
type comments map[string]*ast.CommentGroup

// of returns the comment of a type, or of one of its fields.
func (c comments) of(t reflect.Type, field string) *comment.Doc {
	if _, read := c[t.PkgPath()]; !read {
		c[t.PkgPath()] = nil
		if err := c.read(t.PkgPath()); err != nil {
			panic(err) // a program for developers
		}
	}
	return new(comment.Parser).Parse(c[t.PkgPath()+"."+t.Name()+"."+field].Text())
}

// read reads the sources of a package.
func (c comments) read(pkg string) error {
	dir := top + strings.TrimPrefix(pkg, "github.com/orphan-reaper/orphan-reaper/")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				c.types(pkg, g)
			}
		}
	}
	return nil
}

func (c comments) types(pkg string, g *ast.GenDecl) {
	for _, s := range g.Specs {
		t, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		name := pkg + "." + t.Name.Name + "."
		c[name] = g.Doc
		if s, ok := t.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, n := range f.Names {
					c[name+n.Name] = f.Doc
					if f.Doc == nil {
						c[name+n.Name] = f.Comment
					}
				}
			}
		}
	}
}
