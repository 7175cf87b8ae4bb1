package look

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSweepCNI reads one file of each kind, of a pod that is gone and of a living one.
func TestSweepCNI(t *testing.T) {
	n := newCNINode(t)
	uid := newUID()
	for pod, dead := range map[string]bool{"gone": true, "a live pod": false} {
		id := id(pod)
		n.cache("cbr0", id, "eth0", string(uid), n.netns(pod))
		n.cache("cni-loopback", id, "lo", string(uid), n.netns(pod))
		n.write("cni/multus/"+id, `[{"name":"cbr0","type":"bridge"}]`)
		n.write("cni/multus/results/net-1-"+id+"-net1.100", cacheText("net-1", id, "net1.100", string(uid), n.netns(pod)))
		n.write("cni/cache/results/cbr0-"+id+"-eth0", cacheText("cbr0", id, "eth0", string(uid), n.netns(pod)))
		n.write("cni/flannel/"+id, `{"cniVersion":"0.3.1","name":"cbr0","type":"bridge","ipam":{"type":"host-local"}}`)
		ip := map[bool]string{true: "9", false: "8"}[dead]
		n.address("cbr0", "10.244.0."+ip, id)
		n.address("cbr0", "fd00::"+ip, id)
	}
	n.write("cni/networks/cbr0/lock", "")
	n.write("cni/networks/cbr0/last_reserved_ip.0", "10.244.0.9")
	looks := n.sweep()
	if asked := n.cri.Calls(fakecri.GetVersion); len(looks) != 1 || len(looks[0].Errors) != 0 || asked != 0 { // no file is broken
		t.Fatalf("%d looks, errors %q, asked %d times for the version", len(looks), errorsOf(looks), asked)
	}
	look := looks[0]
	if look.Node.RuntimeLists.Truth != policy.Yes || !slices.Equal(look.Listed, []string{id("a live pod")}) {
		t.Errorf("lists %+v, listed %v", look.Node.RuntimeLists, look.Listed)
	}
	if len(look.InUse) != 1 || look.InUse["cbr0"] != 2 {
		t.Errorf("in use: %v", look.InUse)
	}
	want := map[cni.Kind]int64{cni.Cache: 4, cni.Multus: 1, cni.Flannel: 1, cni.Address: 2}
	got := map[cni.Kind]int64{}
	for kind, tally := range look.Live {
		if got[kind] = tally.Entries; tally.Bytes == 0 {
			t.Errorf("no bytes counted for %s", kind)
		}
	}
	for _, f := range look.Files {
		want[f.Kind]--
		if f.Container != id("gone") || f.UID != uid || f.Namespace != "shop" || f.PodName != "db-0" {
			t.Errorf("%s/%s belongs to %s, %s %s/%s", f.Dir, f.Name, f.Container, f.UID, f.Namespace, f.PodName)
		}
		if f.ID.Ino == 0 || f.ID.Size == 0 || time.Since(f.Changed) > time.Minute || f.Broken {
			t.Errorf("%s: %+v, changed %s, broken %v", f.Name, f.ID, f.Changed, f.Broken)
		}
		checkCNI(t, f, goneFacts(nil))
	}
	for kind, left := range want {
		if left != 0 || got[kind] == 0 {
			t.Errorf("%s: %d live and %d fewer gone", kind, got[kind], left)
		}
	}
	f := cniFile(t, looks, "net-1-"+id("gone")+"-net1.100")
	if f.Network != "net-1" || f.IfName != "net1.100" || f.Dir != n.path("cni/multus/results") {
		t.Errorf("%+v", f)
	}
}

// TestSweepCNIOrder makes a sandbox during a sweep. In the order of this program the runtime lists it. In the reverse
// order, that of StarlingX's script and of whereabouts before #208, it is in the list of files and not in the
// runtime's, and seems to be gone.
func TestSweepCNIOrder(t *testing.T) {
	born := id("just made")
	for _, c := range []struct {
		name    string
		swapped bool
		want    int
	}{{"files first", false, 0}, {"runtime first", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.netns("gone"))
			s := n.begin()
			defer s.Close()
			add := func() {
				n.sandbox(born, true)
				n.cache("cbr0", born, "eth0", string(newUID()), n.netns("new"))
			}
			var part chunk
			var asked probe.Containers
			read := func() { part = s.read(t.Context()) }
			ask := func() { asked = n.Containers(t.Context(), nil) }
			if c.swapped {
				ask()
				add()
				read()
			} else {
				read()
				add()
				ask()
			}
			look := s.look(t.Context(), part, asked)
			part.dir.Unref()
			lost := 0
			for _, f := range look.Files {
				if f.Container == born && f.Facts[cni.Listed].Truth == policy.No {
					lost++
				}
			}
			if lost != c.want {
				t.Errorf("%d files of the new sandbox count as gone, want %d", lost, c.want)
			}
		})
	}
}

