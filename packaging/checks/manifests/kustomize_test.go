package manifests

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const head = "# Rendered from packaging/chart with its default values: make golden-chart.\n"

// TestOneSource: the Kustomize base is what the chart renders by default, and the Namespace.
func TestOneSource(t *testing.T) {
	text, err := template(t, "--set", "namespaceManifest=true")
	must(t, err)
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# Source: ") && strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	want := head + strings.Join(lines, "")
	file := base + "/orphan-reaper.yaml"
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	if read(t, file) != want {
		t.Errorf("%s is not what the chart renders: run make golden-chart", file)
	}
}

// TestKustomize: kustomize builds the base into the chart's objects, and the overlays of docs/fleet.md change what they say.
func TestKustomize(t *testing.T) {
	built, err := tool(t, "KUSTOMIZE", "build", base)
	must(t, err)
	got, want := decode(t, built), rendered(t, "--set", "namespaceManifest=true")
	for _, all := range [][]metav1.Object{got, want} {
		slices.SortFunc(all, func(a, b metav1.Object) int {
			return strings.Compare(reflect.TypeOf(a).String()+a.GetName(), reflect.TypeOf(b).String()+b.GetName())
		})
	}
	if len(got) < 5 || !reflect.DeepEqual(got, want) {
		t.Errorf("kustomize builds %d objects, the chart %d, and they differ", len(got), len(want))
	}

	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "base"), 0o700))
	for _, name := range []string{"kustomization.yaml", "orphan-reaper.yaml"} {
		must(t, os.WriteFile(filepath.Join(dir, "base", name), []byte(read(t, filepath.Join(base, name))), 0o600))
	}
	overlay := strings.Replace(block(t, "kustomization"), "PATH/packaging/kustomize", "base", 1)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600))
	built, err = tool(t, "KUSTOMIZE", "build", dir)
	must(t, err)
	_, tag, _ := strings.Cut(overlay, "newTag: ")
	tag, _, _ = strings.Cut(tag, "}")
	c := kinds[*appsv1.DaemonSet](decode(t, built))[0].Spec.Template.Spec.Containers[0]
	if tag == "" || c.Image != "YOURS/orphan-reaper:"+tag || !slices.Equal(c.Args[:3], []string{"run", "--mode=enforce", "--node-name=$(NODE_NAME)"}) {
		t.Errorf("image %s, arguments %v", c.Image, c.Args)
	}
}
