package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMounted: where a mount of a pod may be, and what it shows. NODE is the node's directory and UID the pod.
func TestMounted(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	const pod = "NODE/kubelet/pods/UID/"
	for name, c := range map[string]struct {
		flags, script string // of another process's namespaces
		here          string // mount points in our namespace
		truth         judge.Truth
		alive         bool
		detail        string
	}{
		"nothing":                 {truth: judge.No},
		"here":                    {here: pod + "volumes", truth: judge.Yes, alive: true, detail: "/volumes (tmpfs) in the mount namespace of PID "},
		"here, in quarantine":     {here: "NODE/kubelet/orphan-reaper/UID.17/volumes", truth: judge.Yes, alive: true},
		"here, by name only":      {here: "NODE/tmp/UID", truth: judge.Yes},
		"here, in another's":      {here: "NODE/kubelet/pods/x/UID", truth: judge.Yes},
		"here, and by name":       {here: "NODE/tmp/UID " + pod + "volumes", truth: judge.Yes, alive: true},
		"elsewhere":               {flags: "-m", script: "mount -t tmpfs t " + pod + "volumes", truth: judge.Yes},
		"in quarantine":           {flags: "-m", script: "mkdir NODE/kubelet/orphan-reaper/UID.17; mount -t tmpfs t NODE/kubelet/orphan-reaper/UID.17", truth: judge.Yes},
		"through another path":    {flags: "-m", script: "mkdir NODE/b; mount --bind NODE/kubelet NODE/b; umount -l NODE/b; mount --bind NODE/kubelet NODE/b; mount -t tmpfs t NODE/b/pods/UID/volumes", truth: judge.Yes},
		"a container's bind":      {flags: "-m", script: "mkdir NODE/c; mount --bind " + pod + "volumes NODE/c", truth: judge.Yes, detail: "from "},
		"of a removed source":     {flags: "-m", script: "mkdir NODE/c " + pod + "v; mount --bind " + pod + "v NODE/c; rmdir " + pod + "v", truth: judge.Yes},
		"Kata":                    {flags: "-m", script: "mkdir -p NODE/run/kata/UID-x; mount --bind " + pod + "volumes NODE/run/kata/UID-x", truth: judge.Yes},
		"an overlay's upper":      {flags: "-m", script: "mkdir -p " + pod + "u " + pod + "w NODE/o; mount -t overlay o -o lowerdir=/etc,upperdir=" + pod + "u,workdir=" + pod + "w NODE/o", truth: judge.Yes},
		"text of its name":        {flags: "-m", script: "mkdir -p NODE/tmp/UID; mount -t tmpfs t NODE/tmp/UID", truth: judge.Yes},
		"text in a source":        {flags: "-m", script: "mkdir -p NODE/tmp; mount -t tmpfs UID NODE/tmp", truth: judge.Yes},
		"text of another user's":  {flags: "-Urm", script: "mkdir -p NODE/tmp/UID; mount -t tmpfs t NODE/tmp/UID", truth: judge.No},
		"bind of another user's":  {flags: "-Urm", script: "mkdir -p NODE/tmp/x; mount --bind " + pod + "volumes NODE/tmp/x", truth: judge.Yes},
		"another user's in pods":  {flags: "-Urm", script: "mount --bind " + pod + "plugins " + pod + "volumes", truth: judge.Yes},
		"in a chroot's namespace": {flags: "-m", script: "mkdir -p NODE/root; mount --rbind / NODE/root; mount -t tmpfs t NODE/root" + pod + "volumes; echo ready; exec chroot NODE/root cat", truth: judge.Yes},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := n.pod()
			fill := func(script string) string {
				return strings.NewReplacer("NODE", n.dir, "UID", string(uid)).Replace(script)
			}
			for point := range strings.FieldsSeq(fill(c.here)) {
				must(t, os.MkdirAll(point, 0o755))
				testkit.Mount(t, "t", point, "tmpfs", 0, "")
			}
			if c.script != "" {
				shell(t, c.flags, fill(c.script))
			}
			wantFact(t, n.fact(uid, judge.Mounted), c.truth, c.alive, c.detail)
		})
	}
}

// TestChrootHidesNothing: the first process of a namespace may be a chroot, which shows only what is mounted below its root.
func TestChrootHidesNothing(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	volumes := n.cfg.RootDir + "/pods/" + string(uid) + "/volumes"
	n.mkdir("root")
	shell(t, "-m", fmt.Sprintf("mount --rbind / %[1]s/root; mount -t tmpfs t %[2]s; exec 3<&0; cat <&3 >/dev/null & echo ready; exec chroot %[1]s/root cat", n.dir, volumes))
	wantFact(t, n.fact(uid, judge.Mounted), judge.Yes, false, volumes)
}

