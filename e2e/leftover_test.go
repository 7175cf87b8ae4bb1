package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// leftover is one kind of residue of dead pods that real kubelets fail to remove.
type leftover struct {
	name string // in the table of results
	uid  string // or another directory name
	make func(o orphan)
	// before and after are the kubelet's messages about it; did is the required final state.
	before, after words
	did           deed
	old           *old
	emptied       bool // the kubelet itself empties the canary behind the mount
	// undo removes the obstacle that only the operator may remove, after the checks.
	undo func(o orphan)
}

// old has the differences with kubelets up to that minor version, as far as tried: 1.29 was not.
type old struct {
	until         int
	before, after words
	did           deed
	emptied       bool
}

// kinds returns the rows of the table for the node's kubelet.
func (n *node) kinds(t *testing.T) []leftover {
	t.Helper()
	all := slices.Clone(kinds)
	for i, k := range all {
		if k.old != nil && n.minor(t) <= k.old.until {
			all[i].before, all[i].after, all[i].did, all[i].emptied = k.old.before, k.old.after, k.old.did, k.old.emptied
		}
	}
	return all
}

// words are the kubelet's messages about an orphan.
type words string

const (
	reports words = "reports it"
	silent  words = "is silent"
	cleans  words = "removes it"
)

// deed is what orphan-reaper did with an orphan.
type deed string

const (
	nothing     deed = "nothing: the kubelet removed it"
	removed     deed = "removed, nothing is left"
	heldData    deed = "moved to quarantine: data waits for an operator"
	heldAged    deed = "moved to quarantine: ephemeral data waits for retention"
	heldFailed  deed = "moved to quarantine: the kernel refuses the removal"
	keptMounted deed = "kept: mounted"
	keptName    deed = "kept: not-a-uid"
	keptFile    deed = "kept: directory"
	keptSilent  deed = "kept: " // the kubelet does not report it
)

// orphan is one leftover while it is made.
type orphan struct {
	t      *testing.T
	n      *node
	dir    string // the pod directory
	canary string // a directory outside of it, with a user's files
}

// at makes the directories down to path in the pod directory.
func (o orphan) at(path ...string) string {
	o.t.Helper()
	return mkdir(o.t, filepath.Join(append([]string{o.dir}, path...)...))
}

func (o orphan) file(text string, path ...string) string {
	o.t.Helper()
	dir := o.at(path[:len(path)-1]...)
	name := filepath.Join(dir, path[len(path)-1])
	write(o.t, name, text)
	return name
}

func (o orphan) link(target string, path ...string) {
	o.t.Helper()
	dir := o.at(path[:len(path)-1]...)
	if err := os.Symlink(target, filepath.Join(dir, path[len(path)-1])); err != nil {
		o.t.Fatal(err)
	}
}

// mount mounts permanently: the canaries behind it are checked to the end.
func (o orphan) mount(source, fstype string, flags uintptr, data string, path ...string) {
	o.t.Helper()
	if err := unix.Mount(source, o.at(path...), fstype, flags, data); err != nil {
		o.t.Fatal(err)
	}
}

const canary = "a user's, not to be lost"

// plantCanaries fills a directory with files that must survive.
func plantCanaries(t *testing.T, dir string) {
	t.Helper()
	mkdir(t, filepath.Join(dir, "deep", "er"))
	for i := range 3 {
		write(t, filepath.Join(dir, "deep", "er", fmt.Sprint(i)), canary)
	}
	write(t, filepath.Join(dir, "canary"), canary)
}

// checkCanaries fails if one is missing or changed.
func checkCanaries(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"canary", "deep/er/0", "deep/er/1", "deep/er/2"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(b) != canary {
			t.Errorf("the canary %s/%s is lost: %q, %v", dir, name, b, err)
		}
	}
}

// volData is the file that the kubelet's CSI plugin writes beside a volume's mount directory.
const volData = `{"attachmentID":"csi-1","driverName":"e2e.csi.invalid","nodeName":"e2e","specVolID":"pvc-e2e","volumeHandle":"vol-1","volumeLifecycleMode":"Persistent"}`

const (
	csi      = "kubernetes.io~csi"
	nfs      = "kubernetes.io~nfs"
	emptyDir = "kubernetes.io~empty-dir"
	secret   = "kubernetes.io~secret"
)

