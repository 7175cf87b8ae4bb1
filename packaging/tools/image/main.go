// Command image writes the OCI image layout of the image that the DaemonSet runs: an index with one image
// for each layer. packaging/image.sh calls it, and makes the layers; it is in no package.
//
// It reads no clock and asks no registry, so that the same layers always give the same bytes.
package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const usage = `usage: image VERSION EPOCH REVISION DIR ARCH=LAYER...
writes the layout into DIR; LAYER is a tar with the program as orphan-reaper`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 5 {
		return errors.New(usage)
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read the time %q: want seconds since 1970", args[1])
	}
	r := release{version: args[0], at: v1.Time{Time: time.Unix(seconds, 0).UTC()}, revision: args[2]}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range args[4:] {
		arch, layer, _ := strings.Cut(arg, "=")
		image, err := r.image(v1.Platform{OS: "linux", Architecture: arch, Variant: map[string]string{"arm64": "v8"}[arch]}, layer)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, image)
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex) //nolint:forcetypeassert // by its contract
	dir, err := layout.Write(args[3], empty.Index)
	if err != nil {
		return err
	}
	// containerd takes the name as it stands, and the kubelet's short name orphan-reaper:TAG
	// becomes this one there; skopeo and podman choose by the tag alone.
	if err := dir.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "docker.io/library/orphan-reaper:" + r.tag(),
		"org.opencontainers.image.ref.name": r.tag(),
	})); err != nil {
		return err
	}
	written, err := dir.ImageIndex()
	if err != nil {
		return err
	}
	return validate.Index(written)
}

// release is what the images are of.
type release struct {
	version  string // as the packages have it
	at       v1.Time
	revision string // the commit; empty outside of a checkout
}

// tag is the version as a tag: that may hold no "+", which sets a commit off from its release,
// and no "~", which sorts a candidate before it
// (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests).
func (r release) tag() string { return strings.NewReplacer("+", "_", "~", "-").Replace(r.version) }

func (r release) labels() map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       "orphan-reaper",
		"org.opencontainers.image.description": "Remove what orphaned pods left on a Kubernetes node",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/orphan-reaper/orphan-reaper",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.created":     r.at.Format(time.RFC3339),
	}
	if r.revision != "" {
		l["org.opencontainers.image.revision"] = r.revision
	}
	return l
}

// image returns the image of one layer, as the index takes it.
func (r release) image(p v1.Platform, tar string) (mutate.IndexAddendum, error) {
	layer, err := tarball.LayerFromFile(tar, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, Created: r.at, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "0:0", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/orphan-reaper"}, Cmd: []string{"run"}, WorkingDir: "/", Labels: r.labels(),
		},
	})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: r.at, CreatedBy: "make image"}})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	image = mutate.Annotations(image, r.labels()).(v1.Image) //nolint:forcetypeassert // by its contract
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}}, nil
}
