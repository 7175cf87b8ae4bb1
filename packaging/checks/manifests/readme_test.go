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

// TestReadme: the table of values in the chart's README is that of values.yaml: UPDATE_GOLDEN=1 make lint-chart writes it.
func TestReadme(t *testing.T) {
	var file yaml.Node
	must(t, yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &file))
	var table strings.Builder
	table.WriteString("| value | default | |\n| --- | --- | --- |\n")
	rows(t, &table, "", file.Content[0])
	const name, begin = chart + "/README.md", "## Values\n\n"
	text := read(t, name)
	before, got, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("%s has no heading %q", name, begin)
	}
	if got == table.String() {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatal("the README's table of values is old: run UPDATE_GOLDEN=1 make lint-chart")
	}
	must(t, os.WriteFile(name, []byte(before+begin+table.String()), 0o644))
}

// rows writes a row for each value of a mapping, and for each value inside one that the chart does not hand on as it is.
func rows(t *testing.T, table *strings.Builder, prefix string, mapping *yaml.Node) {
	t.Helper()
	for pair := range slices.Chunk(mapping.Content, 2) {
		name, value := prefix+pair[0].Value, pair[1]
		about := strings.NewReplacer("\n# ", " ", "# ", "", "|", `\|`).Replace(pair[0].HeadComment)
		if prefix == "" && value.Kind == yaml.MappingNode && len(value.Content) > 0 && !whole[name] {
			if about != "" {
				fmt.Fprintf(table, "| `%s` | | %s |\n", name, about)
			}
			rows(t, table, name+".", value)
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
		fmt.Fprintf(table, "| `%s` | %s | %s |\n", name, shown, about)
	}
}
