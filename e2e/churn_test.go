package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// churnSetting returns a number from the environment, set by make churn, or one that is enough for some minutes.
func churnSetting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return number
}

// TestChurn creates and deletes pods with every kind of volume that needs no API server, while kubelet and runtime
// are killed and restarted, the pod network fails, namespaces and chroots come and go, and forged lines are written.
// No living pod may be parked or lose a file, and every orphan must be removed in time. It runs alone, since its
// kills and chroots would disturb other tests.
func TestChurn(t *testing.T) {
	if len(versions) == 0 {
		t.Fatal("E2E_VERSIONS names no kubelet; make e2e does")
	}
	// A runtime that is killed while it starts a sandbox leaves the shim.
	t.Cleanup(func() {
		for _, pid := range machine.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	n := newNode(t, machine, versions[0], 7)
	n.restartKubelet(t)
	c := &churn{
		t: t, n: n, d: n.reap(t), random: rand.New(rand.NewPCG(1, 2)), // the same pods in each run
		alive: map[string]*life{}, orphans: map[string]time.Time{}, free: map[string]time.Time{}, volumes: map[string]bool{}, started: time.Now(),
		wanted: churnSetting(t, "CHURN_ALIVE", 20), longest: churnSetting(t, "CHURN_SECONDS", 25), slow: churnSetting(t, "CHURN_SLOW", 1),
	}
	for _, p := range n.livingPods(t) {
		l := &life{pod: p, from: time.Now(), ends: time.Now().Add(24 * time.Hour), born: map[string]string{}}
		c.alive[p.name], c.lives, c.steady = l, append(c.lives, l), append(c.steady, l)
		n.run(t, p)
		eventually(t, 90*time.Second, func() string { return n.beating(p) })
	}
	// A machine without KVM may be too slow for that many lives in the available time.
	deadline := c.started.Add(time.Duration(churnSetting(t, "CHURN_MINUTES", 24*60)) * time.Minute)
	for want := churnSetting(t, "CHURN_PODS", 60); c.ran < want && time.Now().Before(deadline) || slices.Contains(c.disturbances[:], 0); c.turn() {
		c.draw(want / 40)
		time.Sleep(time.Duration(c.slow) * stepEvery)
	}
	c.end()
}

// life is one period in which a static pod was wanted: from the creation of its manifest to its removal.
type life struct {
	pod      pod
	kind     int
	url      bool // its manifest comes from the URL, not from a file
	from, to time.Time
	ends     time.Time
	logged   int64             // length of the kubelet's log at that time
	born     map[string]string // the application's content at its start, by file
}

type churn struct {
	t      *testing.T
	n      *node
	d      *daemon
	random *rand.Rand

	alive   map[string]*life // by name
	lives   []*life
	steady  []*life              // pods that live all the time
	wanted  int                  // number of pods that live at once
	longest int                  // life in seconds
	slow    int                  // factor by which steps, disturbances and forgeries are rarer than on a separate machine
	orphans map[string]time.Time // by UID: since when an orphan exists that the kubelet cannot remove
	free    map[string]time.Time // since when only the hold keeps an orphan
	volumes map[string]bool      // pods in which a starting kubelet adopts a volume and holds it
	dead    []*life              // pods that may come back
	read    int64                // read position in the daemon's records

	started, planted, disturbed, forged time.Time
	undo                                func() // ends the present disturbance
	undoAt                              time.Time

	made, returned, ran, plants, gone, parked int
	slowest                                   time.Duration
	disturbances                              [5]int
	next                                      []int // the remaining disturbances of this round
	lines                                     int
	firstRSS, lastRSS, mostRSS                int

	drawn, rowRSS int             // of the chart's present row
	rowTimes      []time.Duration // from an orphan to its end
}

// Beats of the churn.
const (
	stepEvery    = 200 * time.Millisecond
	plantEvery   = 5 * time.Second
	disturbEvery = 40 * time.Second
	forgeEvery   = 2 * time.Second
	// within is the limit for the removal of an orphan, from when only the hold keeps it.
	within = hold + confirm + 2*time.Minute
)

// turn is one step of all activities.
func (c *churn) turn() {
	now := time.Now()
	for _, l := range c.alive {
		if now.After(l.ends) && c.lived(l) {
			c.remove(l)
		}
	}
	for i := 0; i < c.slow && len(c.alive) < c.wanted; i++ {
		c.create()
	}
	if now.Sub(c.planted) > plantEvery {
		c.planted = now
		c.plant()
	}
	if c.undo != nil && now.After(c.undoAt) {
		c.undo()
		c.undo = nil
	}
	if c.undo == nil && now.Sub(c.disturbed) > time.Duration(c.slow)*disturbEvery {
		c.disturbed = now
		c.disturb()
	}
	if now.Sub(c.forged) > time.Duration(c.slow)*forgeEvery {
		c.forged = now
		c.forge()
	}
	c.check()
}

// lived reports whether the pod may end: nine of ten have run by then, or cannot (1.37 without a server projects
// nothing).
func (c *churn) lived(l *life) bool {
	return len(l.born) > 0 || l.kind%10 == 0 || time.Since(l.from) > 45*time.Second
}

// churnVolumes are the kinds of volumes that a kubelet without an API server mounts: volumes, the container's mounts,
// the application's directories, and their paths in the pod's directory.
func churnVolumes(hostPath string) []pod {
	const empty = "volumes/kubernetes.io~empty-dir/"
	return []pod{
		{spec: `volumes: [{name: a, emptyDir: {}}]`, mounts: `[{name: a, mountPath: /a}]`, dirs: `/a`, files: []string{empty + "a"}},
		{
			spec: `volumes: [{name: m, emptyDir: {medium: Memory}}]`, mounts: `[{name: m, mountPath: /m}]`, dirs: `/m`,
			files: []string{empty + "m"},
		},
		{
			spec:   `volumes: [{name: a, emptyDir: {}}, {name: h, hostPath: {path: ` + hostPath + `, type: DirectoryOrCreate}}]`,
			mounts: `[{name: a, mountPath: /a, subPath: part/of}, {name: h, mountPath: /h}]`, dirs: `/a, /h`, files: []string{empty + "a/part/of"},
		},
		{
			spec: `hostNetwork: true, volumes: [{name: a, emptyDir: {}}, {name: d, downwardAPI: {items: [` +
				`{path: name, fieldRef: {fieldPath: metadata.name}}]}}]`,
			mounts: `[{name: a, mountPath: /a}, {name: d, mountPath: /d}]`, dirs: `/a`, files: []string{empty + "a"},
		},
		{
			spec: `volumes: [{name: a, emptyDir: {}}, {name: p, projected: {sources: [{downwardAPI: {items: [` +
				`{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}]`,
			mounts: `[{name: a, mountPath: /a}, {name: p, mountPath: /p}]`, dirs: `/a`, files: []string{empty + "a"},
		},
	}
}

// create gives the kubelet a new pod, or an earlier one under the same UID.
func (c *churn) create() {
	l := &life{from: time.Now(), logged: c.n.kubelet.size(), born: map[string]string{}}
	again := len(c.dead) > 0 && c.random.IntN(5) == 0
	if again && c.slow > 1 {
		// Only its sandbox shows that a pod of the URL with this UID is static. On a slow machine its directory is there
		// long before that, and the breaker would rightly open.
		again = !c.dead[len(c.dead)-1].url
	}
	if again {
		old := c.dead[len(c.dead)-1]
		c.dead = nil
		l.pod, l.kind, l.url = old.pod, old.kind, old.url
		c.returned++
	} else {
		c.made++
		l.kind = c.made
		host := filepath.Join(c.n.dir, "host-path", strconv.Itoa(c.made))
		kinds := churnVolumes(host)
		l.pod, l.url = kinds[c.made%len(kinds)], c.random.IntN(2) == 0
		l.pod.name = fmt.Sprintf("churn-%d", c.made)
		l.pod.uid = c.n.uid(fmt.Sprintf("5a11fe00-%04x-4000-8000-%011x_", c.made&0xffff, c.made))
	}
	l.ends = l.from.Add(time.Duration(3+c.random.IntN(c.longest-3)) * time.Second)
	delete(c.orphans, l.pod.uid)
	delete(c.free, l.pod.uid)
	c.alive[l.pod.name], c.lives = l, append(c.lives, l)
	if l.url {
		c.serve()
		return
	}
	c.n.run(c.t, l.pod)
}

// serve gives the kubelet all pods of its URL.
func (c *churn) serve() {
	var pods []pod
	for _, l := range c.alive {
		if l.url {
			pods = append(pods, l.pod)
		}
	}
	c.n.serve(pods...)
}

// remove removes the pod's manifest. Into every third directory it puts something that the kubelet cannot remove: an
// orphan of a pod that really ran. It is in a place that a starting kubelet does not adopt as a volume, which it
// would hold for 10 minutes.
func (c *churn) remove(l *life) {
	delete(c.alive, l.pod.name)
	if len(l.born) > 0 {
		c.ran++
	}
	subpaths := filepath.Join(c.n.pods, l.pod.uid, "volume-subpaths")
	if l.kind%3 == 0 && len(l.born) > 0 && exists(filepath.Dir(subpaths)) {
		write(c.t, filepath.Join(mkdir(c.t, filepath.Join(subpaths, "vol", "app", "0")), "data"), "a user's")
	}
	if exists(subpaths) { // of this life, or of one before it
		c.orphans[l.pod.uid] = time.Now()
	}
	l.to = time.Now()
	if l.url {
		c.serve()
	} else if err := os.Remove(filepath.Join(c.n.dir, "manifests", l.pod.name+".yaml")); err != nil {
		c.t.Fatal(err)
	}
	c.dead = append(c.dead, l)
}

// plant makes an orphan of a pod that never ran here.
func (c *churn) plant() {
	c.plants++
	uid := c.n.uid(fmt.Sprintf("%x0badf00-c4c4-4000-8000-%011x_", []int{1, 4, 0xd}[c.plants%3], c.plants))
	kind := []string{"subpath with data", "volume-subpaths is a file", skeleton, dataFile}[c.plants%4]
	c.n.plant(c.t, kind, uid)
	c.orphans[uid] = time.Now()
	c.volumes[uid] = kind == skeleton || kind == dataFile
}

// disturb causes one of the events that happen to nodes: each once, then each again in another order.
func (c *churn) disturb() {
	if len(c.next) == 0 {
		c.next = c.random.Perm(len(c.disturbances))
	}
	which := c.next[0]
	c.next = c.next[1:]
	c.disturbances[which]++
	switch which {
	case 0:
		c.n.restartKubelet(c.t)
	case 1:
		c.n.runtime.Kill()
		c.n.runtime = c.n.startRuntime(c.t, engine)
	case 2: // NetworkReady is false for some time
		config := filepath.Join(c.n.dir, "cni", "10-e2e.conflist")
		rename(c.t, config, config+".away")
		c.later(10*time.Second, func() { rename(c.t, config+".away", config) })
	case 3: // a chrooted process in a mount namespace of its own
		root := mkdir(c.t, filepath.Join(c.n.dir, "chroot"))
		must(c.t, "cp", filepath.Join(c.n.host.dir, "pause"), root)
		p := launch(c.t, "chroot", filepath.Join(c.n.dir, "chroot.log"), "unshare", "--mount", "chroot", root, "/pause")
		c.later(8*time.Second, func() { p.end(c.t) })
	case 4: // the kubelet is down for a while
		c.n.kubelet.Kill()
		c.later(5*time.Second, func() {
			c.n.startKubelet(c.t)
			c.n.verbose = false
		})
	}
}

func (c *churn) later(d time.Duration, undo func()) { c.undoAt, c.undo = time.Now().Add(d), undo }

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// forge writes the kubelet's orphan line for each living pod, and for some that never existed.
func (c *churn) forge() {
	if !c.n.kubelet.Running() {
		return
	}
	for _, l := range c.alive {
		c.n.forge(c.t, l.pod.uid)
		c.lines++
	}
	c.n.forge(c.t, fmt.Sprintf("f0f0f0f0-%04x-4000-8000-%012x", c.random.IntN(1<<16), c.random.Uint64N(1<<48)))
	c.lines++
}

// check inspects the living pods, the records, and the residue.
func (c *churn) check() {
	c.t.Helper()
	if !c.d.Running() {
		c.t.Fatal("the daemon ended")
	}
	for _, l := range c.alive {
		c.same(l)
	}
	lines := c.d.since(c.read)
	for _, r := range c.newRecords(lines) {
		c.note(r)
		if r.Kind == policy.KindParked || r.Kind == policy.KindCleared {
			c.parked++
			c.mayGo(r)
		}
	}
	for uid := range c.orphans {
		if !exists(filepath.Join(c.n.pods, uid)) {
			c.left(uid)
		}
	}
	if rss := residentKiB(c.d.Cmd.Process.Pid); rss > 0 {
		if c.firstRSS == 0 && time.Since(c.started) > 30*time.Second {
			c.firstRSS = rss
		}
		c.lastRSS, c.mostRSS, c.rowRSS = rss, max(c.mostRSS, rss), max(c.rowRSS, rss)
	}
}

// draw logs a row of the chart after that many lives: the daemon's peak memory, and how long the orphans existed that
// the daemon removed.
func (c *churn) draw(every int) {
	if c.ran < (c.drawn+1)*max(every, 25) {
		return
	}
	c.drawn++
	slices.Sort(c.rowTimes)
	if n := len(c.rowTimes); n > 0 {
		median, most := c.rowTimes[n/2], c.rowTimes[n-1]
		c.t.Logf("%6d lives, %5d ran, %3.0f min | %2d MiB %-30s | %4d orphans, median %3.0f s, most %3.0f s %s", len(c.lives), c.ran, time.Since(c.started).Minutes(),
			c.rowRSS>>10, strings.Repeat("#", c.rowRSS>>10), n, median.Seconds(), most.Seconds(), strings.Repeat("#", int(median.Seconds()/5)))
	}
	c.rowRSS, c.rowTimes = 0, nil
}

// note follows the records of an orphan from when only the hold keeps it, which is when the daemon's time starts.
func (c *churn) note(r policy.Record) {
	uid := string(r.UID)
	switch r.Kind {
	case policy.KindKept:
		if slices.ContainsFunc(r.Why, func(w policy.Why) bool { return w.Reason != policy.ReasonHold }) {
			delete(c.free, uid)
			return
		}
	case policy.KindParked:
	case policy.KindPutBack:
		delete(c.free, uid)
		return
	default:
		return
	}
	if c.free[uid].IsZero() {
		c.free[uid] = r.At.Wall
	}
}

// left records that an orphan is gone, and fails if that was late.
func (c *churn) left(uid string) {
	c.gone++
	whole := time.Since(c.orphans[uid])
	delete(c.orphans, uid)
	if c.free[uid].IsZero() || c.volumes[uid] {
		return // the kubelet has removed it, or held it
	}
	c.rowTimes = append(c.rowTimes, whole)
	after := time.Since(c.free[uid])
	if c.slowest = max(c.slowest, after); after > within {
		c.t.Errorf("%s was removed %s after only the hold kept it", uid, after.Round(time.Second))
	}
}

// newRecords parses the daemon's new records.
func (c *churn) newRecords(lines []string) []policy.Record {
	from := c.d.from
	defer func() { c.d.from = from }()
	c.d.from = c.read
	for _, line := range lines {
		c.read += int64(len(line)) + 1
	}
	return c.d.records()
}

// same fails if the application of a living pod was restarted, as it is when it misses its files, or if one of its
// files is gone, unless the kubelet tore the volume down, as it does late with an earlier life's volume under the
// same UID.
func (c *churn) same(l *life) {
	c.t.Helper()
	for _, dir := range l.pod.files {
		path := filepath.Join(c.n.pods, l.pod.uid, dir, "born")
		b, err := os.ReadFile(path)
		was, known := l.born[path]
		switch {
		case err == nil && !known && len(b) > 0:
			if st, err := os.Stat(path); err == nil && st.ModTime().After(l.from) {
				l.born[path] = string(b)
			}
		case !known:
		case (err != nil || was != string(b)) && c.tornDown(l):
			delete(l.born, path)
		case err != nil:
			c.t.Errorf("%s of the living %s: %v", path, l.pod.name, err)
			delete(l.born, path)
		case was != string(b):
			c.t.Errorf("%s of the living %s contains %q, want %q", path, l.pod.name, b, was)
			l.born[path] = string(b)
		}
	}
}

// tornDown reports whether a kubelet has torn down an emptyDir of the pod since the life began.
func (c *churn) tornDown(l *life) bool {
	word := `UnmountVolume.TearDown succeeded for volume "kubernetes.io/empty-dir/` + l.pod.uid
	return slices.ContainsFunc(c.n.kubelet.since(l.logged), func(line string) bool { return strings.Contains(line, word) })
}

// mayGo fails if the pod of the record was wanted when it was parked.
func (c *churn) mayGo(r policy.Record) {
	c.t.Helper()
	for _, l := range c.lives {
		wanted := r.At.Wall.After(l.from) && (l.to.IsZero() || r.At.Wall.Before(l.to))
		if wanted && l.pod.uid == string(r.UID) {
			c.t.Errorf("%s, alive since %s, was parked at %s: %s", l.pod.name, l.from, r.At.Wall, r.Text)
		}
	}
}

// end removes all pods but the steady ones, without which an empty list of the runtime proves nothing, waits
// until all orphans are removed, and logs the totals.
func (c *churn) end() {
	if c.undo != nil {
		c.undo()
		c.undo = nil
	}
	living := len(c.alive)
	for _, l := range c.alive {
		if !slices.Contains(c.steady, l) {
			c.remove(l)
		}
	}
	eventually(c.t, within, func() string {
		c.check()
		left := make([]string, 0, len(c.orphans))
		for uid := range c.orphans {
			if !c.volumes[uid] {
				left = append(left, uid)
			}
		}
		slices.Sort(left)
		return missing(len(left) == 0, "%d orphans are left: %s", len(left), strings.Join(left, " "))
	})
	c.draw(c.ran / (c.drawn + 1))
	c.t.Logf("%d pods in %s, %d with a container that ran, %d lives again under the same UID, %d alive at the end; %d orphans gone and %d held as volumes, %d parked or cleared, "+
		"the slowest after %s; "+
		"kubelet killed %d and away %d times, runtime killed %d times, network away %d times, %d chroots; %d forged lines; resident %d, %d, at most %d KiB",
		c.made, time.Since(c.started).Round(time.Second), c.ran, c.returned, living, c.gone, len(c.orphans), c.parked, c.slowest.Round(time.Second),
		c.disturbances[0], c.disturbances[4], c.disturbances[1], c.disturbances[2], c.disturbances[3], c.lines, c.firstRSS, c.lastRSS, c.mostRSS)
	if c.parked == 0 || len(c.steady[0].born) == 0 {
		c.t.Error("no pod was parked, or none lived, so the run proves nothing")
	}
}

// residentKiB returns VmRSS of the process (proc_pid_status(5)), or 0 if it has ended.
func residentKiB(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib int
			if _, err := fmt.Sscan(value, &kib); err == nil {
				return kib
			}
		}
	}
	return 0
}
