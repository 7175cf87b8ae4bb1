package look

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// needsOwners reports whether some container that is not listed may be in one of the namespaces
// without an owner, since no file has its namespace.
func (f *chunkFacts) needsOwners() bool {
	if len(f.unclaimed) == 0 {
		return false
	}
	for id, o := range f.owners {
		if !f.k.runtime.listed(id) && len(o.netns) == 0 {
			return true
		}
	}
	return false
}

// claimLiving finds the owners of the namespaces that no cache file names. libcni writes
// a namespace into its cache since 1.2.0, and before that there is one only where the plugin
// put it into its result, which Calico's does not. So the runtime is asked for the namespaces of its
// sandboxes; for a sandbox without an answer, the namespaces of its processes count. Of a namespace that
// has no owner then, the addresses are read.
func (f *chunkFacts) claimLiving(ctx context.Context) {
	r := f.s.r
	f.claimByRuntime(ctx)
	f.findUnclaimed()
	wanted := map[nsID]string{}
	for _, u := range f.unclaimed {
		if id, ok := f.k.netns.ids[u.place]; ok {
			wanted[id] = u.place
		}
	}
	if len(wanted) == 0 {
		return
	}
	in, err := bounded.Do(ctx, r.Guard, "processes' network namespaces", func() netProcesses { return r.netProcesses(ctx, wanted) })
	if err != nil {
		return
	}
	if place, ok := wanted[in.node]; ok {
		f.s.claims[place] = true // the node's own, bound by ip netns attach
	}
	for id, place := range in.containers {
		if sandbox := f.sandboxOf(id); place != "" && sandbox != "" && !f.s.reported[sandbox] {
			f.s.claims[place] = true
		}
	}
	f.findUnclaimed()
	for i := range f.unclaimed {
		u := &f.unclaimed[i]
		u.addresses = in.addresses[u.place]
	}
	f.enterUnclaimed(ctx)
}

// enterUnclaimed reads the addresses of the namespaces without a process, where this process
// may enter them.
func (f *chunkFacts) enterUnclaimed(ctx context.Context) {
	left := mostAddressed
	for i := range f.unclaimed {
		u := &f.unclaimed[i]
		if u.addresses != nil || left == 0 {
			continue
		}
		left--
		addresses, err := bounded.Do(ctx, f.s.r.Guard, "namespace "+u.place, func() entered { return enteredAddresses(u.place, f.k.netns.ids[u.place]) })
		if err != nil || errors.Is(addresses.err, unix.EPERM) {
			return
		}
		u.addresses = addresses.found
	}
}

// entered are the addresses of a namespace, nil where they could not be read.
type entered struct {
	found map[netip.Addr]bool
	err   error
}

