package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var layer, chart bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		t.Fatal(err)
	}
	zipped := gzip.NewWriter(&chart)
	files := tar.NewWriter(zipped)
	const metadata = "apiVersion: v2\nname: orphan-reaper\nversion: 1.2.0-rc.1+2026.abc\ndescription: a chart\nkeywords: [a, b]\n"
	if err := files.WriteHeader(&tar.Header{Name: "orphan-reaper/Chart.yaml", Size: int64(len(metadata)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(files, metadata); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"layer": layer.Bytes(), "chart": chart.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "layout")
	tarred := filepath.Join(dir, "layer")
	release := []string{"1.2.0~rc.1+2026.abc", "86400", "cafe", at}
	digest := do(t, append(append([]string{"make"}, release...), "amd64="+tarred, "arm64="+tarred)...)
	do(t, append(append([]string{"chart"}, release...), filepath.Join(dir, "chart"))...)
	if image := entries(t, at)[0].Digest.String(); digest != image+"\n" {
		t.Errorf("make printed %q, the image is %s", digest, image)
	}
	return at
}

func do(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(args, &out); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String()
}

func entries(t *testing.T, dir string) []v1.Descriptor {
	t.Helper()
	found, err := listed(layout.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// read parses a blob.
func read(t *testing.T, dir string, digest v1.Hash, into any) {
	t.Helper()
	raw, err := layout.Path(dir).Bytes(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// TestImage reads the layout as a runtime does.
func TestImage(t *testing.T) {
	outer, err := layout.ImageIndexFromPath(made(t))
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	const tag = "1.2.0-rc.1_2026.abc"
	a := top.Manifests[0].Annotations
	if a["io.containerd.image.name"] != "docker.io/library/orphan-reaper:"+tag || a["org.opencontainers.image.ref.name"] != tag {
		t.Errorf("the image is called %v", a)
	}
	inner, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := inner.IndexManifest()
	if err != nil || len(index.Manifests) != 2 {
		t.Fatalf("%v: %+v", err, index)
	}
	for i, want := range []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64", Variant: "v8"}} {
		image, err := inner.Image(index.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil || !index.Manifests[i].Platform.Equals(want) || !c.Platform().Equals(want) {
			t.Errorf("%v: image %d is for %v", err, i, c.Platform())
		}
		l := c.Config.Labels
		if strings.Join(append(c.Config.Entrypoint, c.Config.Cmd...), " ") != "/orphan-reaper run" || c.Config.User != "0:0" ||
			l["org.opencontainers.image.version"] != "1.2.0~rc.1+2026.abc" || l["org.opencontainers.image.revision"] != "cafe" ||
			l["org.opencontainers.image.created"] != "1970-01-02T00:00:00Z" {
			t.Errorf("%+v", c.Config)
		}
	}
}

// TestChart reads the chart as Helm does.
func TestChart(t *testing.T) {
	dir := made(t)
	top := entries(t, dir)
	var m v1.Manifest
	read(t, dir, top[1].Digest, &m)
	if len(top) != 2 || top[1].Annotations != nil || m.Subject == nil || m.Subject.Digest != top[0].Digest ||
		m.Layers[0].MediaType != "application/vnd.cncf.helm.chart.content.v1.tar+gzip" {
		t.Errorf("%+v", m)
	}
	var metadata struct {
		Name, Version string
		Keywords      []string
	}
	read(t, dir, m.Config.Digest, &metadata)
	if metadata.Name != "orphan-reaper" || metadata.Version != "1.2.0-rc.1+2026.abc" || len(metadata.Keywords) != 2 {
		t.Errorf("%+v", metadata)
	}
}

// TestUsage: arguments that are no command are refused, and nothing is written.
func TestUsage(t *testing.T) {
	at := filepath.Join(t.TempDir(), "layout")
	for _, args := range [][]string{nil, {"make", "1.2.0", "86400", "cafe", at}, {"make", "1.2.0", "yesterday", "cafe", at, "amd64=layer"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	if _, err := os.Lstat(at); !os.IsNotExist(err) {
		t.Errorf("%s: %v", at, err)
	}
}
