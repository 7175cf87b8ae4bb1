package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var (
	newUID     = testkit.NewUID
	wantDetail = testkit.WantDetail
)

// reader reads the processes of a proc directory and no pods.
func reader(t *testing.T, procDir string) *Reader {
	t.Helper()
	dir := t.TempDir()
	return &Reader{ProcDir: procDir, RootDir: dir, QuarantineDir: dir + "/orphan-reaper", Guard: &bounded.Guard{Patience: 2 * time.Minute}}
}

// line returns a line of mountinfo.
var line = testkit.MountLine

func TestMountsFromFixtures(t *testing.T) {
	uid, static := newUID(), parsers.PodUID(strings.ReplaceAll(string(newUID()), "-", ""))
	rootLine := line(20, "/", "/")
	pods := "/var/lib/kubelet/pods/"
	long := strings.Repeat("x", 70<<10)
	cases := []struct {
		name   string
		proc   map[string]string
		spoil  string // PID whose mountinfo is a directory
		want   policy.Truth
		static policy.Truth
		detail string
	}{
		{"none", map[string]string{"1": rootLine}, "", policy.No, policy.No, ""},
		{"mount point", map[string]string{"1": rootLine + line(21, "/", pods+string(uid)+"/volumes/x/y")}, "", policy.Yes, policy.No, "PID 1"},
		{"the pod directory itself", map[string]string{"1": rootLine + line(21, "/", pods+string(static))}, "", policy.No, policy.Yes, ""},
		{
			"root",
			map[string]string{"1": rootLine, "7": line(30, "/", "/") + line(31, "/pods/"+string(uid)+"/volumes/a/b//deleted", "/data")},
			"", policy.Yes, policy.No, "mounted at /data",
		},
		{"both in one line", map[string]string{"1": rootLine + line(21, "/"+string(uid), "/a/"+string(static))}, "", policy.Yes, policy.Yes, ""},
		{"two in one path", map[string]string{"1": rootLine + line(21, "/", "/"+string(uid)+"/"+string(static))}, "", policy.Yes, policy.Yes, ""},
		{"quarantine entry", map[string]string{"1": rootLine + line(21, "/", "/q/"+string(uid)+".12/v")}, "", policy.Yes, policy.No, ""},
		{"escapes beside it", map[string]string{"1": rootLine + line(21, "/", `/my\040disk/`+string(uid)+`/a\134b`)}, "", policy.Yes, policy.No, `/my disk/`},
		{"near misses", map[string]string{"1": rootLine + line(21, "/", "/q/x"+string(uid)) + line(22, "/", "/q/"+string(uid)+"x/y") +
			line(23, "/", `/q/`+string(uid)+`\040`) + line(24, "/", "/q/"+string(uid)[:35])}, "", policy.No, policy.No, ""},
		{
			"the source",
			map[string]string{"1": rootLine + strings.Replace(line(21, "/", "/x"), "/dev/sda1", "/pods/"+string(uid)+"/d", 1)},
			"", policy.Yes, policy.No, "mounted at /x",
		},
		{"an overlay's upper directory", map[string]string{"1": rootLine + strings.Replace(line(21, "/", "/x"), "/dev/sda1 rw", "o rw,lowerdir=/l:/pods/"+
			string(static)+",upperdir=/pods/"+string(uid)+`\134:/u,workdir=/w`, 1)}, "", policy.Yes, policy.Yes, "mounted at /x"},
		{"same mount, another root", map[string]string{"1": rootLine, "2": line(20, "/sub", "/") + line(21, "/", "/"+string(uid))}, "", policy.Yes, policy.No, ""},
		{"long first line", map[string]string{"1": line(20, "/"+strings.Repeat("y", 3000), "/") + line(21, "/", "/"+string(uid))}, "", policy.Yes, policy.No, ""},
		{"a line over 64 KiB", map[string]string{"1": rootLine + line(21, "/", "/"+long) + line(22, "/", "/"+string(uid))}, "", policy.Yes, policy.Unknown, ""},
		{"a bad line", map[string]string{"1": rootLine + "21 1 8:1 /\n"}, "", policy.Unknown, policy.Unknown, "a line without"},
		{
			"a hit that cannot be parsed",
			map[string]string{"1": rootLine + "21 1 8:1 / /" + string(uid) + " rw\n"},
			"", policy.Unknown, policy.Unknown, "cannot read the mounts of PID 1",
		},
		{"a file that cannot be read", map[string]string{"1": rootLine, "8": ""}, "8", policy.Unknown, policy.Unknown, "cannot read the mounts of PID 8"},
		{"a hit and a file that cannot be read", map[string]string{"1": rootLine + line(22, "/", "/"+string(uid)), "8": ""}, "8", policy.Yes, policy.Unknown, ""},
		{"no PID 1", map[string]string{"3": rootLine}, "", policy.Unknown, policy.Unknown, "PID 1 is not seen"},
		{"no process", nil, "", policy.Unknown, policy.Unknown, "PID 1 is not seen"},
		{"nothing mounted below a root", map[string]string{"1": rootLine, "5": ""}, "", policy.No, policy.No, ""},
		{
			"more than one block",
			map[string]string{"1": rootLine + strings.Repeat(line(9, "/", "/filler"), 5000) + line(21, "/", "/"+string(uid))},
			"", policy.Yes, policy.No, "",
		},
	}
	for _, c := range cases {
		for _, rereads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/rereads=%v", c.name, rereads), func(t *testing.T) {
				r := reader(t, testkit.ProcMounts(t, c.proc))
				if c.spoil != "" {
					f := filepath.Join(r.ProcDir, c.spoil, "mountinfo")
					testkit.Must(t, os.Remove(f))
					testkit.Must(t, os.Mkdir(f, 0o755))
				}
				r.rereads = rereads
				got := r.Read(t.Context(), parsers.PodSet{uid: true, static: true}, nil)
				if got.Fact(uid).Truth != c.want || got.Fact(static).Truth != c.static {
					t.Errorf("mounted is %+v and %+v, want %s and %s", got.Fact(uid), got.Fact(static), c.want, c.static)
				}
				wantDetail(t, got.Fact(uid), c.detail)
			})
		}
	}
}

