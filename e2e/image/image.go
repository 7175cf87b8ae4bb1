// Package image makes the one image that the pods of the suites run.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
)

// Name needs no registry: it is imported from a file, and pods never pull it.
const Name = "orphan-reaper.invalid/pause:1"

// Write makes an image of one static program by hand: an OCI image layout in a tar
// (https://github.com/opencontainers/image-spec/blob/main/image-layout.md).
func Write(path, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := tarOf(map[string][]byte{"pause": binary}, 0o755)
	if err != nil {
		return err
	}
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(b []byte) map[string]any {
		sum := sha256.Sum256(b)
		digest := hex.EncodeToString(sum[:])
		files["blobs/sha256/"+digest] = b
		return map[string]any{"digest": "sha256:" + digest, "size": len(b)}
	}
	asBlob := func(mediaType string, b []byte) map[string]any {
		d := blob(b)
		d["mediaType"] = "application/vnd.oci.image." + mediaType
		return d
	}
	layerBlob := asBlob("layer.v1.tar", layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pause"}, "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerBlob["digest"]}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": asBlob("config.v1+json", config), "layers": []any{layerBlob},
	})
	if err != nil {
		return err
	}
	entry := asBlob("manifest.v1+json", manifest)
	entry["annotations"] = map[string]string{"io.containerd.image.name": Name, "org.opencontainers.image.ref.name": "1"}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})
	if err != nil {
		return err
	}
	files["index.json"] = index
	image, err := tarOf(files, 0o644)
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

func tarOf(files map[string][]byte, mode int64) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
