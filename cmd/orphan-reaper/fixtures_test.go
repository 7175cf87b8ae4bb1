package main

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
)

var testNow = time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)

const (
	uidReap     parsers.PodUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"
	uidHold     parsers.PodUID = "0badf00d-0002-4aaa-8bbb-cccc00000002"
	uidMounted  parsers.PodUID = "0badf00d-0003-4aaa-8bbb-cccc00000003"
	uidAlive    parsers.PodUID = "0badf00d-0004-4aaa-8bbb-cccc00000004"
	uidStatic   parsers.PodUID = "4d145df0c0ffee00decafbad4d145df0"
	uidParked   parsers.PodUID = "0badf00d-0005-4aaa-8bbb-cccc00000005"
	uidHeld     parsers.PodUID = "0badf00d-0006-4aaa-8bbb-cccc00000006"
	uidConflict parsers.PodUID = "0badf00d-0007-4aaa-8bbb-cccc00000007"
	uidGone     parsers.PodUID = "0badf00d-0008-4aaa-8bbb-cccc00000008"

	uidForgot parsers.PodUID = "0badf00d-0010-4aaa-8bbb-cccc00000010"
)

// deadFacts is the evidence of a pod that nobody wants.
func deadFacts() policy.Facts {
	var f policy.Facts
	f.Set(policy.FactDirectory, policy.Yes, "/var/lib/kubelet/pods", "")
	f.Set(policy.FactOwnMount, policy.No, "/var/lib/kubelet/pods", "")
	f.Set(policy.FactMounted, policy.No, "mountinfo of 37 mount namespaces", "")
	f.Set(policy.FactSandbox, policy.No, "unix:///run/containerd/containerd.sock", "12 sandboxes listed")
	f.Set(policy.FactContainer, policy.No, "unix:///run/containerd/containerd.sock", "30 containers listed")
	f.Set(policy.FactCgroup, policy.No, "/sys/fs/cgroup/kubepods.slice", "")
	f.Set(policy.FactNamed, policy.Yes, "log of the kubelet, PID 812", "")
	f.Set(policy.FactAnyNamed, policy.Yes, "log of the kubelet, PID 812", "2 orphans named since its start")
	f.Set(policy.FactTeardown, policy.No, "log of the kubelet, PID 812", "")
	f.Set(policy.FactKubeletFile, policy.No, "/var/lib/kubelet", "")
	f.Set(policy.FactKubeletLists, policy.Unknown, "/proc/812", "not asked: the kubelet has no read-only port")
	f.Set(policy.FactAPILists, policy.Unknown, "", "not asked: no API server was named")
	f.Set(policy.FactReleased, policy.Unknown, "", "nobody gave a list that is known to be whole")
	f.Set(policy.FactStaticPod, policy.No, "/etc/kubernetes/manifests", "")
	f.Set(policy.FactStaged, policy.No, "/var/lib/kubelet/plugins", "")
	f.Set(policy.FactInUse, policy.No, "/proc", "214 processes")
	f.Set(policy.FactRestored, policy.No, "ledger", "")
	f.Set(policy.FactContent, policy.Yes, "/var/lib/kubelet/pods", "")
	return f
}

func evidence(uid parsers.PodUID, namespace, name string, residue ...policy.Residue) policy.Evidence {
	return policy.Evidence{
		Name: string(uid), UID: uid, Namespace: namespace, PodName: name, Facts: deadFacts(),
		Changed: testNow.Add(-26 * time.Hour), Residue: residue,
	}
}

var (
	skeleton  = policy.Residue{Path: "etc-hosts", Class: contents.ClassSkeleton, Bytes: 4096, Entries: 1}
	volData   = policy.Residue{Path: "volumes/kubernetes.io~csi/pvc-1/vol_data.json", Class: contents.ClassSkeleton, Bytes: 4096, Entries: 1}
	projected = policy.Residue{Path: "volumes/kubernetes.io~projected/kube-api-access-x7x2k", Class: contents.ClassProjected, Bytes: 12288, Entries: 7}
	scratch   = policy.Residue{Path: "volumes/kubernetes.io~empty-dir/cache", Class: contents.ClassEphemeral, Bytes: 73400320, Entries: 1200}
	data      = policy.Residue{
		Path:  "volumes/kubernetes.io~local-volume/pgdata-with-a-name-that-is-much-longer-than-a-line-holds",
		Class: contents.ClassData, Bytes: 5 << 30, Entries: 90000, Partial: true,
	}
)