// TestNamespacesAreReadOnce checks that equal first lines count as one namespace.
func TestNamespacesAreReadOnce(t *testing.T) {
	uid := newUID()
	one, two := line(20, "/", "/")+line(21, "/", "/a"), line(40, "/", "/")+line(41, "/", "/a")
	r := reader(t, testkit.ProcMounts(t, map[string]string{"1": one, "2": one, "3": two, "4": one}))
	f := r.Read(t.Context(), parsers.PodSet{uid: true}, nil).Fact(uid)
	if f.Truth != policy.No || !strings.Contains(f.Origin, "2 mount namespaces") {
		t.Errorf("mounted is %+v, want no from 2 mount namespaces", f)
	}
}

// TestUnmount checks that the command is suggested for a mount below the pod's directory in the node's own namespace,
// if nothing else of the pod is mounted there. Otherwise that mount is shown.
func TestUnmount(t *testing.T) {
	uid := newUID()
	dir := "/var/lib/kubelet/pods/" + string(uid)
	root, volume := line(20, "/", "/"), line(21, "/", dir+"/volumes/v")
	command := "orphan-reaper unmount " + string(uid)
	for name, tt := range map[string]struct{ node, other, want, shown string }{
		"a volume":                               {volume, "", command, dir + "/volumes/v"},
		"a volume, and a copy of it":             {volume, line(31, "/", "/host"+dir+"/volumes/v"), command, dir + "/volumes/v"},
		"in a container":                         {"", line(31, dir+"/volumes/v", "/data"), "", "/data"},
		"a volume, and in a container":           {volume, line(31, dir+"/volumes/v", "/data"), "", "/data"},
		"a bind of it elsewhere":                 {line(22, dir, "/ext"), "", "", "/ext"},
		"a volume, and a bind of it elsewhere":   {volume + line(22, dir, "/ext"), "", "", "/ext"},
		"a bind in the directory of another pod": {line(22, dir, "/var/lib/kubelet/pods/"+string(newUID())+"/x") + volume, "", "", "/x, from " + dir},
		"the directory itself":                   {line(22, "/", dir), "", "", dir},
		"nothing":                                {"", "", "", ""},
	} {
		m := reader(t, testkit.ProcMounts(t, map[string]string{"1": root + tt.node, "7": line(30, "/", "/") + tt.other})).
			Read(t.Context(), parsers.PodSet{uid: true}, nil)
		if got := m.Unmount(uid); got != tt.want || !strings.Contains(m.Fact(uid).Detail, tt.shown) {
			t.Errorf("%s: %q, %q", name, got, m.Fact(uid).Detail)
		}
	}
	held := &Answer{Pods: map[parsers.PodUID]Hit{uid: {Target: dir + "/v", view: &view{pid: "1", held: "/run/ns"}}}}
	if got := held.Unmount(uid); got != "" {
		t.Errorf("in a namespace held by a file: %s", got)
	}
}

func TestUmountCommand(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/var/lib/kubelet/pods/1/v", "umount /var/lib/kubelet/pods/1/v"},
		{"/a'; reboot; '", `umount '/a'\''; reboot; '\'''`},
		{`/a\040b`, ""}, // a space in mountinfo
		{"/a\x1b[2J", ""},
		{"/a\u202eb", ""},
		{"", ""},
	} {
		if got := UmountCommand(tt.path); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.path, got, tt.want)
		}
	}
}

// TestPlace checks which mount counts as the pods' own file system.
func TestPlace(t *testing.T) {
	in := []region{{Dev: "8:1", Path: "/var/lib/kubelet/pods", FSType: "ext4"}}
	network := []region{{Dev: "0:50", Path: "/pods", FSType: "nfs4"}}
	for _, c := range []struct {
		in           []region
		dev, fs, at  string
		want         location
		below        string
		whyNotByText string
	}{
		{in, "8:1", "ext4", "/var/lib/kubelet/pods/U/v", within, "U/v", ""},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods/U//deleted", within, "U//deleted", "a bind of what was removed"},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods", elsewhere, "", "a bind of the parent holds no pod"},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods2/U", elsewhere, "", ""},
		{in, "8:1", "ext4", "/tmp/var/lib/kubelet/pods/U", elsewhere, "", ""},
		{in, "0:30", "tmpfs", "/var/lib/kubelet/pods/U", elsewhere, "", "another file system"},
		{in, "0:31", "virtiofs", "/var/lib/kubelet/pods/U", unlocated, "", "may be the same directory on the host"},
		{network, "0:51", "nfs4", "/pods/U", unlocated, "", "may be the same export, mounted once more"},
		{network, "0:52", "ext4", "/pods/U", unlocated, "", ""},
		{nil, "8:1", "ext4", "/var/lib/kubelet/pods/U", unlocated, "", ""},
	} {
		if b, below := locate([]byte(c.dev), []byte(c.fs), c.at, c.in); b != c.want || below != c.below {
			t.Errorf("%s %s on %s: %v %q, want %v %q", c.fs, c.at, c.dev, b, below, c.want, c.below)
		}
	}
}
