package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

const (
	csiDir   = "volumes/kubernetes.io~csi/pvc-xyz"
	nfsDir   = "volumes/kubernetes.io~nfs/vol1"
	cleaned  = "cleaned" // the kubelet removes it
	volumes  = "failed to rmdir() volume at path DIR/"
	leftPath = "volume paths are still present on disk"
)

// leftovers are pod directories as they are left, and what a kubelet of 1.30 and one of 1.19 does with them
// (facts/kubelet-behaviour.md): a part of its line, or cleaned. It reports each as the only one on its node.
var leftovers = []struct{ name, make, new, old string }{
	{"csi", "mkdir -p " + csiDir + "/mount; echo {} >" + csiDir + "/vol_data.json", "remove the volumes dir: not a directory", leftPath},
	{"csi without mount", "mkdir -p " + csiDir + "; echo {} >" + csiDir + "/vol_data.json", "remove the volumes dir: not a directory", cleaned},
	{"csi with data", "mkdir -p " + csiDir + "/mount; echo {} >" + csiDir + "/vol_data.json; touch " + csiDir + "/mount/f", volumes + csiDir + "/mount: directory not empty", leftPath},
	{"empty volume", "mkdir -p " + nfsDir, cleaned, leftPath},
	{"data in a volume", "mkdir -p " + nfsDir + "; touch " + nfsDir + "/f", volumes + nfsDir + ": directory not empty", leftPath},
	{"a file as a volume", "mkdir -p volumes/kubernetes.io~nfs; touch " + nfsDir, volumes + nfsDir + ": not a directory", leftPath},
	{"a symlink as a volume", "mkdir -p volumes/kubernetes.io~nfs; ln -s . " + nfsDir, volumes + nfsDir + ": not a directory", leftPath},
	{"a file as a plugin", "mkdir volumes; touch volumes/kubernetes.io~nfs", "but error occurred during checking", "occurred during checking"},
	{"a file as volumes", "touch volumes", "but error occurred during checking", "occurred during checking"},
	{"no volumes", "mkdir -p containers/main plugins; touch etc-hosts", cleaned, cleaned},
	{"empty volumes", "mkdir volumes", cleaned, cleaned},
	{"an empty subpath", "mkdir -p volume-subpaths/vol1/main/0", cleaned, "volume subpaths are still present on disk"},
	{"a file as a subpath", "mkdir -p volume-subpaths/vol1/main; touch volume-subpaths/vol1/main/0", cleaned, "volume subpaths are still present on disk"},
	{
		"data in a subpath", "mkdir -p volume-subpaths/vol1/main/0; touch volume-subpaths/vol1/main/0/f",
		"failed to rmdir() subpath at path DIR/volume-subpaths/vol1/main/0: remove DIR/volume-subpaths/vol1/main/0: directory not empty",
		"volume subpaths are still present on disk",
	},
	{
		"a mounted subpath", "mkdir -p volume-subpaths/vol1/main/0; MOUNT volume-subpaths/vol1/main/0",
		"remove DIR/volume-subpaths/vol1/main/0: device or resource busy", "volume subpaths are still present on disk",
	},
	{"a file as subpaths", "touch volume-subpaths", "reading of volume-subpaths dir from disk: open DIR/volume-subpaths: not a directory", "volume subpaths are still present on disk"},
	{"a mount in containers", "mkdir -p volumes containers/main; MOUNT containers/main", `remove subdir \"DIR/containers\": cannot delete directory DIR/containers/main: it is a mount point`, "cannot delete directory DIR/containers/main: it is a mount point"},
	{"a mounted volume", "mkdir -p " + nfsDir + "; MOUNT " + nfsDir, "but volumes are not cleaned up", "but volumes are not cleaned up"},
}