// testReport holds one pod of every kind that is shown in a way of its own.
func testReport() reaper.Report {
	var r reaper.Report
	add := func(e policy.Evidence, d policy.Decision, due time.Duration, why ...policy.Why) {
		r.Look.Pods = append(r.Look.Pods, e)
		r.Verdicts = append(r.Verdicts, policy.Verdict{UID: e.UID, Name: e.Name, Decision: d, Why: why, Due: due})
	}
	r.Look.Node.Kubelet = policy.Fact{Truth: policy.Yes, Origin: "/proc/812", Detail: "running since 2026-11-18 03:00:00 UTC"}
	r.Look.Node.KubeletID = policy.KubeletID{PID: 812, Start: time.Minute}
	r.Look.Node.RuntimeLists = policy.Fact{Truth: policy.Yes, Origin: "unix:///run/containerd/containerd.sock"}
	r.Look.Node.Agrees = policy.Fact{Truth: policy.Yes}
	r.Look.Node.MayEnforce = policy.Fact{Truth: policy.Yes, Origin: "/proc/1/mountinfo"}
	r.Means = policy.Means{
		Openat2:  policy.Fact{Truth: policy.Yes, Detail: "the kernel stops each step at a mount"},
		Landlock: policy.Fact{Truth: policy.No, Detail: "ABI 1 cannot allow a rename between directories; ABI 2 (Linux 5.19) is needed"},
	}
	r.Look.Node.Gauges = policy.KubeletGauges{
		Origin: "https://127.0.0.1:10250/metrics", CleanedVolumes: new(int64(4)), Uncleaned: new(int64(7)), OrphanedRuntimePods: new(int64(0)),
		Working: []policy.WorkingPods{{Lifecycle: "sync", Config: "desired", Static: "true", Count: 4}},
	}
	r.Look.Errors = []string{"cannot read /proc/4242/mountinfo: permission denied"}

	add(evidence(uidReap, "default", "web-0", skeleton, volData, projected), policy.Reap, 0)
	add(evidence(uidHold, "batch", "job-with-a-name-that-is-rather-long-29k4x", skeleton, scratch), policy.Wait, 190*time.Second,
		policy.Why{Reason: policy.ReasonHold, Detail: "the evidence has been good for 1m50s of 5m0s"})
	e := evidence(uidMounted, "db", "postgres-1", skeleton, projected, data)
	e.Facts.Set(policy.FactMounted, policy.Yes, "/proc/3150/mountinfo",
		"/var/lib/kubelet/pods/"+string(uidMounted)+"/volumes/kubernetes.io~local-volume/pgdata")
	e.Umount = "umount '/var/lib/kubelet/pods/" + string(uidMounted) + "/volumes/kubernetes.io~local-volume/pgdata'"
	e.Facts.Set(policy.FactTeardown, policy.Yes, "log of the kubelet, PID 812", "the kubelet's volume manager cannot tear down pgdata")
	e.Facts.Set(policy.FactInUse, policy.Unknown, "/proc", "cannot read /proc/4242/fd: permission denied")
	add(e, policy.Keep, 0,
		policy.Why{Reason: policy.ReasonMounted, Detail: e.Facts[policy.FactMounted].Detail + policy.Unmounting(e.Umount)},
		policy.Why{Reason: policy.ReasonKubeletHolds, Detail: e.Facts[policy.FactTeardown].Detail},
		policy.Why{Reason: policy.ReasonInUse, Detail: e.Facts[policy.FactInUse].Detail})
	e = evidence(uidAlive, "kube-system", "cilium-x2b9q", skeleton)
	e.Facts.Set(policy.FactSandbox, policy.Yes, "unix:///run/containerd/containerd.sock", "sandbox 9f2c, ready")
	e.Facts.Set(policy.FactCgroup, policy.Yes, "/sys/fs/cgroup/kubepods.slice", "kubepods-burstable.slice")
	add(e, policy.Keep, 0,
		policy.Why{Reason: policy.ReasonSandbox, Detail: "sandbox 9f2c, ready"},
		policy.Why{Reason: policy.ReasonCgroup, Detail: "kubepods-burstable.slice"})
	add(evidence(uidStatic, "", "", skeleton), policy.Keep, 0, policy.Why{Reason: policy.ReasonObserve, Detail: "mode observe changes nothing"})
	add(policy.Evidence{Name: "lost+found\x1b[2J"}, policy.Keep, 0, policy.Why{Reason: policy.ReasonInvalidUID, Detail: "the name is no pod UID"})

	parked := evidence(uidParked, "default", "worker-7", skeleton)
	parked.Entry = string(uidParked)
	parked.Facts.Set(policy.FactRemade, policy.No, "/var/lib/kubelet/pods", "")
	r.Look.Parked = []policy.Evidence{parked}
	r.Parked = []policy.Verdict{{
		Decision: policy.Wait,
		Why:      []policy.Why{{Reason: policy.ReasonConfirm, Detail: "parked 30s ago, a sign of life may come for 2m0s"}},
	}}
	r.Entries = testEntries()
	r.CNI = new(testCNI())
	return r
}