// TestSweepCNIRuntime checks that a container counts as absent only after a complete response with at least one pod.
func TestSweepCNIRuntime(t *testing.T) {
	gone, stopped := id("gone"), id("stopped")
	unknown := goneFacts(cniFacts{cni.Listed: policy.Unknown, cni.Ready: policy.Unknown})
	fail := func(c fakecri.Call, f fakecri.Fault) func(*cniNode) {
		return func(n *cniNode) {
			if n.cri.SetFault(c, f); f.Hang {
				n.patience = 500 * time.Millisecond
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*cniNode)
		lists  policy.Truth
		want   cniFacts // for a file of the container that is not listed
	}{
		{"whole", func(*cniNode) {}, policy.Yes, goneFacts(nil)},
		{"it lists nothing", func(n *cniNode) { n.cri.SetSandboxes() }, policy.No, unknown},
		{"it lists strangers only", func(n *cniNode) {
			s := fakecri.Pod{}.Sandbox()
			s.Labels, s.Annotations, s.Id = nil, nil, id("a stranger")
			n.cri.SetSandboxes(s)
		}, policy.No, unknown},
		{"no sandboxes", fail(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.Unavailable, "x")}), policy.Unknown, unknown},
		{"no containers", fail(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Unavailable, "x")}), policy.Unknown, unknown},
		{"it hangs", fail(fakecri.ListPodSandbox, fakecri.Fault{Hang: true}), policy.Unknown, unknown},
		{"not asked", func(n *cniNode) { n.waive = true }, policy.Unknown, unknown},
		{"nothing listens", func(n *cniNode) { n.cri.Close() }, policy.Unknown, unknown},
		{"a container of it runs, its sandbox is not listed", func(n *cniNode) { n.container(id("c"), gone, true) }, policy.Yes, nil},
		{"a container of it has ended", func(n *cniNode) { n.container(id("c"), gone, false) }, policy.Yes, nil},
		{"its sandbox is not ready", func(n *cniNode) { n.sandbox(gone, false) }, policy.Yes, nil},
		{"another ID with its beginning", func(n *cniNode) { n.sandbox(gone[:12], true); n.sandbox(gone[:63]+"g", true) }, policy.Yes, goneFacts(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			n.sandbox(stopped, false)
			name := n.cache("cbr0", gone, "eth0", string(newUID()), n.netns("x"))
			n.cache("cbr0", stopped, "eth0", string(newUID()), n.netns("y"))
			c.change(n)
			looks := n.sweep()
			if got := looks[0].Node.RuntimeLists; got.Truth != c.lists {
				t.Errorf("lists is %s (%s), want %s", got.Truth, got.Detail, c.lists)
			}
			if c.want != nil {
				checkCNI(t, cniFile(t, looks, name), c.want)
			} else if len(looks[0].Files) != 0 {
				t.Errorf("a listed sandbox is reported as residue: %+v", looks[0].Files)
			}
		})
	}
}

