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
)

// Settings of TestReturns, in which static pods end and start again under the same UIDs.
const (
	returningPods   = 38
	returningStarts = 80 // RETURN_STARTS sets the long form: 600
	returningMoves  = 2  // minimum, unless five minutes are over
	// livesOfOne is how often one pod starts: before each start of the same container the kubelet waits twice as long, at the
	// fifth for more than startsWithin.
	livesOfOne = 4
	// startsWithin is the time limit for the kubelet to run a pod on two busy cores, and for a living directory to be back.
	startsWithin = 2 * time.Minute
	// returnsWithin is how soon a manifest comes back after only the hold keeps its pod, and returnsAnyhow how soon
	// otherwise.
	returnsWithin = 8 * time.Second
	returnsAnyhow = 80 * time.Second
)

// TestReturns ends static pods and starts them again under the same UIDs while both cores are busy, so that many
// manifests come back between a look and the next rename. The kubelet sets up an emptyDir once: if it does so in a
// directory that is then renamed, the pod cannot start. Each living directory must come back, each pod must
// start, and no breaker may open, since each judgement was right.
func TestReturns(t *testing.T) {
	if len(versions) == 0 {
		t.Fatal("E2E_VERSIONS names no kubelet; make e2e does")
	}
	n := newNode(t, machine, versions[len(versions)-1], 8)
	r := &returns{t: t, n: n, random: rand.New(rand.NewPCG(3, 4)), at: time.Now(), moved: map[string]bool{}}
	steady := n.livingPods(t)[0] // an empty list of the runtime proves nothing
	n.run(t, steady)
	eventually(t, 90*time.Second, func() string { return n.beating(steady) })
	r.d = n.reap(t, "--hold", "2s", "--confirm", "10s")
	for i := range 2 {
		busy := launch(t, "load", filepath.Join(n.dir, fmt.Sprintf("load-%d.log", i)), "sh", "-c", "while :; do :; done")
		t.Cleanup(busy.Kill)
	}
	for range returningPods {
		r.slots = append(r.slots, &slot{pod: r.pod(), next: time.Now().Add(time.Duration(r.random.IntN(15000)) * time.Millisecond)})
	}
	want := returningStarts
	if text := os.Getenv("RETURN_STARTS"); text != "" {
		var err error
		if want, err = strconv.Atoi(text); err != nil {
			t.Fatalf("RETURN_STARTS: %v", err)
		}
	}
	// A run in which nothing is moved proves nothing.
	more := func() bool {
		return r.starts < want || len(r.moved) < returningMoves && time.Since(r.at) < 5*time.Minute
	}
	for more() || slices.ContainsFunc(r.slots, func(s *slot) bool { return s.up }) {
		for _, s := range r.slots {
			r.turn(s, more())
		}
		r.read()
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d starts under %d UIDs in %s, the slowest after %s; %d moved, a living directory was away for %s at most",
		r.starts, r.pods, time.Since(r.at).Round(time.Second), r.slowest.Round(time.Second), len(r.moved), r.longest.Round(100*time.Millisecond))
	if len(r.moved) == 0 {
		t.Error("no pod was moved, so the run proves nothing")
	}
	if r.away+r.stuck+r.breakers > 0 {
		t.Errorf("%d living directories did not come back, %d pods did not start, %d breakers opened", r.away, r.stuck, r.breakers)
	}
}

type returns struct {
	t      *testing.T
	n      *node
	d      *daemon
	random *rand.Rand
	at     time.Time
	slots  []*slot
	pods   int // that were made

	moved                         map[string]bool // entries of the quarantine
	scanned                       time.Time
	starts, away, stuck, breakers int
	slowest, longest              time.Duration // start, and time that a living directory was away
}

// pod returns a new pod, whose UID has no dashes, as that of a static pod.
func (r *returns) pod() pod {
	r.pods++
	return pod{
		uid: fmt.Sprintf("2badf00d%04x4000800000000000e70%d", r.pods, r.n.number), name: fmt.Sprintf("returns-%d", r.pods),
		spec:   `hostNetwork: true, volumes: [{name: data, emptyDir: {}}]`,
		mounts: `[{name: data, mountPath: /data}]`, files: []string{filepath.Join("volumes", emptyDir, "data")},
	}
}

// slot is a pod that is alternately wanted and not wanted, and after its last life another one.
type slot struct {
	pod     pod
	lives   int
	up      bool
	works   bool      // the pod has worked in this life
	next    time.Time // time of the next change
	from    time.Time // start of this life
	logged  int64     // length of the kubelet's log at that time
	volume  uint64    // the inode of the volume that the kubelet made in this life
	gone    time.Time // since when it is missing
	counted bool
}