// kinds is the table of leftovers. Their UIDs sort before, between and after the living pods.
var kinds = []leftover{
	{
		name: "CSI: vol_data.json, `mount/` empty", before: reports, after: silent, did: removed,
		make: func(o orphan) {
			o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json")
			o.at("volumes", csi, "pvc-e2e", "mount")
		},
	},
	{
		name: "CSI: vol_data.json, no `mount/`", before: reports, after: silent, did: removed,
		make: func(o orphan) { o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json") },
	},
	{
		name: "CSI: vol_data.json, data in `mount/`", before: reports, after: silent, did: heldData,
		make: func(o orphan) {
			o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json")
			o.file("a user's", "volumes", csi, "pvc-e2e", "mount", "data")
		},
	},
	{
		name: "CSI: `mount/` empty, no vol_data.json", before: cleans, after: silent, did: nothing,
		make: func(o orphan) { o.at("volumes", csi, "pvc-e2e", "mount") },
	},
	{
		name: "CSI: vol_data.json, dead FUSE mount on `mount/`", before: silent, after: silent, did: keptMounted,
		make: func(o orphan) {
			o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json")
			o.deadFuse("volumes", csi, "pvc-e2e", "mount")
		},
		// Without the file the kubelet removes the rest. With it the daemon would, 30 s after the kubelet's last V(3) line.
		undo: func(o orphan) {
			o.unmount(filepath.Join(o.dir, "volumes", csi, "pvc-e2e", "mount"))
			o.remove(filepath.Join(o.dir, "volumes", csi, "pvc-e2e", "vol_data.json"))
		},
	},
	{
		name: "CSI: the file of a block volume", before: cleans, after: silent, did: nothing,
		make: func(o orphan) { o.file("", "volumeDevices", csi, "pvc-e2e") },
	},
	{
		name: "empty volume directories", before: cleans, after: silent, did: nothing,
		make: func(o orphan) { o.at("volumes", nfs, "a"); o.at("volumes", emptyDir, "b") },
	},
	{
		name: "empty directories in a volume", before: cleans, after: silent, did: nothing,
		make: func(o orphan) { o.at("volumes", nfs, "vol", "deep", "er") },
	},
	{
		name: "data in a volume directory", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.file("a user's", "volumes", nfs, "vol", "data") },
	},
	{
		name: "data in two volumes", before: reports, after: silent, did: heldData,
		make: func(o orphan) {
			o.file("a user's", "volumes", nfs, "vol", "data")
			o.file("a user's", "volumes", "kubernetes.io~local-volume", "vol", "data")
		},
	},
	{
		name: "data in an emptyDir", before: reports, after: silent, did: heldAged,
		make: func(o orphan) { o.file("a user's", "volumes", emptyDir, "vol", "data") },
	},
	{
		name: "a secret", before: reports, after: silent, did: removed,
		make: func(o orphan) {
			const dated = "..2026_11_29_10_15_42.1803725113"
			o.file("s3cret", "volumes", secret, "vol", dated, "token")
			o.link(dated, "volumes", secret, "vol", "..data")
			o.link("..data/token", "volumes", secret, "vol", "token")
		},
	},
	{
		name: "tmpfs mounted", before: silent, after: silent, did: keptMounted,
		make: func(o orphan) {
			o.mount("e2e", "tmpfs", 0, "size=1m", "volumes", emptyDir, "mem")
			plantCanaries(o.t, o.at("volumes", emptyDir, "mem"))
		},
		undo: func(o orphan) {
			dir := o.at("volumes", emptyDir, "mem")
			checkCanaries(o.t, dir)
			o.unmount(dir)
		},
	},
	{
		name: "bind of the same file system", before: silent, after: silent, did: keptMounted,
		old:  &old{until: 28, before: reports, after: reports, did: keptMounted},
		make: func(o orphan) { o.mount(o.canary, "", unix.MS_BIND, "", "volumes", nfs, "vol") },
		undo: func(o orphan) { o.unmount(o.at("volumes", nfs, "vol")) },
	},
	{
		// Kubelets up to 1.28 remove what is beside volumes/ with RemoveAllOneFilesystem, which stops if st_dev
		// differs: they empty a bind mount of the same file system within their first housekeeping run.
		name: "bind in containers/", before: reports, after: reports, did: keptMounted,
		old:  &old{until: 28, before: reports, after: reports, did: keptMounted, emptied: true},
		make: func(o orphan) { o.mount(o.canary, "", unix.MS_BIND, "", "containers", "app", "bound") },
		undo: func(o orphan) { o.unmount(o.at("containers", "app", "bound")) },
	},
	{
		name: "tmpfs mounted in containers/", before: reports, after: reports, did: keptMounted,
		make: func(o orphan) { o.mount("e2e", "tmpfs", 0, "size=1m", "containers", "app", "mem") },
		undo: func(o orphan) { o.unmount(o.at("containers", "app", "mem")) },
	},
	{
		name: "tmpfs mounted in a volume directory", before: reports, after: reports, did: keptMounted,
		make: func(o orphan) { o.mount("e2e", "tmpfs", 0, "size=1m", "volumes", nfs, "vol", "mem") },
		undo: func(o orphan) { o.unmount(o.at("volumes", nfs, "vol", "mem")) },
	},
	{
		// The host's mounts do not show it: the container has it in its own mount namespace, with the emptyDir as the
		// root of the mount (proc_pid_mountinfo(5), field 4).
		name: "emptyDir in a container that CRI does not list", before: reports, after: reports, did: keptMounted,
		make: func(o orphan) {
			o.file("a user's", "volumes", emptyDir, "vol", "data")
			o.ctr("run", "-d", "--cgroup", "/"+o.n.tag+"/alone", "--mount",
				"type=bind,src="+o.at("volumes", emptyDir, "vol")+",dst=/data,options=rbind:rw", image.Name, o.n.tag)
		},
		undo: func(o orphan) {
			if b, err := os.ReadFile(filepath.Join(o.dir, "volumes", emptyDir, "vol", "data")); err != nil || string(b) != "a user's" {
				o.t.Errorf("the container's file: %q, %v", b, err)
			}
			o.ctr("task", "kill", "-s", "KILL", o.n.tag)
			eventually(o.t, 10*time.Second, func() string {
				_, err := runQuietly("ctr", "-a", o.n.socket(engine), "-n", "e2e", "task", "rm", o.n.tag)
				return missing(err == nil, "the container runs on: %v", err)
			})
			o.ctr("container", "rm", o.n.tag)
		},
	},
	{
		name: "dead FUSE mount", before: silent, after: silent, did: keptMounted,
		make: func(o orphan) { o.deadFuse("volumes", nfs, "dead") },
		undo: func(o orphan) { o.unmount(filepath.Join(o.dir, "volumes", nfs, "dead")) },
	},
	{
		name: "subpath: empty directory and file", before: cleans, after: silent, did: nothing,
		old: &old{until: 24, before: reports, after: silent, did: removed},
		make: func(o orphan) {
			o.at("volume-subpaths", "vol", "app", "0")
			o.file("", "volume-subpaths", "vol", "app", "1")
		},
	},
	{
		name: "subpath with data", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.file("a user's", "volume-subpaths", "vol", "app", "0", "data") },
	},
	{
		name: "subpath bind-mounted", before: reports, after: reports, did: keptMounted,
		make: func(o orphan) { o.mount(o.canary, "", unix.MS_BIND, "", "volume-subpaths", "vol", "app", "0") },
		undo: func(o orphan) { o.unmount(o.at("volume-subpaths", "vol", "app", "0")) },
	},
	{
		name: "a file as a volume", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.file("a user's", "volumes", nfs, "vol") },
	},
	{
		name: "a symlink as a volume", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.link(o.canary, "volumes", nfs, "vol") },
	},
	{
		name: "a file as a volume plugin's directory", before: silent, after: silent, did: keptSilent,
		make: func(o orphan) { o.file("a user's", "volumes", nfs) },
		undo: func(o orphan) { o.remove(filepath.Join(o.dir, "volumes", nfs)) },
	},
	{
		name: "volumes is a symlink", before: silent, after: silent, did: keptFile,
		make: func(o orphan) { o.link(o.canary, "volumes") },
		undo: func(o orphan) { o.remove(filepath.Join(o.dir, "volumes")) },
	},
	{
		name: "volume-subpaths is a file", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.file("a user's", "volume-subpaths") },
	},
	{
		name: "volume-subpaths is a symlink", before: reports, after: silent, did: heldData,
		make: func(o orphan) { o.link(o.canary, "volume-subpaths") },
	},
	{
		name: "pods/UID is a plain file", before: silent, after: silent, did: keptFile,
		make: func(o orphan) { write(o.t, o.dir, "a user's") },
		undo: func(o orphan) { o.remove(o.dir) },
	},
	{
		name: "only containers/, plugins/ and etc-hosts", before: cleans, after: silent, did: nothing,
		make: func(o orphan) {
			o.file("# hosts", "etc-hosts")
			o.file("message", "containers", "app", "1a2b3c4d")
			o.file("", "plugins", "kubernetes.io~empty-dir", "vol", "ready")
		},
	},
	{
		name: "immutable file in containers/", before: reports, after: silent, did: heldFailed,
		make: func(o orphan) { must(o.t, "chattr", "+i", o.file("message", "containers", "app", "1a2b3c4d")) },
	},
	{
		name: "the directory's name is no UID", uid: "not-a-uid", before: reports, after: reports, did: keptName,
		make: func(o orphan) { o.file("a user's", "volumes", nfs, "vol") },
		undo: func(o orphan) { o.remove(filepath.Join(o.dir, "volumes", nfs, "vol")) },
	},
}

func (o orphan) unmount(path string) {
	o.t.Helper()
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		o.t.Errorf("umount %s: %v", path, err)
	}
}

func (o orphan) remove(path string) {
	o.t.Helper()
	if err := os.Remove(path); err != nil {
		o.t.Error(err)
	}
}

// ctr uses a namespace of containerd that CRI does not.
func (o orphan) ctr(args ...string) {
	o.t.Helper()
	if o.n.runtime == nil {
		return // the stand-in has none, and no kubelet sees mounts of other namespaces
	}
	must(o.t, append([]string{"ctr", "-a", o.n.socket(engine), "-n", "e2e"}, args...)...)
}

// deadFuse mounts a FUSE file system whose server ends at once: every access then returns ENOTCONN.
func (o orphan) deadFuse(path ...string) {
	o.t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	o.mount("e2e", "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", f.Fd()), path...)
}

func init() {
	for i := range kinds {
		if kinds[i].uid == "" {
			// Every third sorts after the living pods.
			kinds[i].uid = fmt.Sprintf("%x0badf00-%04x-4000-8000-00000000e2e0", []int{1, 4, 0xd}[i%3], i+1)
		}
	}
}