// table runs a process of another mount namespace whose table and cgroup are these texts.
func (n *testNode) table(t *testing.T, cgroup, mountinfo string) {
	t.Helper()
	pid := shell(t, "-m", "")
	for file, text := range map[string]string{"cgroup": cgroup, "mountinfo": mountinfo} {
		source := testkit.File(t, file, text)
		testkit.Mount(t, source, fmt.Sprintf("/proc/%d/%s", pid, file), "", unix.MS_BIND, "")
	}
}

func cgroupOf(uid parsers.PodUID) string { return "0::/kubepods/pod" + string(uid) + "/c\n" }

// lines returns a table with that many mounts at a path.
func lines(count int, path string) string {
	var b strings.Builder
	b.WriteString("900001 1 0:99 / / rw - tmpfs t rw\n")
	for i := range count {
		fmt.Fprintf(&b, "%d 900001 0:99 / %s/%d rw - tmpfs t rw\n", 900002+i, path, i)
	}
	return b.String()
}

// TestBudget: tables that are too large, or that cannot be read, are a doubt about the pod that has them, and of no other.
func TestBudget(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	long := "/" + strings.Repeat("x", 4090)
	for name, c := range map[string]struct {
		table string
		own   judge.Truth
	}{
		"usual":                   {lines(100, "/a"), judge.No},
		"50,000 mounts":           {lines(50_000, "/a"), judge.Unknown},
		"4 KiB paths":             {lines(1000, long), judge.No},
		"many 4 KiB paths":        {lines(3000, long), judge.Unknown},
		"a line of 64 KiB":        {lines(1, "/"+strings.Repeat(`\040`, 17_000)), judge.Unknown},
		"a first line of 100 KiB": {strings.Repeat("1", 100<<10), judge.Unknown},
		"no table":                {"x\n", judge.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			owner, other := n.pod(), n.pod()
			n.table(t, cgroupOf(owner), c.table)
			s := n.scan()
			p, _ := s.Pod(owner)
			wantFact(t, p.Facts[judge.Mounted], c.own, false, "")
			p, _ = s.Pod(other)
			wantFact(t, p.Facts[judge.Mounted], judge.No, false, "")
			if len(s.Problems) > 2 { // no runtime, no kubelet's
				t.Errorf("problems: %q", s.Problems)
			}
		})
	}
}

// TestBudgetOfPod: the budget is for all tables of a pod together.
func TestBudgetOfPod(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	first := lines(1100, "/"+strings.Repeat("x", 4090))
	second := strings.Replace(first, "900001 1 ", "900000 1 ", 1)
	n.table(t, cgroupOf(uid), first)
	wantFact(t, n.fact(uid, judge.Mounted), judge.No, false, "")
	n.table(t, cgroupOf(uid), second)
	wantFact(t, n.fact(uid, judge.Mounted), judge.Unknown, false, "too large")
}

// TestUnitUnread: a table of the node's own programs that cannot be read is a doubt about all pods.
func TestUnitUnread(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	n.table(t, "0::/system.slice/driver.service\n", "x\n")
	wantFact(t, n.fact(uid, judge.Mounted), judge.Unknown, false, "cannot read")
}

// TestLargeTableOfUnit: a driver on the node has the mounts of all pods.
func TestLargeTableOfUnit(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	n.table(t, "0::/system.slice/driver.service\n", lines(50_000, "/a")+"1000000 900001 0:99 / /a/"+string(uid)+" rw - tmpfs t rw\n")
	wantFact(t, n.fact(uid, judge.Mounted), judge.Yes, false, "/a/"+string(uid))
}

// TestSeesMounts: from a private mount namespace a removed mount point detaches the host's mount.
func TestSeesMounts(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	pid := n.kubelet(nil, "--root-dir="+n.cfg.RootDir)
	s := n.scan()
	wantFact(t, s.Node.SeesMounts, judge.Yes, false, "the mount namespace of the kubelet")
	for name, c := range map[string]struct {
		propagation string
		then        string // a command in the namespace
		truth       judge.Truth
	}{
		"private":      {"private", "", judge.No},
		"slave":        {"slave", "", judge.Yes},
		"shared":       {"shared", "", judge.Yes},
		"shared alone": {"private", "mount --make-rshared /;", judge.No}, // with a peer group of its own
	} {
		t.Run(name, func(t *testing.T) {
			// The kubelet's own mount is shared; the test scans from another namespace.
			testkit.Mount(t, n.cfg.RootDir, n.cfg.RootDir, "", unix.MS_BIND, "")
			must(t, unix.Mount("", n.cfg.RootDir, "", unix.MS_SHARED, ""))
			self, err := os.Executable()
			must(t, err)
			cmd := exec.Command("unshare", "-m", "--propagation", c.propagation, "sh", "-c", c.then+" exec "+self)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", seesEnv, pid, n.cfg.RootDir))
			out, err := cmd.Output()
			must(t, err)
			var result judge.Fact
			must(t, json.Unmarshal(out, &result))
			wantFact(t, result, c.truth, false, "")
		})
	}
}

// seesEnv makes this test binary print what it sees of the mounts, in a mount namespace of its own.
const seesEnv = "ORPHAN_REAPER_TEST_SEES"