// TestLeftovers makes each leftover beside a kubelet of 1.33 and of 1.19, and compares their lines with those of recorded
// kubelets of 1.30 and 1.19.
func TestLeftovers(t *testing.T) {
	for _, version := range []string{"1.33", "1.19"} {
		t.Run(version, func(t *testing.T) {
			n, here := inside(t, "# no pods\n", "--kubelet", version, "--every", "20ms")
			if !here {
				return
			}
			n.Control(t, "kubelet v 3")
			for i, l := range leftovers {
				want := l.new
				if version == "1.19" {
					want = l.old
				}
				leave(t, n, i, l.make, want)
			}
			compareRecorded(t, version)
		})
	}
}

// leave makes a leftover, moves it to the pods directory, waits until the kubelet does what is wanted and removes the rest.
func leave(t *testing.T, n nodetest.Node, i int, script, want string) {
	t.Helper()
	made := filepath.Join(os.Getenv("NODE_PODS"), "../made")
	testkit.Must(t, os.Mkdir(made, 0o755))
	script, mounted, _ := strings.Cut(script, "MOUNT ")
	out, err := exec.Command("sh", "-ec", "cd "+made+"; "+script).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	dir := podDir(i)
	if mounted != "" {
		testkit.Must(t, mountTmpfs(made+"/"+mounted))
	}
	after := logSize(t)
	testkit.Must(t, os.Rename(made, dir))
	if want == cleaned {
		nodetest.Wait(t, filepath.Dir(dir), func() bool { return !exists(dir) })
		return
	}
	waitLog(t, after, regexp.QuoteMeta(strings.ReplaceAll(want, "DIR", strings.ReplaceAll(dir, `"`, ""))))
	n.Control(t, "runtime hang") // so it is in no sweep, and begins none
	if mounted != "" {
		testkit.Must(t, unix.Unmount(dir+"/"+mounted, 0))
	}
	testkit.Must(t, os.Rename(dir, filepath.Join(os.Getenv("NODE_PODS"), fmt.Sprint("../was-", i))))
	n.Control(t, "runtime start")
}

// mask removes from a line what differs between two kubelets: time, PID, root directory, UID, and line numbers of sources.
func mask(line, root string) string {
	for _, c := range [][2]string{
		{`^(.)\d{4} [0-9:.]{15} +\d+ `, "$1 "},
		{regexp.QuoteMeta(root), "ROOT"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b`, "UID"},
		{`(kubelet_(pods|getters)\.go):\d+`, "$1"},
		{`vol1|v1|/t:|/t"`, "vol1"},
	} {
		line = regexp.MustCompile(c[0]).ReplaceAllString(line, c[1])
	}
	return line
}

// elsewhere are recorded lines that no leftover here causes: several pods at once, a file system that is dead, a file that
// cannot be removed (chattr +i), and what is not about orphans.
var elsewhere = regexp.MustCompile(`numErrs=[4-9]|total of [2-9]|total of 1 .*subpaths|transport endpoint|operation not permitted|` +
	`not-a-uid|empty-dir|csi/pvc-1|reconstruct|Pod status|device or resource busy|vol1: directory not empty" numErrs=1`)

// compareRecorded checks that this kubelet printed no line that the recorded one did not print, and each that it printed.
func compareRecorded(t *testing.T, version string) {
	t.Helper()
	file := map[string]string{"1.33": "kubelet-1.30.log", "1.19": "kubelet-1.19.log"}[version]
	recorded := maskedLines(t, "../../recorded/"+file, "/var/lib/kubelet")
	printed := maskedLines(t, os.Getenv("NODE_LOG"), filepath.Dir(os.Getenv("NODE_PODS")))
	for line := range printed {
		if !recorded[line] && line[0] != 'I' {
			t.Errorf("no recorded kubelet printed %s", line)
		}
	}
	for line := range recorded {
		if !printed[line] && !elsewhere.MatchString(line) {
			t.Errorf("this kubelet did not print %s", line)
		}
	}
}

func maskedLines(t *testing.T, path, root string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		lines[mask(strings.TrimSuffix(line, "\n"), root)] = true
	}
	return lines
}