// TestSweepCNIBroken checks an empty or truncated cache file. It prevents the teardown of a sandbox that is not
// ready; a ready sandbox still owns it. The runtime's version decides whether it fails on such a file, so it is
// reported. Without it the file is judged all the same.
func TestSweepCNIBroken(t *testing.T) {
	const version = "fakecri 1.2.3"
	listed := goneFacts(cniFacts{cni.Listed: policy.Yes})
	ready := goneFacts(cniFacts{cni.Listed: policy.Yes, cni.Ready: policy.Yes})
	doubt := goneFacts(cniFacts{cni.Listed: policy.Yes, cni.Ready: policy.Unknown})
	versionFails := func(f fakecri.Fault) func(*cniNode, string) {
		return func(n *cniNode, s string) { n.sandbox(s, false); n.cri.SetFault(fakecri.GetVersion, f) }
	}
	for _, c := range []struct {
		name    string
		state   func(n *cniNode, id string)
		want    cniFacts
		runtime string
	}{
		{"gone", func(*cniNode, string) {}, goneFacts(nil), version},
		{"not ready", func(n *cniNode, s string) { n.sandbox(s, false) }, listed, version},
		{"ready", func(n *cniNode, s string) { n.sandbox(s, true) }, ready, ""},
		{"not ready, but a container of it runs", func(n *cniNode, s string) { n.sandbox(s, false); n.container(id("c"), s, true) }, ready, ""},
		{"known by a container that has ended", func(n *cniNode, s string) { n.container(id("c"), s, false) }, doubt, ""},
		{"not ready, and the containers are not known", func(n *cniNode, s string) {
			n.sandbox(s, false)
			n.cri.SetFault(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
		}, doubt, ""},
		{"its version fails", versionFails(fakecri.Fault{Err: status.Error(codes.Internal, "x\ny")}), listed, "Version: x"},
		{"its version hangs", func(n *cniNode, s string) {
			n.patience = 2 * time.Second // the lists must come in it
			versionFails(fakecri.Fault{Hang: true})(n, s)
		}, listed, "(Version: no answer in time)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			id := id("broken")
			c.state(n, id)
			empty, cut := "cbr0-"+id+"-eth0", "cni-loopback-"+id+"-lo"
			n.write("cni/results/"+empty, "")
			n.write("cni/results/"+cut, cacheText("cni-loopback", id, "lo", "", "")[:100])
			looks := n.sweep()
			for _, name := range []string{empty, cut} {
				f := cniFile(t, looks, name)
				if !f.Broken || f.Container != id || !strings.Contains(f.Runtime, c.runtime) || strings.Contains(f.Runtime, "\n") {
					t.Errorf("%s: broken %v, container %q, runtime %q", name, f.Broken, f.Container, f.Runtime)
				}
				checkCNI(t, f, c.want)
			}
		})
	}
}

// TestSweepCNIChunks checks directories longer than a chunk: each file is reported once, and a value that a file
// lacks comes from a file of another chunk.
func TestSweepCNIChunks(t *testing.T) {
	n := newCNINode(t)
	n.chunk = 4
	uid := map[string]parsers.PodUID{}
	for i := range 10 {
		pod := string(rune('a' + i))
		uid[id(pod)] = newUID()
		n.cache("cbr0", id(pod), "eth0", string(uid[id(pod)]), n.netns(pod))
		n.address("cbr0", "10.244.0."+string(rune('0'+i)), id(pod))
		n.write("cni/multus/"+id(pod), "[]")
	}
	n.cache("cbr0", id("a live pod"), "eth0", string(newUID()), n.netns("live"))
	n.write("run/netns/live", "") // claimed by a file of another chunk
	looks := n.sweep()
	seen := map[string]int{}
	for i, l := range looks {
		total := len(l.Files)
		for _, tally := range l.Live {
			total += int(tally.Entries)
		}
		if total > n.chunk || len(l.Errors) > 0 {
			t.Errorf("chunk %d has %d files, errors %q", i, total, l.Errors)
		}
		for _, f := range l.Files {
			seen[string(f.Kind)+f.Name]++
			if f.UID != uid[f.Container] || f.PodName != "db-0" {
				t.Errorf("%s %s belongs to pod %q", f.Kind, f.Name, f.UID)
			}
			checkCNI(t, f, goneFacts(nil))
		}
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s is reported %d times", name, times)
		}
	}
	if len(seen) != 30 || len(looks) != 8 {
		t.Errorf("%d files in %d chunks, want 30 in 8", len(seen), len(looks))
	}
}

