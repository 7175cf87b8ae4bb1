package manifests

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestReadme: the list of values in the chart's README is that of values.yaml: UPDATE_GOLDEN=1 make lint-chart writes it.
func TestReadme(t *testing.T) {
	var file yaml.Node
	must(t, yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &file))
	var list strings.Builder
	items(t, &list, "", file.Content[0])
	const name, begin = chart + "/README.md", "## Values\n\n"
	text := read(t, name)
	before, got, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("%s has no heading %q", name, begin)
	}
	if got == list.String() {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatal("the README's list of values is old: run UPDATE_GOLDEN=1 make lint-chart")
	}
	must(t, os.WriteFile(name, []byte(before+begin+list.String()), 0o644))
}

// items writes an item for each value of a mapping, and for each value inside one that the chart does not hand on as it is.
func items(t *testing.T, list *strings.Builder, prefix string, mapping *yaml.Node) {
	t.Helper()
	for pair := range slices.Chunk(mapping.Content, 2) {
		name, value := prefix+pair[0].Value, pair[1]
		about := strings.NewReplacer("\n# ", " ", "# ", "").Replace(pair[0].HeadComment)
		if prefix == "" && value.Kind == yaml.MappingNode && len(value.Content) > 0 && !whole[name] {
			if about != "" {
				item(list, fmt.Sprintf("- `%s`: %s", name, about))
			}
			items(t, list, name+".", value)
			continue
		}
		var v any
		must(t, value.Decode(&v))
		standard, err := json.Marshal(v)
		must(t, err)
		shown := "`" + string(standard) + "`"
		if len(shown) > 80 {
			shown = "in [values.yaml](values.yaml)"
		}
		item(list, strings.TrimSuffix(fmt.Sprintf("- `%s` (%s): %s", name, shown, about), ": "))
	}
}

// item writes an item in lines of at most 120 bytes.
func item(list *strings.Builder, text string) {
	line := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case line+1+len(word) > 120:
			list.WriteString("\n ")
			line = 1
			fallthrough
		default:
			list.WriteString(" ")
			line++
		}
		list.WriteString(word)
		line += len(word)
	}
	list.WriteString("\n")
}
