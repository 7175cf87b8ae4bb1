// Command image writes the OCI image layout of a release: an index with one image for each layer, and the
// Helm chart, which refers to that index. packaging/image.sh calls it; it is in no package.
//
// It reads no clock and asks no registry, so that the same arguments always give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"go.yaml.in/yaml/v3"
)

const usage = `usage:
image make VERSION EPOCH REVISION DIR ARCH=LAYER...   write a layout and print the image's digest; LAYER is a tar with the program as orphan-reaper
image chart VERSION EPOCH REVISION DIR CHART          add the packed chart to that layout`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	isMake, isChart := len(args) > 5 && args[0] == "make", len(args) == 6 && args[0] == "chart"
	if !isMake && !isChart {
		return errors.New(usage)
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read the time %q: want seconds since 1970", args[2])
	}
	r := release{version: args[1], at: v1.Time{Time: time.Unix(seconds, 0).UTC()}, revision: args[3]}
	if isChart {
		return r.chart(layout.Path(args[4]), args[5])
	}
	return r.write(args[4], args[5:], out)
}

// write writes the layout with an image for each layer, and prints the digest of the index.
func (r release) write(path string, layers []string, out io.Writer) error {
	dir, err := layout.Write(path, empty.Index)
	if err != nil {
		return err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: r.labels()}
	for _, arg := range layers {
		arch, layer, _ := strings.Cut(arg, "=")
		image, err := r.image(dir, v1.Platform{OS: "linux", Architecture: arch, Variant: map[string]string{"arm64": "v8"}[arch]}, layer)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, image)
	}
	// containerd uses the name verbatim, and the kubelet's short name orphan-reaper:TAG becomes this one there;
	// skopeo and podman choose by the tag alone. The chart has no name: containerd would try to unpack it.
	image, err := list(dir, index, v1.Descriptor{MediaType: types.OCIImageIndex, Annotations: map[string]string{
		"io.containerd.image.name":          "docker.io/library/orphan-reaper:" + r.tag(),
		"org.opencontainers.image.ref.name": r.tag(),
	}})
	if err != nil {
		return err
	}
	written, err := dir.ImageIndex()
	if err != nil {
		return err
	}
	if err := validate.Index(written); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, image.Digest)
	return err
}

// release describes the content of the images.
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

// image writes the image of one layer. Its descriptor has no artifactType, which older versions of skopeo drop: they
// would change the digest of the index.
func (r release) image(dir layout.Path, p v1.Platform, tar string) (v1.Descriptor, error) {
	layer, err := tarball.LayerFromFile(tar, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return v1.Descriptor{}, err
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
		return v1.Descriptor{}, err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: r.at, CreatedBy: "make image"}})
	if err != nil {
		return v1.Descriptor{}, err
	}
	image = mutate.Annotations(image, r.labels()).(v1.Image) //nolint:forcetypeassert // by its contract
	if err := dir.WriteImage(image); err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := image.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	size, err := image.Size()
	return v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size, Platform: &p}, err
}

// chart adds the packed Helm chart as helm push would, as a referrer of the image.
// The media types: https://helm.sh/docs/topics/registries/.
func (r release) chart(dir layout.Path, file string) error {
	made, err := listed(dir)
	if err != nil {
		return err
	}
	if len(made) != 1 {
		return fmt.Errorf("%s lists %d manifests: want the image's index alone", dir, len(made))
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	metadata, err := chartMetadata(packed)
	if err != nil {
		return fmt.Errorf("cannot read Chart.yaml of %s: %w", file, err)
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	annotations := r.labels()
	for _, key := range []string{"description", "version"} {
		annotations["org.opencontainers.image."+key] = fmt.Sprint(metadata[key])
	}
	return refer(dir, made[0], v1.Manifest{
		ArtifactType: "application/vnd.cncf.helm.config.v1+json",
		Layers:       []v1.Descriptor{{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip"}},
		Annotations:  annotations,
	}, config, packed)
}

// listed returns the entries of the layout's index.
func listed(dir layout.Path) ([]v1.Descriptor, error) {
	index, err := dir.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	return manifest.Manifests, nil
}

// chartMetadata returns the content of Chart.yaml, whose keys are those of the JSON that Helm expects.
func chartMetadata(packed []byte) (metadata map[string]any, err error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, err
		}
		if header.Name == "orphan-reaper/Chart.yaml" {
			return metadata, yaml.NewDecoder(files).Decode(&metadata)
		}
	}
}

// refer adds a manifest of one layer to the layout. Its subject makes it a referrer, which oras copies together with
// the subject (https://github.com/opencontainers/image-spec/blob/v1.1.1/manifest.md).
func refer(dir layout.Path, subject v1.Descriptor, m v1.Manifest, config, layer []byte) error {
	m.SchemaVersion, m.MediaType = 2, types.OCIManifestSchema1
	m.Subject = &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	// Registries before OCI 1.1 identify an artifact by its config's type.
	m.Config.MediaType = types.MediaType(m.ArtifactType)
	var err error
	if m.Config.Digest, m.Config.Size, err = blob(dir, config); err != nil {
		return err
	}
	if m.Layers[0].Digest, m.Layers[0].Size, err = blob(dir, layer); err != nil {
		return err
	}
	_, err = list(dir, m, v1.Descriptor{MediaType: m.MediaType, ArtifactType: m.ArtifactType})
	return err
}

// list writes a manifest, lists it in the layout's index, and returns its completed entry.
func list(dir layout.Path, manifest any, entry v1.Descriptor) (v1.Descriptor, error) {
	raw, err := json.Marshal(manifest)
	if err != nil {
		return entry, err
	}
	if entry.Digest, entry.Size, err = blob(dir, raw); err != nil {
		return entry, err
	}
	return entry, dir.AppendDescriptor(entry)
}

func blob(dir layout.Path, content []byte) (digest v1.Hash, size int64, err error) {
	if digest, size, err = v1.SHA256(bytes.NewReader(content)); err != nil {
		return digest, size, err
	}
	return digest, size, dir.WriteBlob(digest, io.NopCloser(bytes.NewReader(content)))
}
