package parsers

import (
	"strconv"
	"strings"
)

// parseTeardown parses the errors of operations that remove a volume from a pod. They show that the kubelet's volume
// manager still has the volume:
//
//	Operation for "KEY" failed. No retries permitted until T (durationBeforeRetry 4s). Error: DETAIL
//	operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) for volume … : DETAIL
//	volumeHandler.UnmountVolumeHandler for UnmountVolume failed for volume … : DETAIL
//	UnmountVolume.TearDown failed for volume "V" (UniqueName: "U") pod "P" (UID: "UID") : error
//
// KEY names the pod too ({volumeName:… podName:UID nodeName:}, or older "\"…\" (\"UID\")").
// DETAIL is the last form, plain or quoted by Go as a whole.
func parseTeardown(c *call) (Sighting, bool) {
	msg := c.Msg
	if err, ok := c.get("err"); ok && c.File == "nestedpendingoperations.go" {
		msg = err.Value
	}
	if rest, ok := strings.CutPrefix(msg, "Operation for "); ok {
		return teardownOperation(rest)
	}
	return teardownDetail(msg)
}

func teardownOperation(s string) (Sighting, bool) {
	if !strings.HasPrefix(s, `"`) {
		return Sighting{}, false
	}
	quoted, rest, cut := cutQuoted(s)
	key, err := strconv.Unquote(quoted)
	if cut || err != nil {
		return Sighting{}, false
	}
	rest, ok := strings.CutPrefix(rest, " failed. ")
	if !ok {
		return Sighting{}, false
	}
	// Up to the error there are only the kubelet's times.
	_, detail, ok := strings.Cut(rest, "Error: ")
	if !ok {
		return Sighting{}, false
	}
	if strings.HasPrefix(detail, `"`) {
		quoted, _, _ := cutQuoted(detail)
		detail = unquotePart(quoted)
	}
	rep, ok := teardownDetail(detail)
	if !ok {
		return Sighting{}, false
	}
	if uid, ok := keyPod(key); ok && uid != rep.UID {
		return Sighting{}, false
	}
	return rep, true
}

func keyPod(key string) (PodUID, bool) {
	if i := strings.LastIndex(key, " podName:"); i >= 0 {
		name, _, _ := strings.Cut(key[i+len(" podName:"):], " ")
		return ParsePodUID(name)
	}
	name, ok := strings.CutSuffix(key, `")`)
	i := strings.LastIndex(name, ` ("`)
	if !ok || i < 0 {
		return "", false
	}
	return ParsePodUID(name[i+len(` ("`):])
}

// teardownStarts are the beginnings of a failed operation's text. MountVolume and attach errors are not among them: they
// are about pods that start.
var teardownStarts = [...]string{
	"UnmountVolume.", "UnmapVolume.",
	"operationExecutor.UnmountVolume failed", "operationExecutor.UnmapVolume failed",
	"volumeHandler.UnmountVolumeHandler for UnmountVolume failed",
	"volumeHandler.UnmountVolumeHandler for UnmapVolume failed",
	"error cleaning subPath mounts",
}

func teardownDetail(s string) (Sighting, bool) {
	var start string
	for _, p := range teardownStarts {
		if strings.HasPrefix(s, p) {
			start = p
		}
	}
	if start == "" {
		return Sighting{}, false
	}
	// Nothing up to the volume's quoted name comes from a pod.
	head, rest, ok := strings.Cut(s, " for volume ")
	failed := start == "error cleaning subPath mounts" || strings.Contains(head, " failed")
	if !ok || !failed || strings.Contains(head, `"`) {
		return Sighting{}, false
	}
	volume, rest, ok := cutVolume(rest)
	if !ok || !strings.HasPrefix(rest, `"`) {
		return Sighting{}, false
	}
	quoted, rest, cut := cutQuoted(rest)
	rest, ok = strings.CutPrefix(rest, " (UID: ")
	if cut || !ok {
		return Sighting{}, false
	}
	uid, rest, ok := cutUID(rest)
	if !ok || !strings.HasPrefix(rest, ")") || namesOther(rest, uid) {
		return Sighting{}, false
	}
	if pod, ok := ParsePodUID(strings.Trim(quoted, `"`)); ok && pod != uid {
		return Sighting{}, false
	}
	return Sighting{
		UID: uid, Report: ReportTeardown, Count: NoCount, Path: volumePath(rest, uid),
		Volume: volume, Leaf: notEmpty(rest, uid),
	}, true
}

// cutVolume removes a volume's two names, up to its pod, and returns the kubelet's name for it:
//
//	"pvc-1" (UniqueName: "kubernetes.io/csi/x") pod…
//	"kubernetes.io/secret/UID-t" (volume.spec.Name: "t") pod…
//	"kubernetes.io/secret/UID-t" (spec.Name: "t") pod…
func cutVolume(s string) (volume, rest string, ok bool) {
	volume, s, ok = cutLeadQuoted(s, "")
	for _, lead := range [...]string{" (UniqueName: ", " (volume.spec.Name: ", " (spec.Name: "} {
		if name, r, found := cutLeadQuoted(s, lead); ok && found {
			if lead == " (UniqueName: " {
				volume = name
			}
			rest, ok = strings.CutPrefix(r, ") pod ")
			return volume, rest, ok
		}
	}
	return "", "", false
}

// cutLeadQuoted removes lead and a quoted string from the front of s.
func cutLeadQuoted(s, lead string) (quoted, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, lead)
	if !ok || !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	quoted, rest, cut := cutQuoted(s)
	return strings.Trim(quoted, `"`), rest, !cut
}

// notEmpty returns the directory, relative to the pod directory, that could not be removed because it was not empty, and
// "" for any other error. The error is os.Remove's, alone or at the end of a plugin's message, and the line must be
// complete:
//
//	remove /var/lib/kubelet/pods/UID/volumes/kubernetes.io~nfs/VOLUME: directory not empty
//	… failed to remove dir […/VOLUME/mount]: remove …/kubernetes.io~csi/VOLUME/mount: directory not empty
func notEmpty(s string, uid PodUID) string {
	s, ok := strings.CutSuffix(strings.TrimRight(s, " "), ": directory not empty")
	i := strings.LastIndex(s, "remove /")
	if !ok || i < 0 {
		return ""
	}
	_, leaf, _ := strings.Cut(s[i:], "/pods/"+string(uid)+"/")
	return leaf
}