// testCNI is what a sweep over the CNI directories may find.
func testCNI() cni.Report {
	r := cni.Report{Census: cni.NewCensus()}
	add := func(f cni.File, d policy.Decision, why ...policy.Why) {
		f.ID.Size = 1536
		v := policy.Verdict{UID: f.UID, Name: f.Name, Decision: d, Why: why}
		r.Files, r.Verdicts = append(r.Files, f), append(r.Verdicts, v)
		r.Census.Judged(&f, v)
	}
	id := strings.Repeat("0af1", 16)
	add(cni.File{
		Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: "cbr0-" + id + "-eth0", Container: id, Network: "cbr0",
		UID: uidReap, Namespace: "default", PodName: "web-0",
	}, policy.Reap)
	add(cni.File{
		Kind: cni.Address, Dir: "/var/lib/cni/networks/cbr0", Name: "10.88.0.7", Container: id, Network: "cbr0",
	}, policy.Keep, policy.Why{Reason: policy.ReasonNetns, Detail: "/run/netns/cni-5a1f is still there"})
	add(cni.File{
		Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: "cbr0-" + strings.Repeat("77aa", 16) + "-eth0",
		Container: strings.Repeat("77aa", 16), Network: "cbr0", Broken: true, Runtime: "containerd 1.6.20",
	}, policy.Wait, policy.Why{Reason: policy.ReasonYoung, Detail: "changed 2h0m0s ago, less than 24h0m0s"})
	add(cni.File{
		Kind: cni.Address, Dir: "/var/lib/cni/networks/podman", Name: "10.89.0.2", Container: strings.Repeat("c0de", 16), Network: "podman",
	}, policy.Keep, policy.Why{Reason: policy.ReasonForeign, Detail: "no network configuration names podman"})
	return r
}

// at is a moment of a boot that began long ago.
func at(ago time.Duration) policy.Instant {
	return policy.Instant{Wall: testNow.Add(-ago), BootID: "b", Boot: 1000*time.Hour - ago}
}

func testEntries() []policy.EntryState {
	waived := []policy.Why{{Reason: policy.ReasonWaived, Detail: "--runtime-endpoint none: no kubelet and no runtime were asked"}}
	return []policy.EntryState{
		{
			Entry: string(uidParked), UID: uidParked, Phase: policy.PhaseParked, Namespace: "default", PodName: "worker-7",
			Parked: policy.Parked{At: at(30 * time.Second)}, Left: []policy.Residue{skeleton},
		},
		{
			Entry: string(uidHeld), UID: uidHeld, Phase: policy.PhaseConfirmed, Namespace: "batch", PodName: "etl-1", Why: waived,
			Parked: policy.Parked{At: at(22 * time.Hour)}, ConfirmedAt: at(21 * time.Hour), Left: []policy.Residue{scratch, data},
			Taken:   map[string]policy.Tally{"skeleton": {Entries: 4, Bytes: 12288}, "projected": {Entries: 7, Bytes: 12288}},
			VolData: map[string]string{volData.Path: `{"driverName":"ebs.csi.aws.com","volumeHandle":"vol-0abc"}` + "\n"},
		},
		{
			Entry: string(uidConflict) + ".conflict", UID: uidConflict, Phase: policy.PhaseConflict, Parked: policy.Parked{At: at(72 * time.Hour)},
			Left: []policy.Residue{scratch},
		},
		{
			Entry: string(uidGone), UID: uidGone, Phase: policy.PhaseGone, Namespace: "default", PodName: "old-1",
			Taken: map[string]policy.Tally{"skeleton": {Entries: 2, Bytes: 8192}},
		},
	}
}