func printSees(text string) {
	var pid int
	var root string
	if _, err := fmt.Sscan(text, &pid, &root); err != nil {
		panic(err)
	}
	s, err := New(Config{RootDir: root, Clock: fixedClock{}})
	if err != nil {
		panic(err)
	}
	tables, err := s.readMounts(context.Background(), pid, nil)
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(tables.sees); err != nil {
		panic(err)
	}
}

// TestStaged: a volume of the pod that is staged for it alone.
func TestStaged(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	unstage(t)
	for name, c := range map[string]struct {
		data   string // vol_data.json
		other  string // of another pod directory
		mount  string // below plugins/kubernetes.io/csi
		script string // or in another namespace
		truth  judge.Truth
		detail string
	}{
		"not mounted":           {data: volData, truth: judge.No},
		"mounted":               {data: volData, mount: "d/HASH/globalmount", truth: judge.Yes, detail: "no other pod directory has it"},
		"below":                 {data: volData, mount: "d/HASH/globalmount/sub", truth: judge.Yes},
		"before 1.24":           {data: volData, mount: "pv/pv-1/globalmount", truth: judge.Yes},
		"used by another":       {data: volData, other: volData, mount: "d/HASH/globalmount", truth: judge.No},
		"another volume":        {data: volData, mount: "d/0123/globalmount", truth: judge.No},
		"no data, staged":       {data: "-", mount: "d/0123/globalmount", truth: judge.Unknown, detail: "cannot read vol_data.json"},
		"no data, of another":   {data: "-", other: volData, mount: "d/HASH/globalmount", truth: judge.No},
		"no data, not mounted":  {data: "-", truth: judge.No},
		"malformed":             {data: "{", mount: "d/0123/globalmount", truth: judge.Unknown},
		"block, not read":       {data: "block -", mount: "volumeDevices/staging/pv-b", truth: judge.Unknown, detail: "not a directory"},
		"block":                 {data: "block", mount: "volumeDevices/staging/pv-b", truth: judge.Yes},
		"the other path":        {data: volData, script: "mkdir NODE/b; mount --bind NODE/kubelet NODE/b; mount -t tmpfs t NODE/b/plugins/kubernetes.io/csi/d/HASH/globalmount", truth: judge.Yes},
		"published for another": {data: "-", mount: "volumeDevices/publish/pv-b/x", truth: judge.No},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid, other := n.pod(), n.pod()
			fill := strings.NewReplacer("NODE", n.dir, "HASH", handleHash).Replace
			at := func(uid parsers.PodUID) string {
				return "kubelet/pods/" + string(uid) + "/volumes/" + csiPlugin + "/pv-1/"
			}
			switch c.data {
			case "block":
				n.mkdir("kubelet/pods/" + string(uid) + "/volumeDevices/" + csiPlugin)
				must(t, os.Symlink("x", n.dir+"/kubelet/pods/"+string(uid)+"/volumeDevices/"+csiPlugin+"/pv-b"))
			case "block -":
				n.mkdir("kubelet/pods/" + string(uid) + "/volumeDevices")
				must(t, os.Symlink("x", n.dir+"/kubelet/pods/"+string(uid)+"/volumeDevices/"+csiPlugin))
			case "-":
				n.mkdir(at(uid))
			default:
				n.write(at(uid)+"vol_data.json", c.data)
			}
			if c.other != "" {
				n.write(at(other)+"vol_data.json", c.other)
			}
			n.mkdir("kubelet/" + csiDir + "/d/" + handleHash + "/globalmount")
			if c.mount != "" {
				dir := "kubelet/" + csiDir + "/" + fill(c.mount)
				n.mkdir(dir)
				testkit.Mount(t, "t", n.dir+"/"+dir, "tmpfs", 0, "")
			}
			if c.script != "" {
				shell(t, "-m", fill(c.script))
			}
			s := n.scanner().Scan(t.Context(), []parsers.PodUID{uid}, nil) // of this pod alone: the others use volumes none the less
			p, _ := s.Pod(uid)
			wantFact(t, p.Facts[judge.Staged], c.truth, false, c.detail)
		})
	}
}

// unstage takes the volumes that a kubelet of this machine has staged from the mount namespace of these tests, which is a copy
// of the machine's.
func unstage(t *testing.T) {
	t.Helper()
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.Contains(m.Mountpoint, "/"+csiDir+"/"), false
	})
	must(t, err)
	for _, m := range slices.Backward(mounts) {
		must(t, unix.Unmount(m.Mountpoint, unix.MNT_DETACH))
	}
}

// volData is as the kubelet writes it, and handleHash the SHA-256 of its volumeHandle.
const (
	volData    = `{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv-1","volumeHandle":"vol-1","volumeLifecycleMode":"Persistent"}`
	handleHash = "d2e8363faaac7ae76def3b14091d8eb5755f6b92e9531627aeec833a8731cc49"
)
