package policy

import (
	"strings"
	"testing"
	"time"
)

// TestClassOf: whose each entry is. Whatever is not certainly the kubelet's own is data.
func TestClassOf(t *testing.T) {
	tests := []struct {
		path string
		typ  EntryType
		size int64
		want Class
	}{
		{"etc-hosts", TypeRegular, 200, ClassSkeleton},
		{"etc-hosts", TypeSymlink, 0, ClassData},
		{"containers/app/1a2b3c4d", TypeRegular, 9, ClassSkeleton},
		{"containers/app/sub/1a2b3c4d", TypeRegular, 9, ClassData},
		{"containers/app/fifo", TypeOther, 0, ClassData},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/ready", TypeRegular, 0, ClassSkeleton},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/other", TypeRegular, 0, ClassData},
		{"volumes/kubernetes.io~secret/tok/..data", TypeSymlink, 0, ClassProjected},
		{"volumes/kubernetes.io~configmap/c/..2026/key", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~projected/p/token", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~downward-api/d/labels", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~secret/file", TypeRegular, 5, ClassData},
		{"volumes/kubernetes.io~empty-dir/cache/a/b", TypeRegular, 5, ClassEphemeral},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", TypeRegular, 300, ClassSkeleton},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", TypeSymlink, 0, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/other.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/mount/vol_data.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/mount/db", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~nfs/share/vol_data.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~local-volume/disk/x", TypeOther, 0, ClassData},
		{"volumes/example.com~secret/x/y", TypeRegular, 1, ClassData},
		{"volume-subpaths/v/app/0", TypeRegular, 0, ClassSkeleton},
		{"volume-subpaths/v/app/0", TypeRegular, 1, ClassData},
		{"volume-subpaths/v/app/0/file", TypeRegular, 0, ClassData},
		{"volumeDevices/kubernetes.io~csi/pvc-1", TypeSymlink, 0, ClassSkeleton},
		{"volumeDevices/kubernetes.io~csi/pvc-1", TypeOther, 0, ClassData},
		{"volumes", TypeRegular, 0, ClassData},
		{"anything", TypeRegular, 0, ClassData},
		{"anything/else", TypeRegular, 0, ClassData},
	}
	for _, tt := range tests {
		if got := ClassOf(strings.Split(tt.path, "/"), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.path, got, tt.want)
		}
	}
}

