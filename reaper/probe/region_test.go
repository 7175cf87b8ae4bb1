package probe

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// inMountinfo reports whether the mountinfo of a process contains the text anywhere.
func inMountinfo(t *testing.T, pid int, part string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	must(t, err)
	return strings.Contains(string(text), part)
}

// stranger runs a script as root of a user namespace and a mount namespace of its own.
func stranger(t *testing.T, script string) int {
	t.Helper()
	return child(t, &syscall.SysProcAttr{
		Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
		UidMappings:  []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings:  []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}, "", script)
}

// TestStrangersMounts checks that a mount in another user namespace counts for a pod only if it is below the pod's
// own directory: any user may mount anything there under any name.
func TestStrangersMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid)+"/volumes/kubernetes.io~csi/pv-1/mount", "y/"+string(uid), "y/plugins/kubernetes.io/csi/pv/pv-1/globalmount", "kubelet/plugins", "x")
	must(t, os.Chmod(n.Base, 0o755)) // the user namespace's root is another user here
	y, staged := n.Path("y/"+string(uid)), n.Path("y/plugins/kubernetes.io/csi/pv/pv-1/globalmount")
	for name, script := range map[string]string{
		"a mount point of that name": "mount -t tmpfs tmpfs '" + y + "'",
		"a source of that name":      "mount -t tmpfs '" + n.Path(n.PodDir(uid)) + "' '" + n.Path("x") + "'",
		"a bind of that name":        "mount --bind '" + y + "' '" + n.Path("x") + "'",
		"below a bind elsewhere":     "mount --bind '" + n.Path("y") + "' '" + n.Path("x") + "'; mount -t tmpfs tmpfs '" + n.Path("x/"+string(uid)) + "'",
	} {
		t.Run(name, func(t *testing.T) {
			pid := stranger(t, script)
			if !inMountinfo(t, pid, "/"+string(uid)) {
				t.Fatal("the pod's name is not in its mountinfo, so the test proves nothing")
			}
			check(t, n.one(uid), dead())
		})
	}
	t.Run("a name of the plugins directory", func(t *testing.T) {
		pid := stranger(t, "mount -t tmpfs tmpfs '"+staged+"'")
		if !inMountinfo(t, pid, "y/plugins/") {
			t.Fatal("the staging path is not in its mountinfo, so the test proves nothing")
		}
		check(t, n.one(uid), dead())
	})
	parent := "mount --bind '" + n.Path("kubelet/pods") + "' '" + n.Path("x") + "'; "
	for name, script := range map[string]string{
		"in the pod":                 "mount -t tmpfs tmpfs '" + n.Path(n.PodDir(uid)) + "/volumes'",
		"a bind of it":               "mount --bind '" + n.Path(n.PodDir(uid)) + "' '" + n.Path("x") + "'",
		"below a bind of the parent": parent + "mount -t tmpfs tmpfs '" + n.Path("x/"+string(uid)+"/volumes") + "'",
	} {
		t.Run(name, func(t *testing.T) {
			stranger(t, script)
			check(t, n.one(uid), facts{policy.FactMounted: policy.Yes})
		})
	}
}

// TestNamesElsewhere checks the same in our own user namespace as far as devices show it: a mount of the pods' file
// system outside of the pods, or of another file system, is not a pod's because of its name.
func TestNamesElsewhere(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, uid, moved := newNode(t), newUID(), newUID()
	n.Mkdir(n.PodDir(uid)+"/volumes", n.PodDir(moved)+"/volumes/v", "y/"+string(uid), "x", "z")
	check(t, n.one(uid), dead())
	n.mount("", "y/"+string(uid))
	check(t, n.one(uid), dead())
	n.mount("y", "x") // bind mount of a directory with the name in its path
	check(t, n.one(uid), dead())
	t.Run("moved to quarantine", func(t *testing.T) {
		n.mount(n.PodDir(moved)+"/volumes/v", "z")
		entry := string(moved) + ".7"
		n.Mkdir("kubelet/orphan-reaper")
		must(t, os.Rename(n.Path(n.PodDir(moved)), n.Path("kubelet/orphan-reaper/"+entry)))
		if f := n.probe().Mounts(t.Context(), []parsers.PodUID{moved})[moved]; f.Truth != policy.Yes {
			t.Errorf("mounted is %+v", f)
		}
	})
	t.Run("its own file system", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.mount("", "kubelet/pods") // like a disk for the pods: field 4 is /UID
		n.Mkdir(n.PodDir(uid)+"/v", "x")
		check(t, n.one(uid), dead())
		n.mount(n.PodDir(uid)+"/v", "x")
		check(t, n.one(uid), but(facts{policy.FactMounted: policy.Yes}))
	})
	t.Run("behind a symlink", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.Mkdir(n.PodDir(uid)+"/v", "x")
		n.Symlink("kubelet", "link")
		n.cfg.RootDir, n.cfg.QuarantineDir = n.Path("link"), n.Path("link/orphan-reaper")
		check(t, n.one(uid), dead())
		n.mount(n.PodDir(uid)+"/v", "x")
		check(t, n.one(uid), but(facts{policy.FactMounted: policy.Yes}))
	})
}