// enteredAddresses reads the addresses of the network namespace that is bound at a place, on a thread that enters it (setns(2)).
// That needs CAP_SYS_ADMIN, which an operator's shell has and the service has not.
func enteredAddresses(place string, id nsID) (a entered) {
	ns, err := beneath.Retry(func() (int, error) {
		return unix.Open(place, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return entered{err: err}
	}
	defer beneath.Close(ns)
	st, err := beneath.Stat(ns)
	if err != nil || id != (nsID{beneath.DevOf(&st), st.Ino}) {
		return entered{err: cmp.Or(err, error(unix.ESTALE))}
	}
	proc, err := procfs.Open("/proc")
	if err != nil {
		return entered{err: err}
	}
	defer beneath.Close(proc)
	done := make(chan struct{})
	bounded.OnOwnThread(func() {
		defer close(done)
		if a.err = unix.Setns(ns, unix.CLONE_NEWNET); a.err == nil {
			a.found, a.err = addressesOf(proc, "thread-self")
		}
	})
	<-done
	return a
}

// sandboxOf returns the sandbox of a listed container or sandbox, and "" for others.
func (f *chunkFacts) sandboxOf(id string) string {
	if _, ok := f.k.runtime.sandboxes[id]; ok {
		return id
	}
	return f.k.runtime.within[id]
}

// claimByRuntime asks the runtime for the namespaces of its sandboxes, each once in a sweep.
func (f *chunkFacts) claimByRuntime(ctx context.Context) {
	s := f.s
	ask := map[string]string{}
	for id, socket := range f.k.runtime.sandboxes {
		if !s.asked[id] {
			ask[id], s.asked[id] = socket, true
		}
	}
	for id, path := range s.r.sandboxNetns(ctx, ask) {
		s.reported[id] = true
		if place, ok := f.k.netns.place(path); ok {
			s.claims[place] = true
		}
	}
}

// netProcesses are the processes that are in some network namespaces.
type netProcesses struct {
	node nsID // the namespace of PID 1
	// containers has, for each ID in the processes' cgroups, the wanted namespace that all of
	// its processes are in, "" where they are in different ones: a process that enters the namespace of
	// another container (nsenter(1), an agent) does not own it.
	containers map[string]string
	addresses  map[string]map[netip.Addr]bool // by the namespace's place
}

// mostAddressed bounds the namespaces whose addresses are read; one that
// is not read may have any address.
const mostAddressed = 256

// netProcesses reads which of the wanted namespaces each process is in, and the addresses of those.
// A process that cannot be read is left out. It needs no capability but the one to read
// the links of other users' processes (PTRACE_MODE_READ), and enters no namespace.
func (r *Reader) netProcesses(ctx context.Context, wanted map[nsID]string) netProcesses {
	all := netProcesses{containers: map[string]string{}, addresses: map[string]map[netip.Addr]bool{}}
	proc, err := procfs.Open(r.ProcDir)
	if err != nil {
		return all
	}
	defer beneath.Close(proc)
	all.node, _ = netnsOf(proc, "1")
	_, err = procfs.Each(ctx, r.ProcDir, proc, func(pid string) bool {
		id, err := netnsOf(proc, pid)
		if err != nil {
			return procfs.Vanished(err)
		}
		place := wanted[id]
		if text, err := readProcFile(proc, pid+"/cgroup", 64<<10); err == nil {
			parsers.EachContainerID(string(text), func(id string) {
				if first, known := all.containers[id]; known && first != place {
					place = ""
				}
				all.containers[id] = place
			})
		}
		all.ask(proc, pid, id, wanted[id])
		return false
	})
	if err != nil {
		all.containers = nil // a process that was not read may be in another one
	}
	return all
}

// ask reads the addresses of a process's namespace.
func (all *netProcesses) ask(proc int, pid string, id nsID, place string) {
	if _, known := all.addresses[place]; place == "" || known || len(all.addresses) >= mostAddressed {
		return
	}
	addresses, err := addressesOf(proc, pid)
	if err != nil {
		return
	}
	if again, err := netnsOf(proc, pid); err == nil && again == id {
		all.addresses[place] = addresses
	}
}

// netnsOf returns the namespace of a process.
func netnsOf(proc int, pid string) (nsID, error) {
	var st unix.Statx_t
	err := unix.Statx(proc, pid+"/ns/net", unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	return nsID{beneath.DevOf(&st), st.Ino}, err
}

func readProcFile(proc int, name string, limit int64) ([]byte, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat(proc, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	return beneath.ReadAll(fd, 0, limit)
}

// longNet bounds what is read of one namespace's addresses. Where there is more, none is known.
const longNet = 1 << 20

// addressesOf reads the addresses of a process's namespace. /proc/PID/net/fib_trie has each
// IPv4 address as a local route, in whichever table; if_inet6 has the IPv6 addresses, and is
// missing where IPv6 is off.
//
//	|-- 10.88.0.5
//	   /32 host LOCAL
//	fe80000000000000b0e1a8fffe2fb3c1 02 40 20 80     eth0
func addressesOf(proc int, pid string) (map[netip.Addr]bool, error) {
	text, err := readProcFile(proc, pid+"/net/fib_trie", longNet)
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr]bool{}
	last := ""
	for line := range bytes.Lines(text) {
		line := string(bytes.TrimSpace(line))
		if address, ok := strings.CutPrefix(line, "|-- "); ok {
			last = address
		} else if strings.HasPrefix(line, "/32 host LOCAL") {
			if a, err := netip.ParseAddr(last); err == nil {
				found[a] = true
			}
		}
	}
	text, err = readProcFile(proc, pid+"/net/if_inet6", longNet)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		digits, _, _ := bytes.Cut(line, []byte(" "))
		var b [16]byte
		if n, err := hex.Decode(b[:], digits[:min(len(digits), 32)]); err == nil && n == len(b) {
			found[netip.AddrFrom16(b)] = true
		}
	}
	return found, nil
}

// reused reports whether /proc/PID/ns/net in a file cannot be the process that the file was written for,
// since the PID was given to another: it is in the node's own namespace, for which no
// plugin is called, or it is of a container that the runtime lists.
func (f *chunkFacts) reused(proc int, path string) bool {
	pid, ok := pidOf(path)
	if !ok {
		return false
	}
	if node, err := netnsOf(proc, "1"); err == nil {
		if id, err := netnsOf(proc, pid); err == nil && id == node {
			return true
		}
	}
	text, err := readProcFile(proc, pid+"/cgroup", 64<<10)
	if err != nil {
		return false
	}
	found := false
	parsers.EachContainerID(string(text), func(id string) { found = found || f.sandboxOf(id) != "" })
	return found
}

// pidOf returns the PID of /proc/PID/ns/net.
func pidOf(path string) (string, bool) {
	dir, ok := strings.CutSuffix(path, "/ns/net")
	pid := filepath.Base(dir)
	return pid, ok && dir == "/proc/"+pid && pid != "" && strings.Trim(pid, "0123456789") == ""
}

// startOf returns when the process of /proc/PID/ns/net was started, by the wall clock as it is
// now; zero where that is not known.
func (f *chunkFacts) startOf(path string) time.Time {
	pid, ok := pidOf(path)
	if !ok || f.at.BootID == "" {
		return time.Time{}
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		return time.Time{}
	}
	st, err := procfs.StatOf(f.s.r.ProcDir, n)
	if err != nil {
		return time.Time{}
	}
	tick, err := procfs.ClockTick()
	if err != nil {
		return time.Time{}
	}
	return f.at.Wall.Add(time.Duration(st.Start)*tick - f.at.Boot)
}
