package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// unpack returns the files of a bundle, without their directory.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	testkit.Must(t, err)
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		testkit.Must(t, err)
		text, err := io.ReadAll(r)
		testkit.Must(t, err)
		files[filepath.Base(head.Name)] = string(text)
	}
}

// TestWholeBundle: the bundle has the parts of a bug report, and nothing secret that the program reads.
func TestWholeBundle(t *testing.T) {
	n := doctorNode(t)
	n.write("root/pods/"+wholeUID(1)+"/volumes/kubernetes.io~csi/pvc/vol_data.json",
		`{"driverName":"d","specVolID":"pvc","volumeHandle":"h","volumeAttributes":{"password":"S3CRET"}}`)
	if _, code := n.run("sweep"); code != 0 {
		t.Fatalf("sweep: %d", code)
	}
	n.write("kubeconfig", "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: 'https://10.0.0.1'}}]\nusers: [{name: u, user: {token: S3CRET}}]\n")
	n.pod(3, true)
	n.args = append(n.args, "--kubeconfig", n.path("kubeconfig"), "--api-unreachable", "ignore")
	file := n.path("bundle.tar.gz")
	out, code := n.run("doctor", "-o", "bundle", "--bundle-file", file)
	if code != 0 || !strings.Contains(out, "It has names of pods") {
		t.Errorf("%d %s", code, out)
	}
	info, err := os.Stat(file)
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%v", info.Mode())
	}
	packed, err := os.ReadFile(file)
	testkit.Must(t, err)
	files := unpack(t, packed)
	for name, want := range map[string]string{
		"README.txt": "Read it before you send it.", "version.json": `"version"`, "config.json": `"kubeconfig"`, "doctor.txt": wholeUID(1), "doctor.json": `"todo"`,
		"scan.txt": wholeUID(3), "scan.json": wholeUID(3), "records.jsonl": `"kind":"parked"`, "metrics.prom": "orphan_reaper_",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("it also has %v", files)
	}
	for name, text := range unpack(t, packed) {
		for _, secret := range []string{"S3CRET", "data of"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
	}
	if out, code := n.run("doctor", "-o", "bundle", "--bundle-file", file); code != 2 {
		t.Errorf("a file that is there: %d %s", code, out)
	}
	if out, code := n.run("doctor", "-o", "bundle", "--bundle-file", "-"); code != 0 || len(unpack(t, []byte(out))) != 9 {
		t.Errorf("to stdout: %d, %d bytes", code, len(out))
	}
}
