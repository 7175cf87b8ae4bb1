package policy

import (
	"strings"
	"time"
)

// startsWithin is how young a pod directory is that a starting pod may have: its cgroup is made
// before its directory, and no process is in it until its volumes are mounted.
const startsWithin = 10 * time.Minute

// notRunning recognises a pod of which there is a cgroup and no process in it: it waits for a
// volume, or it is dead and the kubelet cannot finish. A kubelet keeps the cgroup of a dead pod
// for as long as one of its volumes is mounted (kubelet_pods.go, HandlePodCleanups: "Orphaned
// pod found, but volumes not yet removed", at V(3)), and names no pod in which something is
// mounted. So nothing but this tells of it. It is kept all the same; what changes is that it is
// not said to live.
//
// Whoever lists the pod, and whatever may run, says that it lives.
func (j *judgement) notRunning() {
	e, n, now := &j.e, j.n, j.now
	f := &e.Facts
	if f[FactCgroup].Truth != Yes || !e.CgroupIdle || n.Kubelet.Truth != Yes {
		return
	}
	for _, lists := range [...]FactName{FactKubeletLists, FactAPILists, FactPodLogs, FactPodResources} {
		if f[lists].Truth == Yes {
			return
		}
	}
	if f[FactStaticPod].Truth != No || f[FactContainer].Truth == Unknown {
		return
	}
	if f[FactSandbox].Truth != No && !e.stopped() || f[FactSandbox].Truth == No && f[FactContainer].Truth == Yes {
		return
	}
	up, ok := now.Since(Instant{BootID: now.BootID, Boot: n.KubeletID.Start})
	if !ok || up < max(j.r.Settle, startsWithin) || e.Changed.IsZero() || now.Wall.Sub(e.Changed) < startsWithin {
		return
	}
	j.object(Keep, ReasonNotRunning, "no process is in its cgroup, no container of it runs, and no list has it", 0)
}

// unmounting adds to the reason mounted how to take the mount away, unless the pod lives.
func (v *Verdict) unmounting(command string) {
	if command == "" || v.Living() {
		return
	}
	for i := range v.Why {
		if v.Why[i].Reason == ReasonMounted {
			v.Why[i].Detail += "; if the pod is gone: " + command
		}
	}
}

// UmountCommand is the command that takes a mount away that a process sees, "" where the path
// is none that a person should copy.
func UmountCommand(path, pid string) string {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '\\' || r > '~' }) {
		return ""
	}
	quoted := "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	if pid == "1" {
		return "umount " + quoted
	}
	return "nsenter -t " + pid + " -m umount " + quoted
}
