package main

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// TestImage reads the layout as a runtime does.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	layer := filepath.Join(dir, "layer.tar")
	f, err := os.Create(layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := tar.NewWriter(f).Close(); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"1.2.0~rc.1+2026.abc", "86400", "cafe", dir, "amd64=" + layer, "arm64=" + layer}); err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	const tag = "1.2.0-rc.1_2026.abc"
	if a := top.Manifests[0].Annotations; a["io.containerd.image.name"] != "docker.io/library/orphan-reaper:"+tag || a["org.opencontainers.image.ref.name"] != tag {
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