// TestClassOfText: the kubelet's own file is known by what it reads as, to the byte.
func TestClassOfText(t *testing.T) {
	const kubelets = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
	rel := func(path string) []string { return strings.Split(path, "/") }
	for _, tt := range []struct {
		path string
		typ  EntryType
		size int64
		want bool
	}{
		{"userns", TypeRegular, 139, true},
		{".1234567", TypeRegular, 139, true},
		{"userns", TypeRegular, BiggestText + 1, false},
		{"userns", TypeSymlink, 10, false},
		{"userns", TypeOther, 0, false},
		{"userns.bak", TypeRegular, 139, false},
		{".", TypeRegular, 139, false},
		{".12a", TypeRegular, 139, false},
		{"containers/userns", TypeRegular, 139, false},
		{"volumes/kubernetes.io~nfs/userns", TypeRegular, 139, false},
	} {
		if got := ByText(rel(tt.path), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s: %t", tt.path, got)
		}
		if got := ClassOf(rel(tt.path), tt.typ, tt.size); got != ClassData {
			t.Errorf("%s: %s before it is read", tt.path, got)
		}
	}
	for text, want := range map[string]Class{
		kubelets: ClassSkeleton, kubelets + "\n": ClassSkeleton,
		"": ClassData, "{}": ClassData, "null": ClassData, "my notes": ClassData, kubelets + kubelets: ClassData,
		`{"uidMappings":[],"gidMappings":[]}`:                               ClassData,
		strings.Replace(kubelets, `{`, `{"note":"mine",`, 1):                ClassData,
		strings.Replace(kubelets, `"hostId":65536`, `"HostId":65536`, 1):    ClassData,
		strings.Replace(kubelets, `"length":65536`, `"length":"secret"`, 1): ClassData,
	} {
		if got := ClassOfText([]string{"userns"}, []byte(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	if ClassOfText([]string{".123"}, nil) != ClassSkeleton {
		t.Error("an empty temporary file is data")
	}
}

// TestEphemeralCSI: only the kubelet's own word beside the mount makes what lies in it ephemeral.
func TestEphemeralCSI(t *testing.T) {
	for text, want := range map[string]bool{
		`{"driverName":"secrets-store.csi.k8s.io","volumeLifecycleMode":"Ephemeral"}`: true,
		`{"driverName":"ebs.csi.aws.com","volumeLifecycleMode":"Persistent"}`:         false,
		`{"driverName":"d"}`: false, ``: false, `[]`: false, `{"volumeLifecycleMode":true}`: false,
		`{"volumeLifecycleMode":"ephemeral"}`:                                       false,
		`{"volumeLifecycleMode":"Persistent","VOLUMELIFECYCLEMODE":"Ephemeral"}`:    false,
		`{"volumeHandle":{"volumeLifecycleMode":"Ephemeral"},"driverName":"d"}`:     false,
		`{"volumeLifecycleMode":"Ephemeral","volumeLifecycleMode":"Persistent"}`:    false,
		`{"driverName":"d","volumeLifecycleMode":"Ephemeral"}{"driverName":"more"}`: false,
	} {
		if got := EphemeralCSI([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for path, want := range map[string]Class{
		"volumes/kubernetes.io~csi/v/mount":        ClassEphemeral,
		"volumes/kubernetes.io~csi/v/other":        ClassData,
		"volumes/kubernetes.io~nfs/v/mount":        ClassData,
		"volumes/kubernetes.io~projected/v/mount":  ClassProjected,
		"volumes/kubernetes.io~csi/v/mount/deeper": ClassData, // is asked as part of mount
	} {
		rel := strings.Split(path, "/")
		if got, ok := ClassInCSI(rel, true); got != want || !ok {
			t.Errorf("%s: %s", path, got)
		}
		if got, _ := ClassInCSI(rel, false); got == ClassEphemeral {
			t.Errorf("%s of a persistent volume: %s", path, got)
		}
	}
}

// TestClassDefault: the zero value, and a word from a newer version, are a user's data.
func TestClassDefault(t *testing.T) {
	var c Class
	if c != ClassData {
		t.Error("the zero value is not data")
	}
	c = ClassSkeleton
	if err := c.UnmarshalText([]byte("of the future")); err != nil || c != ClassData {
		t.Errorf("an unknown class is read as %s, %v", c, err)
	}
	if TakeStrip.Has(ClassData) || TakeStrip.Has(ClassEphemeral) || TakeAged.Has(ClassData) {
		t.Error("data goes without a person")
	}
}

// TestPurgeIn: retention runs on the boot clock, over a reboot on the wall clock, and a
// clock that was set back purges nothing.
func TestPurgeIn(t *testing.T) {
	s := deadScene()
	e := EntryState{Phase: PhaseConfirmed, ConfirmedAt: s.ago(23 * time.Hour), Left: []Residue{{Class: ClassEphemeral}}}
	check := func(name string, want time.Duration, wantOK, pressed bool) {
		t.Helper()
		if got, ok := PurgeIn(e, s.rules, s.now, pressed); got != want || ok != wantOK {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
	check("an hour is left", time.Hour, true, false)
	check("the disk is nearly full", pressedRetention-23*time.Hour, true, true)
	e.ConfirmedAt.BootID = "boot-0"
	check("over a reboot", time.Hour, true, false)
	s.now.Boot = 3 * time.Minute
	check("the machine has just booted", s.rules.Retention-3*time.Minute, true, false)
	e.ConfirmedAt.Wall = s.now.Wall.AddDate(-50, 0, 0)
	check("the clock was set after the boot", s.rules.Retention-3*time.Minute, true, false)
	check("the same, and the disk is nearly full", pressedRetention-3*time.Minute, true, true)
	e.ConfirmedAt.Wall = s.now.Wall.Add(time.Hour)
	check("the clock was set back", 24*time.Hour, true, false)
	e.Left = []Residue{{Class: ClassData}}
	check("data only", 0, false, false)
	if Due(e, s.rules, s.now, true) {
		t.Error("data is due")
	}
}

// TestParkedUnreadable: a parked pod whose directory cannot be looked at stays where it is.
func TestParkedUnreadable(t *testing.T) {
	s := deadScene()
	s.ev.Facts[FactDirectory] = Fact{}
	s.ev.ID = DirID{}
	v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: DirID{1, 2, 3}, Parked: s.parked}, s.rules, s.now)
	if a != nil || v.Decision != ParkedWait {
		t.Errorf("%s, %+v", v.Decision, a)
	}
}

// TestParkedOther: what lies under a parked pod's name and is not what was judged goes back, however
// dead the pod is.
func TestParkedOther(t *testing.T) {
	s := deadScene()
	for _, other := range []DirID{{s.ev.ID.Dev + 1, s.ev.ID.Ino, s.ev.ID.Btime}, {s.ev.ID.Dev, s.ev.ID.Ino + 1, s.ev.ID.Btime}, {s.ev.ID.Dev, s.ev.ID.Ino, s.ev.ID.Btime + 1}} {
		_, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: other, Parked: s.parked}, s.rules, s.now)
		if kindOfAction(a) != PutBack {
			t.Errorf("another directory than %v: %+v", other, a)
		}
	}
}

// TestFinishNeverPutsBack: what is half stripped is finished, or waits; an old kubelet that
// finds a half-cleared directory deletes through its binds.
func TestFinishNeverPutsBack(t *testing.T) {
	for _, phase := range []Phase{PhaseStripping, PhasePurging, PhaseConfirmed} {
		allScenes(func(name string, s *scene) {
			st := EntryState{Entry: "e", UID: testUID, Phase: phase, ID: s.ev.ID, Parked: s.parked}
			_, a := JudgeEntry(s.ev, s.node, st, s.rules, s.now)
			if a != nil && a.Kind == PutBack {
				t.Errorf("%s, %s: put back", phase, name)
			}
			gone := s.ev.Facts[FactDirectory].Truth == No
			if a != nil && !gone && (s.ev.Facts[FactMounted].Truth != No || s.ev.Facts[FactInUse].Truth != No) {
				t.Errorf("%s, %s: %s although mounted or in use, or not known", phase, name, a.Kind)
			}
			if a != nil && a.Take.Has(ClassData) {
				t.Errorf("%s, %s: takes data", phase, name)
			}
		})
	}
}

// TestParkedNotThere: a parked entry that a look does not find, or cannot look for, is not
// on its way to being stripped: it was never confirmed.
func TestParkedNotThere(t *testing.T) {
	s := deadScene()
	for truth, want := range map[Truth]ActionKind{Unknown: "", No: PutBack} {
		s.ev.Facts[FactDirectory].Truth = truth
		_, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: s.ev.ID, Parked: s.parked}, s.rules, s.now)
		if got := kindOfAction(a); got != want {
			t.Errorf("directory %s: %q, want %q", truth, got, want)
		}
	}
}

// TestStripCutShort: a strip that goes on after a crash stops at a sign of life, as a purge
// of what was confirmed does: a static pod comes again with its UID.
func TestStripCutShort(t *testing.T) {
	for _, fact := range []FactName{FactRemade, FactSandbox, FactContainer, FactCgroup, FactKubeletFile, FactKubeletLists} {
		for _, phase := range []Phase{PhaseStripping, PhaseConfirmed, PhasePurging} {
			s := deadScene()
			s.ev.Facts[fact].Truth = Yes
			v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: phase, ID: s.ev.ID}, s.rules, s.now)
			if a != nil || !v.Alive || v.Decision != ParkedConflict {
				t.Errorf("%s, %s: %+v, %+v", fact, phase, v, a)
			}
		}
	}
}