// TestSweepCNIUntied checks files without a known container: they are counted, reported and never opened.
func TestSweepCNIUntied(t *testing.T) {
	n := newCNINode(t)
	a, b := id("a"), id("b")
	n.sandbox(b, true)
	good := cacheText("cbr0", a, "eth0", string(newUID()), n.netns("a"))
	n.write("elsewhere", good)
	n.symlink(n.path("elsewhere"), "cni/results/cbr0-"+a+"-symlink")
	n.mkdir("cni/results/cbr0-" + a + "-directory")
	testkit.Must(t, unix.Mkfifo(n.path("cni/results/cbr0-"+a+"-fifo"), 0o600))
	device := "cni/results/cbr0-" + a + "-device"
	if err := unix.Mknod(n.path(device), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		n.mkdir(device) // only root can make devices
	}
	n.write("cni/results/cbr0-"+a+"-another", good)  // its content has eth0
	n.write("cni/results/cbr0-"+a+"-"+b+"-eth0", "") // ambiguous
	n.write("cni/results/cbr0-"+a[:63]+"-eth0", "")  // incomplete ID
	n.write("cni/results/cbr0-cnitool-77383ca0-eth0", cacheText("cbr0", "cnitool-77383ca0", "eth0", "", ""))
	n.write("cni/results/bomb", strings.Repeat("[", 1<<20))
	n.write("cni/results/cbr0-"+a+"-huge", strings.Repeat("x", cni.MaxFile+1))
	n.write("cni/multus/"+strings.ToUpper(a), "[]")
	n.write("cni/networks/cbr0/10.244.0.3", "")
	n.write("cni/networks/cbr0/10.244.0.4", a[:12]+"\r\neth0")
	n.write("cni/networks/cbr0/10.244.0.5", strings.Repeat(a, 1000))
	n.write("cni/networks/cbr0/notes", a)
	looks := n.sweep()
	if len(looks) != 1 || len(looks[0].Files) != 15 || len(looks[0].Live) != 0 {
		t.Fatalf("%d looks, %d files, %v live: %s", len(looks), len(looks[0].Files), looks[0].Live, errorsOf(looks))
	}
	for _, f := range looks[0].Files {
		fact := f.Facts[cni.Tied]
		if fact.Truth == policy.Yes || f.Container != "" || fact.Detail == "" {
			t.Errorf("%s is tied to %q (%s: %s)", f.Name, f.Container, fact.Truth, fact.Detail)
		}
	}
	for part, words := range map[string]string{"symlink": "a symlink", "directory": "a directory", "fifo": "a FIFO", "huge": "longer than"} {
		wantDetail(t, cniFile(t, looks, "cbr0-"+a+"-"+part).Facts[cni.Tied], words)
	}
}

// TestSweepCNIOpensNothingElse checks by inotify that nothing but CNI files is opened: opening a device may have an
// effect (a watchdog starts, a tape rewinds), and so may reading other files if a dataDir is set to a directory like
// /proc.
func TestSweepCNIOpensNothingElse(t *testing.T) {
	n := newCNINode(t)
	n.mkdir("cni/results")
	n.write("cni/networks/cbr0/kmsg", id("a"))
	testkit.Must(t, unix.Mkfifo(n.path("cni/results/cbr0-"+id("a")+"-eth0"), 0o600))
	testkit.Must(t, unix.Mkfifo(n.path("cni/networks/cbr0/10.0.0.1"), 0o600))
	paths := []string{"cni/networks/cbr0/kmsg", "cni/results/cbr0-" + id("a") + "-eth0", "cni/networks/cbr0/10.0.0.1"}
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	testkit.Must(t, err)
	defer beneath.Close(watch)
	for _, path := range paths {
		_, err = unix.InotifyAddWatch(watch, n.path(path), unix.IN_OPEN|unix.IN_ACCESS)
		testkit.Must(t, err)
	}
	looks := n.sweep()
	if len(looks) != 1 || len(looks[0].Files) != len(paths) {
		t.Fatalf("%+v", looks)
	}
	wantDetail(t, cniFile(t, looks, "kmsg").Facts[cni.Tied], "its name is no address")
	if k, err := unix.Read(watch, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a file was opened: %d bytes of events, %v", k, err)
	}
}

// TestSweepCNIMemory checks that a sweep's memory does not grow with the number of files.
func TestSweepCNIMemory(t *testing.T) {
	const files, chunk = 2000, 100
	n := newCNINode(t)
	for i := range files {
		n.write("cni/multus/"+id(strconv.Itoa(i)), "[]")
	}
	n.chunk = chunk
	s := n.begin()
	defer s.Close()
	var first, most uint64
	seen := 0
	for look, ok := s.Next(t.Context()); ok; look, ok = s.Next(t.Context()) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if first == 0 {
			first = m.HeapAlloc
		}
		most = max(most, m.HeapAlloc)
		seen += len(look.Files)
	}
	// A tenth of the memory of all chunks' files.
	if grown := int64(most) - int64(first); seen != files || grown > files*int64(unsafe.Sizeof(cni.File{}))/10 {
		t.Errorf("%d files, and %d KiB more memory than after the first %d", seen, grown>>10, chunk)
	}
}