// testPods are the pods that the fake node knows, as app.PodsHere lists them. Who told a name is
// known of what is on disk; only of uidMounted it is etc-hosts.
func testPods(past bool) []app.Pod {
	var pods []app.Pod
	r := testReport()
	for i, e := range r.Look.Pods {
		pod := app.Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName), Certain: e.UID != uidMounted, Where: "on disk"}
		if r.Verdicts[i].Living() {
			pod.Where += ", lives"
		}
		if e.UID != "" {
			pods = append(pods, pod)
		}
	}
	for _, e := range r.Entries {
		if e.Phase.InQuarantine() {
			pods = append(pods, app.Pod{UID: e.UID, Name: policy.FullName(e.Namespace, e.PodName), Where: "in quarantine", Entry: e.Entry})
		}
	}
	if past {
		pods = append(pods, app.Pod{UID: uidLongGone, Name: "shop/cart-0", Where: "in the ledger", Past: true},
			app.Pod{UID: uidForgot, Name: "default/web-0", Where: "in the ledger", Past: true})
	}
	return pods
}

// only leaves the pods of some UIDs in a report, as a survey of them does.
func only(r reaper.Report, uids ...parsers.PodUID) reaper.Report {
	var out reaper.Report
	out.Look.Node, out.Means = r.Look.Node, r.Means
	for i, e := range r.Look.Pods {
		if slices.Contains(uids, e.UID) {
			out.Look.Pods, out.Verdicts = append(out.Look.Pods, e), append(out.Verdicts, r.Verdicts[i])
		}
	}
	for i, e := range r.Look.Parked {
		if slices.Contains(uids, e.UID) {
			out.Look.Parked, out.Parked = append(out.Look.Parked, e), append(out.Parked, r.Parked[i])
		}
	}
	out.Entries = r.Entries
	return out
}

func uidFrom(s string) parsers.PodUID {
	uid, ok := parsers.ParsePodUID(s)
	if !ok {
		panic("no UID: " + s)
	}
	return uid
}

const uidLongGone parsers.PodUID = "0badf00d-0009-4aaa-8bbb-cccc00000009"

// testHistory is what the ledger has of a pod that was taken, put back, and taken again.
func testHistory(uid parsers.PodUID) []policy.Record {
	if uid == uidForgot {
		return []policy.Record{{Kind: policy.KindForgotten, UID: uid, Entry: string(uid), At: policy.Instant{Wall: testNow.Add(-time.Hour)}}}
	}
	if uid != uidLongGone && uid != uidHeld {
		return nil
	}
	at := func(d time.Duration) policy.Instant { return policy.Instant{Wall: testNow.Add(-d)} }
	r := policy.Record{UID: uid, Namespace: "shop", PodName: "cart-0", Entry: string(uid)}
	parked, back, again, removed := r, r, r, r
	parked.Seq, parked.Kind, parked.At, parked.Undo = 11, policy.KindParked, at(400*time.Hour), "orphan-reaper quarantine restore "+string(uid)
	parked.By = &who.Person{UID: new(uint32(1000)), Login: "alice", SudoUser: "alice"}
	back.Seq, back.Kind, back.At, back.Why = 14, policy.KindPutBack, at(399*time.Hour),
		[]policy.Why{{Reason: policy.ReasonMounted, Detail: "process 812 mounts it"}}
	again.Seq, again.Kind, again.At = 90, policy.KindParked, at(300*time.Hour)
	removed.Seq, removed.Kind, removed.At = 93, policy.KindRemoved, at(299*time.Hour)
	removed.Taken = map[string]policy.Tally{"skeleton": {Entries: 4, Bytes: 16384}}
	removed.VolData = map[string]string{"volumes/kubernetes.io~csi/pvc-1/vol_data.json": "{}"}
	return []policy.Record{parked, back, again, removed}
}
