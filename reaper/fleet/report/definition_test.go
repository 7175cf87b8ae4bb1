package report

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// schema has the fields of OpenAPI's schemas that the definition uses.
type schema struct {
	Type, Format string
	Pattern      string
	Enum         []string
	Maximum      int64
	MaxLength    int `yaml:"maxLength"`
	MaxItems     int `yaml:"maxItems"`
	Items        *schema
	Properties   map[string]*schema
	Required     []string
}

// TestDefinition checks that the definition of an OrphanReport has exactly the fields of a Report with their bounds:
// an API server refuses a report with any other field.
func TestDefinition(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/chart/files/orphanreports.yaml")
	testkit.Must(t, err)
	var d struct {
		Spec struct {
			Group    string
			Names    struct{ Kind, Plural string }
			Versions []struct {
				Name   string
				Schema struct {
					Schema schema `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	testkit.Must(t, yaml.Unmarshal(text, &d))
	v := d.Spec.Versions[0]
	if d.Spec.Group != APIGroup || d.Spec.Names.Kind != Kind || "/apis/"+d.Spec.Group+"/"+v.Name+"/"+d.Spec.Names.Plural != ResourcePath {
		t.Errorf("%+v", d.Spec)
	}
	agree(t, "report", reflect.TypeFor[Report](), v.Schema.Schema.Properties["report"])
}

// agree compares a type with a schema, both ways.
func agree(t *testing.T, path string, have reflect.Type, s *schema) {
	t.Helper()
	if s == nil {
		t.Errorf("the definition has no %s", path)
		return
	}
	want := schema{}
	switch kind := have.Kind(); {
	case have == reflect.TypeFor[time.Time]():
		want.Type, want.Format = "string", "date-time"
	case kind == reflect.String:
		want.Type = "string"
		texts(t, path, s)
		want.MaxLength = s.MaxLength
	case kind == reflect.Bool:
		want.Type = "boolean"
	case kind == reflect.Int, kind == reflect.Int64, kind == reflect.Uint64:
		want.Type, want.Format = "integer", "int64"
		want.Maximum = mostCount
		if strings.HasSuffix(path, "bytes") {
			want.Maximum = mostBytes
		}
		if path == "report.look" {
			want.Maximum = 1 << 53
		}
	case kind == reflect.Slice:
		want.Type, want.MaxItems = "array", map[string]int{"report.pods": mostPods, "report.pods[].why": mostReasons, "report.sums": mostSums}[path]
		if want.MaxItems == 0 {
			want.MaxItems = mostErrors
		}
		agree(t, path+"[]", have.Elem(), s.Items)
	case kind == reflect.Struct:
		want.Type = "object"
		fields(t, path, have, s)
	default:
		t.Fatalf("%s is a %s", path, have)
	}
	if s.Type != want.Type || s.Format != want.Format || s.MaxLength != want.MaxLength || s.MaxItems != want.MaxItems || s.Maximum != want.Maximum {
		t.Errorf("%s is %s %s, at most %d long or %d many; it should be %+v", path, s.Type, s.Format, s.MaxLength, s.MaxItems, want)
	}
}

// texts checks that a text is one of a list or is bounded without terminal control characters.
func texts(t *testing.T, path string, s *schema) {
	t.Helper()
	if len(s.Enum) > 0 {
		return
	}
	pattern, err := regexp.Compile(s.Pattern)
	if err != nil || s.Pattern == "" || s.MaxLength == 0 || s.MaxLength > mostText {
		t.Errorf("%s has %q, %v, and at most %d", path, s.Pattern, err, s.MaxLength)
		return
	}
	for _, bad := range []string{"\x1b[2J", "a\nb", "\x00", "\x7f", "\u009b", "\u202e", "\u200b", "\u2028", "\u2066"} {
		if pattern.MatchString(bad) {
			t.Errorf("%s accepts %q", path, bad)
		}
	}
	if path != "report.pods[].why[].reason" && !pattern.MatchString(Short("ä 日本 \x1b[2J/~\"")) || !pattern.MatchString("kubelet-holds") {
		t.Errorf("%s refuses what a daemon writes", path)
	}
}

// fields compares the fields of a struct.
func fields(t *testing.T, path string, have reflect.Type, s *schema) {
	t.Helper()
	known := map[string]bool{}
	for f := range have.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = options == ""
		agree(t, path+"."+name, f.Type, s.Properties[name])
	}
	for name := range s.Properties {
		if _, ok := known[name]; !ok {
			t.Errorf("%s.%s is never written", path, name)
		}
	}
	for _, name := range s.Required {
		if !known[name] {
			t.Errorf("%s.%s is not always written", path, name)
		}
	}
}