// TestSweepCNIUnreadable checks that an unreadable directory is reported and that the others are read.
func TestSweepCNIUnreadable(t *testing.T) {
	n := newCNINode(t)
	n.mkdir("other")
	n.write("other/cbr0-"+id("x")+"-eth0", "")
	n.symlink(n.path("other"), "cni/results")
	n.symlink(n.path("other"), "cni/networks/link")
	n.write("cni/flannel", "no directory")
	n.write("cni/multus/"+id("gone"), "[]")
	n.mkdir("cni/multus/results")
	n.write("cni/multus/results/n-"+id("gone")+"-net1", cacheText("n", id("gone"), "net1", string(newUID()), n.netns("gone")))
	r := n.reader()
	stick(t, r.Guard, "cni "+n.path("cni/networks/stuck"))
	n.address("stuck", "10.0.0.1", id("gone"))
	looks := sweepAll(t, r.sweep(false))
	if len(looks) != 1 || len(looks[0].Files) != 2 || len(looks[0].Errors) != 4 {
		t.Fatalf("%d looks, %d files, errors %q", len(looks), len(looks[0].Files), looks[0].Errors)
	}
	for _, f := range looks[0].Files {
		checkCNI(t, f, goneFacts(nil))
	}
	for _, part := range []string{
		"cni/results: open results: it is a symlink", "link: open link: it is a symlink",
		"cni/flannel: open flannel: it is a regular file", "stuck: it has not answered",
	} {
		if !strings.Contains(errorsOf(looks), part) {
			t.Errorf("no %q in %q", part, errorsOf(looks))
		}
	}
}

// TestSweepCNIConfHangs checks that an unresponsive directory of network configurations is reported, also without
// files: a sweep's process cannot end while the kernel waits for that directory.
func TestSweepCNIConfHangs(t *testing.T) {
	n := newCNINode(t)
	r := n.reader()
	stick(t, r.Guard, "cni "+r.ConfDir)
	if got := errorsOf(sweepAll(t, r.sweep(false))); !strings.Contains(got, r.ConfDir) {
		t.Errorf("errors %q", got)
	}
}

// TestSweepCNIVanishes checks a file that is removed between the listing and the read.
func TestSweepCNIVanishes(t *testing.T) {
	n := newCNINode(t)
	there := n.cache("cbr0", id("gone"), "eth0", string(newUID()), n.netns("gone"))
	r := n.reader()
	d, err := r.openDir(t.Context(), directory{cni.Cache, n.path("cni"), []string{"results"}})
	testkit.Must(t, err)
	defer d.Unref()
	d.rest = []beneath.Entry{{Name: "vanished"}, {Name: "vanished too", Kind: unix.DT_REG}}
	files, err := r.readSome(t.Context(), d, 10, nil, nil)
	if err != nil || len(files) != 1 || files[0].Name != there || !d.done {
		t.Errorf("%v; %+v", err, files)
	}
}

// TestSweepCNIWhileRemoving removes the files of each chunk before the next is read, as the loop does: the file that
// shows the owner must not be removed before the files without one.
func TestSweepCNIWhileRemoving(t *testing.T) {
	n := newCNINode(t)
	n.write("run/netns/x", "") // no owner: a file without a fact is kept
	uid := newUID()
	n.cache("cbr0", id("gone"), "eth0", string(uid), n.netns("gone"))
	n.address("cbr0", "10.244.0.9", id("gone"))
	n.address("cbr0", "fd00::9", id("gone"))
	n.write("cni/multus/"+id("gone"), "[]")
	n.write("cni/flannel/"+id("gone"), `{"name":"cbr0","type":"bridge"}`)
	n.chunk = 1
	s := n.begin()
	defer s.Close()
	files := 0
	for look, ok := s.Next(t.Context()); ok; look, ok = s.Next(t.Context()) {
		for _, f := range look.Files {
			files++
			checkCNI(t, f, goneFacts(nil))
			if f.UID != uid {
				t.Errorf("%s belongs to pod %q", f.Name, f.UID)
			}
			testkit.Must(t, os.Remove(f.Dir+"/"+f.Name))
		}
	}
	if files != 5 {
		t.Errorf("%d files", files)
	}
}