// turn ends or starts the pod when it is time, and checks the directory of its volume.
func (r *returns) turn(s *slot, more bool) {
	now := time.Now()
	manifest := filepath.Join(r.n.dir, "manifests", s.pod.name+".yaml")
	if !s.up {
		if more && now.After(s.next) {
			if r.starts++; s.lives == livesOfOne {
				s.pod, s.lives = r.pod(), 0
			}
			// Another argument makes another container for the kubelet, which then does not wait before it starts it.
			s.pod.dirs = fmt.Sprintf("/data, --start-%d", r.starts)
			*s = slot{pod: s.pod, lives: s.lives + 1, up: true, from: now, logged: r.n.kubelet.size()}
			r.n.run(r.t, s.pod)
		}
		return
	}
	r.look(s)
	atWork := r.n.beating(s.pod) == "" && bornSince(filepath.Join(r.n.pods, s.pod.uid, s.pod.files[0], "born"), s.from)
	if !s.works && atWork {
		s.works, s.next = true, now.Add(time.Duration(1000+r.random.IntN(3000))*time.Millisecond)
		r.slowest = max(r.slowest, now.Sub(s.from))
	}
	late := !s.works && now.Sub(s.from) > startsWithin
	if late {
		r.stuck++
		r.t.Logf("%s does not start, %s after its manifest came back:\n%s", s.pod.name, now.Sub(s.from).Round(time.Second), r.lines(s.pod.uid))
	}
	if late || s.works && now.After(s.next) {
		// The kubelet cannot remove this one: its directory is an orphan until the manifest comes back.
		residue := filepath.Join(r.n.pods, s.pod.uid, "volume-subpaths", "vol", "app", "0")
		if exists(filepath.Join(r.n.pods, s.pod.uid)) {
			write(r.t, filepath.Join(mkdir(r.t, residue), "data"), "a user's")
		}
		if err := os.Remove(manifest); err != nil {
			r.t.Fatal(err)
		}
		s.up, s.next = false, now.Add(returnsAnyhow)
	}
}

// look counts the volume that the kubelet has made in this life and that has been missing for too long.
func (r *returns) look(s *slot) {
	path := filepath.Join(r.n.pods, s.pod.uid, s.pod.files[0])
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil && (s.volume == 0 || s.volume == st.Ino) {
		if time.Unix(st.Ctim.Unix()).After(s.from) {
			if !s.gone.IsZero() {
				r.longest = max(r.longest, time.Since(s.gone))
			}
			s.volume, s.gone = st.Ino, time.Time{}
		}
		return
	}
	switch {
	case s.volume == 0 || s.counted:
	case r.tornDown(s): // late, the volume of the life before
		s.volume, s.gone = 0, time.Time{}
	case s.gone.IsZero():
		s.gone = time.Now()
	case time.Since(s.gone) > startsWithin:
		s.counted = true
		r.away++
		r.t.Logf("%s, living since %s, has been missing for more than %s:\n%s", path, s.from.Format(time.TimeOnly), startsWithin, r.lines(s.pod.uid))
	}
}

func (r *returns) tornDown(s *slot) bool {
	word := `UnmountVolume.TearDown succeeded for volume "kubernetes.io/empty-dir/` + s.pod.uid
	return slices.ContainsFunc(r.n.kubelet.since(s.logged), func(line string) bool { return strings.Contains(line, word) })
}

// read scans once a second. If only the hold keeps a pod, its manifest comes back at about the time of the rename. It
// counts the breakers that have opened, and resumes the daemon.
func (r *returns) read() {
	if time.Since(r.scanned) < time.Second {
		return
	}
	status := r.d.scan(r.t)
	r.scanned = time.Now()
	for _, e := range status.Quarantine {
		r.moved[e.Entry] = true
	}
	for _, s := range r.slots {
		if p := status.pod(s.pod.uid); !s.up && p.Verdict == "wait" && time.Until(s.next) > returnsWithin {
			s.next = time.Now().Add(time.Duration(r.random.Int64N(int64(returnsWithin))))
		}
	}
	if status.Breaker != nil {
		r.breakers++
		r.t.Logf("breaker open: %s", *status.Breaker)
		if _, stderr, code := r.d.try("quarantine", "resume"); code != 0 {
			r.t.Fatal(stderr)
		}
	}
}

// lines returns the daemon's and the kubelet's last messages about the pod.
func (r *returns) lines(uid string) string {
	var all []string
	for _, line := range r.d.since(0) {
		if strings.Contains(line, uid) {
			all = append(all, line)
		}
	}
	for _, line := range r.n.kubelet.since(r.n.started) {
		if strings.Contains(line, uid) && strings.Contains(line, "Error") {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-8):], "\n")
}

// bornSince reports whether the application wrote the file after that time.
func bornSince(path string, since time.Time) bool {
	st, err := os.Stat(path)
	return err == nil && st.ModTime().After(since)
}
