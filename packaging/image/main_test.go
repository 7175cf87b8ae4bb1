package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write writes one file below dir, and its directories.
func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// programFor is the header of a program for a machine, which is all that is read of one.
func programFor(t *testing.T, machine elf.Machine) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tree(t *testing.T, machine elf.Machine) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "orphan-reaper", programFor(t, machine), 0o700)
	write(t, dir, "usr/share/doc/orphan-reaper/orphan-reaper.cdx.json", "{}", 0o600)
	return dir
}

// files unpacks a tar.
func files(t *testing.T, r io.Reader) (names []string, headers map[string]*tar.Header, text map[string][]byte) {
	t.Helper()
	headers, text = map[string]*tar.Header{}, map[string][]byte{}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if err == io.EOF { //nolint:errorlint // io.EOF itself, by tar.Reader's contract
			return names, headers, text
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		names, headers[h.Name], text[h.Name] = append(names, h.Name), h, b
	}
}

// blob reads what a descriptor names, and fails where the digest or the size is another.
func blob(t *testing.T, text map[string][]byte, d descriptor, into any) []byte {
	t.Helper()
	b, ok := text["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if sum := sha256.Sum256(b); !ok || d.Size != len(b) || d.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Fatalf("%+v names no blob that is so: %d bytes, sum %x", d, len(b), sum)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestImage makes the file and reads it as a runtime does: from the index to each layer.
func TestImage(t *testing.T) {
	var made bytes.Buffer
	if err := run([]string{"1.2.0~rc.1+2026.abc", "86400", "cafe", tree(t, elf.EM_X86_64), tree(t, elf.EM_AARCH64)}, &made); err != nil {
		t.Fatal(err)
	}
	_, _, text := files(t, &made)
	if got := string(text["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", got)
	}
	var outer, inner index
	if err := json.Unmarshal(text["index.json"], &outer); err != nil || len(outer.Manifests) != 1 {
		t.Fatalf("%v: %s", err, text["index.json"])
	}
	top := outer.Manifests[0]
	if got := top.Annotations["io.containerd.image.name"]; got != "docker.io/library/orphan-reaper:1.2.0-rc.1_2026.abc" {
		t.Errorf("containerd calls it %q", got)
	}
	if got := top.Annotations["org.opencontainers.image.ref.name"]; got != "1.2.0-rc.1_2026.abc" {
		t.Errorf("the tag is %q", got)
	}
	blob(t, text, top, &inner)
	want := []platform{{Architecture: "amd64", OS: "linux"}, {Architecture: "arm64", OS: "linux", Variant: "v8"}}
	if len(inner.Manifests) != len(want) {
		t.Fatalf("images: %+v", inner.Manifests)
	}
	named := 3 // oci-layout, index.json and the index of both
	for i, d := range inner.Manifests {
		if *d.Platform != want[i] {
			t.Errorf("image %d is for %+v", i, *d.Platform)
		}
		named += checkImage(t, text, d)
	}
	// The trees differ in the program alone, so each has blobs of its own.
	if named != len(text) {
		t.Errorf("%d files are reached, the file has %d", named, len(text))
	}
}

// checkImage checks the image of one platform, and returns how many blobs it is of.
func checkImage(t *testing.T, text map[string][]byte, d descriptor) int {
	t.Helper()
	var m manifest
	var c config
	blob(t, text, d, &m)
	blob(t, text, m.Config, &c)
	if c.platform != *d.Platform {
		t.Errorf("the configuration is for %+v, the index says %+v", c.platform, *d.Platform)
	}
	if got := strings.Join(append(c.Config.Entrypoint, c.Config.Cmd...), " "); got != "/orphan-reaper run" || c.Config.User != "0:0" {
		t.Errorf("starts %q as %s", got, c.Config.User)
	}
	for _, l := range []map[string]string{c.Config.Labels, m.Annotations} {
		if l["org.opencontainers.image.version"] != "1.2.0~rc.1+2026.abc" || l["org.opencontainers.image.revision"] != "cafe" ||
			l["org.opencontainers.image.created"] != "1970-01-02T00:00:00Z" {
			t.Errorf("labels: %v", l)
		}
	}
	if len(m.Layers) != 1 || len(c.RootFS.DiffIDs) != 1 {
		t.Fatalf("layers: %+v, %v", m.Layers, c.RootFS.DiffIDs)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(blob(t, text, m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(plain); c.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("the layer's sum is %x, the configuration says %s", sum, c.RootFS.DiffIDs[0])
	}
	names, headers, _ := files(t, bytes.NewReader(plain))
	const all = "orphan-reaper usr/ usr/share/ usr/share/doc/ usr/share/doc/orphan-reaper/ usr/share/doc/orphan-reaper/orphan-reaper.cdx.json"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("in the layer: %s", got)
	}
	for name, h := range headers {
		mode := int64(0o755)
		if strings.HasSuffix(name, ".json") {
			mode = 0o644
		}
		if h.Mode != mode || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(86400, 0)) {
			t.Errorf("%s: mode %o, owner %d:%d %s, time %s", name, h.Mode, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
	}
	return 3
}

// TestSame: neither when the trees were made, nor who may read them, nor where they lie is in it.
func TestSame(t *testing.T) {
	r := release{version: "1.0.0", at: time.Unix(0, 0).UTC()}
	one, err := r.layout([]string{tree(t, elf.EM_X86_64), tree(t, elf.EM_AARCH64)})
	if err != nil {
		t.Fatal(err)
	}
	later := []string{tree(t, elf.EM_X86_64), tree(t, elf.EM_AARCH64)}
	for _, dir := range later {
		path := filepath.Join(dir, "usr/share/doc/orphan-reaper/orphan-reaper.cdx.json")
		if err := os.Chmod(path, 0o664); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	two, err := r.layout(later)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two makings differ")
	}
	write(t, later[0], "usr/share/doc/orphan-reaper/orphan-reaper.cdx.json", "[]", 0o600)
	if three, err := r.layout(later); err != nil || bytes.Equal(one, three) {
		t.Errorf("another content makes the same image: %v", err)
	}
}

// TestRefused: what would not start where the image says it does is no image.
func TestRefused(t *testing.T) {
	r := release{version: "1.0.0"}
	amd := tree(t, elf.EM_X86_64)
	link := tree(t, elf.EM_AARCH64)
	if err := os.Symlink("/etc/passwd", filepath.Join(link, "passwd")); err != nil {
		t.Fatal(err)
	}
	dynamic := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dynamic, "orphan-reaper", string(shell), 0o700)
	for _, c := range []struct {
		trees []string
		says  string
	}{
		{[]string{amd, tree(t, elf.EM_X86_64)}, "second tree for amd64"},
		{[]string{tree(t, elf.EM_RISCV)}, "for which there is no image"},
		{[]string{dynamic}, "is not static"},
		{[]string{link}, "no regular file"},
		{[]string{t.TempDir()}, "cannot read"},
	} {
		if _, err := r.layout(c.trees); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.says, err)
		}
	}
	if err := run([]string{"1", "yesterday", "", amd}, io.Discard); err == nil || !strings.Contains(err.Error(), "seconds since 1970") {
		t.Errorf("a time that is none: %v", err)
	}
}