// TestStripCutShortWithoutAPodList: on a node whose kubelet has no pod list to show, a strip
// that was cut short goes on.
func TestStripCutShortWithoutAPodList(t *testing.T) {
	s := deadScene()
	s.ev.Facts[FactKubeletLists] = Fact{}
	v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseStripping, ID: s.ev.ID}, s.rules, s.now)
	if kindOfAction(a) != Strip {
		t.Errorf("%+v, %+v", v, a)
	}
}

func kindOfAction(a *Action) ActionKind {
	if a == nil {
		return ""
	}
	return a.Kind
}

// TestRecordedFailures: what failed and still left a conflict in quarantine is told, and
// what is neither here nor there is not called put back.
func TestRecordedFailures(t *testing.T) {
	o := Outcome{Action: Action{Kind: Park, UID: testUID, Entry: "e"}, Result: Failed, Conflict: "e.conflict"}
	recs := Recorded(o, Node{}, Instant{})
	if len(recs) != 2 || recs[0].Kind != KindFailed || recs[1].Kind != KindConflict || recs[1].Entry != "e.conflict" {
		t.Errorf("a conflict in quarantine that the ledger does not know: %+v", recs)
	}
	o = Outcome{Action: Action{Kind: PutBack, UID: testUID, Entry: "e"}, Result: Gone}
	if recs := Recorded(o, Node{}, Instant{}); recs[0].Kind != KindRemoved {
		t.Errorf("not found, and told as %s", recs[0].Kind)
	}
}
