package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The part of the OCI image format 1.1 that is used:
// https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md and what it names.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type config struct {
	Created string `json:"created"`
	platform
	Config  runs      `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type runs struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	Cmd        []string          `json:"Cmd"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// release is what the images are of.
type release struct {
	version  string // as the packages have it
	at       time.Time
	revision string // the commit; empty outside of a checkout
}

// tag is the version as a tag: that may hold no "+", which sets a commit off from its release,
// and no "~", which sorts a candidate before it
// (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests).
func (r release) tag() string { return strings.NewReplacer("+", "_", "~", "-").Replace(r.version) }

func (r release) labels() map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       program,
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

// blobs are the files of a layout by their path.
type blobs map[string][]byte

func (b blobs) add(mediaType string, text []byte) descriptor {
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	b["blobs/sha256/"+digest] = text
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(text)}
}

func (b blobs) addJSON(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return b.add(mediaType, text), err
}

// layout returns the whole file: an index of one image for each tree.
func (r release) layout(trees []string) ([]byte, error) {
	files := blobs{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	all := index{SchemaVersion: 2, MediaType: typeIndex, Annotations: r.labels()}
	for _, tree := range trees {
		d, err := r.image(files, tree)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all.Manifests, func(other descriptor) bool { return *other.Platform == *d.Platform }) {
			return nil, fmt.Errorf("%s is the second tree for %s", tree, d.Platform.Architecture)
		}
		all.Manifests = append(all.Manifests, d)
	}
	top, err := files.addJSON(typeIndex, all)
	if err != nil {
		return nil, err
	}
	// containerd takes the name as it stands, and the kubelet's short name orphan-reaper:TAG
	// becomes this one there; skopeo and podman choose by the tag alone.
	top.Annotations = map[string]string{
		"io.containerd.image.name":          "docker.io/library/" + program + ":" + r.tag(),
		"org.opencontainers.image.ref.name": r.tag(),
	}
	if files["index.json"], err = json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}}); err != nil {
		return nil, err
	}
	return r.pack(files)
}

// image adds the image of one tree.
func (r release) image(files blobs, tree string) (descriptor, error) {
	p, err := platformOf(filepath.Join(tree, program))
	if err != nil {
		return descriptor{}, err
	}
	plain, err := layerOf(tree, r.at)
	if err != nil {
		return descriptor{}, err
	}
	small, err := compress(plain)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(plain)
	created := r.at.Format(time.RFC3339)
	c, err := files.addJSON(typeConfig, config{
		Created: created, platform: p,
		Config: runs{
			User: "0:0", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/" + program}, Cmd: []string{"run"}, WorkingDir: "/", Labels: r.labels(),
		},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hex.EncodeToString(sum[:])}},
		History: []history{{Created: created, CreatedBy: "make image"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := files.addJSON(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: c, Layers: []descriptor{files.add(typeLayer, small)}, Annotations: r.labels(),
	})
	d.Platform = &p
	return d, err
}

// pack writes the files in the order of their names.
func (r release) pack(files blobs) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: r.at, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if err := writeFile(w, h, files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
