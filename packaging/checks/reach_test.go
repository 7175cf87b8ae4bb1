package checks

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoTemplates: nothing of the program imports what calls methods by their names, which would have the linker keep every
// exported method, 3 MB. Only cobra does; it reaches its templates when it is given one, and make lint forbids that.
func TestNoTemplates(t *testing.T) {
	const format = `{{.ImportPath}}|{{join .Imports ","}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags=grpcnotrace,nethttpomithttp2", "-f", format, "./cmd/orphan-reaper")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages, cobra := 0, false
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), "|")
		packages++
		for name := range strings.SplitSeq(imports, ",") {
			switch {
			case name == "text/template" && path == "github.com/spf13/cobra":
				cobra = true
			case name == "text/template", name == "html/template", name == "golang.org/x/net/trace":
				t.Errorf("%s imports %s", path, name)
			}
		}
	}
	if packages < 200 || !cobra {
		t.Errorf("%d packages, cobra's template %t: has go list told all?", packages, cobra)
	}
}
