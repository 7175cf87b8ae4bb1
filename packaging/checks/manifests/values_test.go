package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRefused: values that the schema or the chart refuses, each with its error.
func TestRefused(t *testing.T) {
	for set, want := range map[string]string{
		"mode=delete":                         "'observe', 'enforce'",
		"mdoe=enforce":                        "mdoe",
		"host.kubelet=var/lib/kubelet":        "/host/kubelet",
		"host.kubelet=":                       "/host/kubelet",
		"host.sock=/run/docker.sock":          "sock",
		"image.digest=sha256:1":               "/image/digest",
		"image.repository=or:1":               "/image/repository",
		"config.mode=enforce":                 "mode",
		"config.web_listen_address={:80}":     "web_listen_address",
		"config.hold=0s":                      "/config/hold",
		"config.hold=59s":                     "/config/hold",
		"config.hold=0m":                      "/config/hold",
		"config.confirm=0s":                   "/config/confirm",
		"config.log_level=loud":               "/config/log_level",
		"maxUnavailable=0":                    "/maxUnavailable",
		"maxUnavailable=0%":                   "/maxUnavailable",
		"labels.app\\.kubernetes\\.io/name=x": "invalid propertyName",
		"env[0].name=HOST_IP":                 "/env/0",
		"web.port=80":                         "/web/port",
		"web.secret=x":                        "web.secret needs web.enabled=true",
		"web.issuerRef.name=x":                "web.issuerRef needs web.secret",
		"sweep.schedule=daily":                "/sweep/schedule",
		"sweep.schedule=@daily":               "sweep.schedule needs web.secret",
		"serviceMonitor.enabled=true":         "serviceMonitor.enabled needs web.enabled=true",
	} {
		if _, err := template(t, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
}

// TestEffects: each value changes what is rendered, or is refused with the others.
func TestEffects(t *testing.T) {
	var standard, set map[string]any
	for file, into := range map[string]*map[string]any{"values.yaml": &standard, "ci/all-values.yaml": &set} {
		text, err := os.ReadFile(filepath.Join(chart, file))
		must(t, err)
		must(t, yaml.Unmarshal(text, into))
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	render := func() string {
		must(t, os.WriteFile(file, marshal(t, standard), 0o600))
		text, err := template(t, "--skip-schema-validation", "--values", file)
		if err != nil {
			return err.Error()
		}
		return text
	}
	overlay(standard, set)
	before := render()
	if !strings.Contains(before, "kind: CronJob") {
		t.Fatal(before)
	}
	var try func(path string, m map[string]any)
	try = func(path string, m map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			old := m[key]
			if inner, ok := old.(map[string]any); ok && len(inner) > 0 {
				try(path+key+".", inner)
				continue
			}
			m[key] = other(old)
			if render() == before {
				t.Errorf("%s%s has no effect", path, key)
			}
			m[key] = old
		}
	}
	try("", standard)
}

// overlay sets the values of another file.
func overlay(onto, from map[string]any) {
	for key, value := range from {
		inner, ok := value.(map[string]any)
		if below, is := onto[key].(map[string]any); ok && is {
			overlay(below, inner)
			continue
		}
		onto[key] = value
	}
}

// other returns another value of the same kind.
func other(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case string:
		return v + "x"
	case []any:
		return []any{map[string]any{"name": "other"}}
	}
	return map[string]any{"other": "value"}
}
