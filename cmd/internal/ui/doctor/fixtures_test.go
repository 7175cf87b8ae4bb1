package doctor

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

var testNow = time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)

const (
	uidReap     parsers.PodUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"
	uidHold     parsers.PodUID = "0badf00d-0002-4aaa-8bbb-cccc00000002"
	uidMounted  parsers.PodUID = "0badf00d-0003-4aaa-8bbb-cccc00000003"
	uidAlive    parsers.PodUID = "0badf00d-0004-4aaa-8bbb-cccc00000004"
	uidHeld     parsers.PodUID = "0badf00d-0006-4aaa-8bbb-cccc00000006"
	uidConflict parsers.PodUID = "0badf00d-0007-4aaa-8bbb-cccc00000007"
)

// deadFacts are the facts about a dead pod.
func deadFacts() policy.Facts {
	var f policy.Facts
	for n := range policy.NumFacts {
		f.Set(n, policy.No, "/proc", "")
	}
	for _, n := range []policy.FactName{policy.FactDirectory, policy.FactNamed, policy.FactAnyNamed, policy.FactContent} {
		f.Set(n, policy.Yes, "/var/lib/kubelet", "")
	}
	for _, n := range []policy.FactName{policy.FactKubeletLists, policy.FactAPILists, policy.FactReleased} {
		f.Set(n, policy.Unknown, "", "not asked")
	}
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
		r.Pods = append(r.Pods, policy.Judged{Evidence: e, Verdict: policy.Verdict{Decision: d, Why: why, Due: due}})
	}
	r.Look.Node.Kubelet = policy.Fact{Truth: policy.Yes, Origin: "/proc/812", Detail: "running since 2026-11-18 03:00:00 UTC"}
	r.Look.Node.KubeletID = policy.KubeletID{PID: 812, Start: time.Minute}
	r.Look.Node.RuntimeLists = policy.Fact{Truth: policy.Yes, Origin: "unix:///run/containerd/containerd.sock"}
	r.Look.Node.Agrees = policy.Fact{Truth: policy.Yes}
	r.Look.Node.MayEnforce = policy.Fact{Truth: policy.Yes, Origin: "/proc/1/mountinfo"}
	add(evidence(uidReap, "default", "web-0", skeleton, volData, projected), policy.Reap, 0)
	add(evidence(uidHold, "batch", "job-with-a-name-that-is-rather-long-29k4x", skeleton, scratch), policy.Wait, 190*time.Second,
		policy.Why{Reason: policy.ReasonHold, Detail: "the evidence has been good for 1m50s of 5m0s"})
	e := evidence(uidMounted, "db", "postgres-1", skeleton, projected, data)
	e.Facts.Set(policy.FactMounted, policy.Yes, "/proc/3150/mountinfo",
		"/var/lib/kubelet/pods/"+string(uidMounted)+"/volumes/kubernetes.io~local-volume/pgdata")
	e.Unmount = "orphan-reaper unmount " + string(uidMounted)
	e.Facts.Set(policy.FactTeardown, policy.Yes, "log of the kubelet, PID 812", "the kubelet's volume manager cannot tear down pgdata")
	e.Facts.Set(policy.FactInUse, policy.Unknown, "/proc", "cannot read /proc/4242/fd: permission denied")
	add(e, policy.Keep, 0,
		policy.Why{Reason: policy.ReasonMounted, Detail: e.Facts[policy.FactMounted].Detail + policy.Unmounting(e.Unmount)},
		policy.Why{Reason: policy.ReasonKubeletHolds, Detail: e.Facts[policy.FactTeardown].Detail},
		policy.Why{Reason: policy.ReasonInUse, Detail: e.Facts[policy.FactInUse].Detail})
	e = evidence(uidAlive, "kube-system", "cilium-x2b9q", skeleton)
	e.Facts.Set(policy.FactSandbox, policy.Yes, "unix:///run/containerd/containerd.sock", "sandbox 9f2c, ready")
	e.Facts.Set(policy.FactCgroup, policy.Yes, "/sys/fs/cgroup/kubepods.slice", "kubepods-burstable.slice")
	add(e, policy.Keep, 0,
		policy.Why{Reason: policy.ReasonSandbox, Detail: "sandbox 9f2c, ready"},
		policy.Why{Reason: policy.ReasonCgroup, Detail: "kubepods-burstable.slice"})
	return r
}

// at is a moment of a boot that began long ago.
func at(ago time.Duration) policy.Instant {
	return policy.Instant{Wall: testNow.Add(-ago), BootID: "b", Boot: 1000*time.Hour - ago}
}

// only leaves the pods of some UIDs in a report, as a survey of them does.
func only(r reaper.Report, uids ...parsers.PodUID) reaper.Report {
	var out reaper.Report
	out.Look.Node = r.Look.Node
	for _, p := range r.Pods {
		if slices.Contains(uids, p.UID) {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}

func uidFrom(s string) parsers.PodUID {
	uid, ok := parsers.ParsePodUID(s)
	if !ok {
		panic("no UID: " + s)
	}
	return uid
}
