package parsers

import (
	"strings"
	"testing"
)

// TestLeaf checks which directory of a tear-down error is reported as not empty: none for any other error, whatever
// names it contains.
func TestLeaf(t *testing.T) {
	const pod = "/var/lib/kubelet/pods/" + testUID + "/"
	const nfs = "volumes/kubernetes.io~nfs/vol1"
	const mount = "volumes/kubernetes.io~csi/pvc-1/mount"
	const tearDown = `UnmountVolume.TearDown failed for volume "v" (UniqueName: "kubernetes.io/nfs/x-v") pod "` + testUID + `" (UID: "` + testUID + `") : `
	for name, tc := range map[string]struct{ err, want string }{
		"plain":             {"remove " + pod + nfs + ": directory not empty", nfs},
		"csi":               {"kubernetes.io/csi: Unmounter.TearDownAt failed to clean mount dir [" + pod + mount + "]: kubernetes.io/csi: failed to remove dir [" + pod + mount + "]: remove " + pod + mount + ": directory not empty", mount},
		"csi, volume path":  {"kubernetes.io/csi: failed to delete volume path [" + pod + "volumes/kubernetes.io~csi/pvc-1]: remove " + pod + "volumes/kubernetes.io~csi/pvc-1: directory not empty", "volumes/kubernetes.io~csi/pvc-1"},
		"subpath":           {"error deleting x: remove " + pod + "volume-subpaths/v/c/0: directory not empty", "volume-subpaths/v/c/0"},
		"other root":        {"remove /data/pods/k8s/pods/" + testUID + "/" + nfs + ": directory not empty", nfs},
		"busy":              {"remove " + pod + nfs + ": device or resource busy", ""},
		"stale":             {"lstat " + pod + nfs + ": stale NFS file handle", ""},
		"no driver":         {"kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: driver name x not found in the list of registered CSI drivers", ""},
		"not this pod":      {"remove /var/lib/kubelet/plugins/x: directory not empty", ""},
		"the line is cut":   {"remove " + pod + nfs + ": directory not em", ""},
		"says more":         {"remove " + pod + nfs + ": directory not empty, giving up", ""},
		"another operation": {"rename " + pod + nfs + " /x: directory not empty", ""},
	} {
		s, ok := ParseLine(Line{Text: []byte("E0331 15:47:45.892216    3416 nestedpendingoperations.go:348] " +
			`Operation for "{volumeName:kubernetes.io/nfs/x-v podName:` + testUID + ` nodeName:}" failed. No retries permitted until x (durationBeforeRetry 4s). Error: ` + tearDown + tc.err)})
		if !ok || s.Report != ReportTeardown || s.Leaf != tc.want || s.Volume != "kubernetes.io/nfs/x-v" {
			t.Errorf("%s: %t, leaf %q of volume %q, want %q", name, ok, s.Leaf, s.Volume, tc.want)
		}
	}
}

// TestLeafForms checks that each form of the same error has the same leaf: quoted by Go as a whole, in an older
// kubelet's text, and in klog's JSON.
func TestLeafForms(t *testing.T) {
	for _, f := range forms() {
		if f.reason != ReportTeardown {
			continue
		}
		want := ""
		if strings.Contains(f.text, "directory not empty") {
			want = "volumes/kubernetes.io~nfs/vol1"
		}
		quoted := f
		if before, detail, ok := strings.Cut(f.text, "Error: Unmount"); ok {
			quoted.text = before + `Error: "` + strings.ReplaceAll("Unmount"+detail, `"`, `\"`) + `"`
		}
		for form, line := range map[string]string{
			"text": klogLine(f, testUID), "quoted": klogLine(quoted, testUID), "json": klogObject(t, f, testUID),
		} {
			s, ok := ParseLine(Line{Text: []byte(line)})
			if !ok || s.Leaf != want || s.Volume == "" {
				t.Errorf("%s as %s: %t, leaf %q of volume %q, want %q", f.name, form, ok, s.Leaf, s.Volume, want)
			}
		}
	}
}
