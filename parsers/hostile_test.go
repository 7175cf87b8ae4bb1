package parsers

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

const otherUID = "0bba3f2e-6a0c-4d55-9a55-0c7b1f0c7f11"

func parse(s string) (Sighting, bool) { return ParseLine(Line{Text: []byte(s)}) }

// hostile returns lines that contain the text of a report but are not reports.
func hostile() map[string]string {
	const at = "Aug 31 14:21:49 mgt02 "
	old := `E0831 14:21:49.324206 2240370 kubelet_volumes.go:154] Orphaned pod "` + testUID + `" found, but volume paths are still present on disk : There were a total of 1 errors similar to this. Turn up verbosity to see them.`
	newer := `E0831 14:21:49.324206 2240370 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + testUID + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1`
	head := "E0831 14:21:49.324206 2240370 "
	object := `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","numErrs":1,"err":"orphaned pod \"` + testUID + `\" found, but error occurred when trying to remove the volumes dir: not a directory"}`
	q := strconv.Quote
	conflict := strings.Replace(newer, "error occurred when trying to remove the volumes dir: not a directory", "failed to rmdir() volume at path /var/lib/kubelet/pods/"+otherUID+"/volumes/x~y/z: directory not empty", 1)
	lines := map[string]string{
		"two UIDs, rmdir":             conflict,
		"two UIDs, rmdir in JSON":     strings.Replace(object, "error occurred when trying to remove the volumes dir: not a directory", "failed to rmdir() volume at path /var/lib/kubelet/pods/"+otherUID+"/volumes/x~y/z: directory not empty", 1),
		"two UIDs, old text":          head + `kubelet_volumes.go:159] Orphaned pod "` + testUID + `" found, but error open /var/lib/kubelet/pods/` + otherUID + `/volumes: no such file or directory occured during reading volume dir from disk`,
		"two UIDs, dir":               head + `kubelet_volumes.go:147] Failed to remove orphaned pod "` + testUID + `" dir; err: remove /var/lib/kubelet/pods/` + otherUID + `/x: busy`,
		"two UIDs, windows":           head + `kubelet_volumes.go:263] "Orphan pod" err="orphaned pod \"` + testUID + `\" found, but failed to rmdir() volume at path c:\\var\\lib\\kubelet\\pods\\` + otherUID + `\\volumes\\x: The directory is not empty."`,
		"two UIDs, err and podUID":    newer + ` podUID="` + otherUID + `"`,
		"two UIDs, podUID and path":   head + `kubelet_volumes.go:163] "Failed to remove orphaned pod subdir" err="busy" podUID="` + testUID + `" path="/var/lib/kubelet/pods/` + otherUID + `/plugins"`,
		"two UIDs, podUID and err":    head + `kubelet_volumes.go:163] "Failed to remove orphaned pod dir" err="remove /var/lib/kubelet/pods/` + otherUID + `/x: busy" podUID="` + testUID + `"`,
		"two podUIDs":                 head + `kubelet_volumes.go:163] "Failed to remove orphaned pod dir" err="busy" podUID="` + testUID + `" podUID="` + otherUID + `"`,
		"two errs":                    newer + ` err="orphaned pod \"` + otherUID + `\" found, but error occurred when trying to remove the volumes dir: not a directory"`,
		"two UIDs, upper case path":   strings.ReplaceAll(conflict, otherUID, strings.ToUpper(testUID)),
		"two reports":                 strings.TrimSuffix(old, ".") + ` Orphaned pod "` + otherUID + `" found, but volume paths are still present on disk`,
		"JSON err and podUID":         strings.TrimSuffix(object, "}") + `,"podUID":"` + otherUID + `"}`,
		"JSON two errs":               strings.TrimSuffix(object, "}") + `,"err":"orphaned pod \"` + otherUID + `\" found, but x"}`,
		"JSON two msgs":               strings.TrimSuffix(object, "}") + `,"msg":"other"}`,
		"wrong file":                  strings.Replace(old, "kubelet_volumes", "evil_volumes", 1),
		"wrong file, suffix":          strings.Replace(old, "kubelet_volumes", "my_kubelet_volumes", 1),
		"wrong file, folder":          strings.Replace(old, "kubelet_volumes", "evil/kubelet_volumes", 1),
		"wrong file, case":            strings.Replace(old, "kubelet_volumes", "Kubelet_Volumes", 1),
		"wrong file, extension":       strings.Replace(old, "kubelet_volumes.go", "kubelet_volumes.py", 1),
		"wrong file, structured":      strings.Replace(newer, "kubelet_volumes", "nodeserver", 1),
		"wrong file of the kubelet":   strings.Replace(old, "kubelet_volumes", "prober", 1),
		"wrong file, pods":            strings.Replace(newer, "kubelet_volumes", "kubelet_pods", 1),
		"no line number":              strings.Replace(old, ".go:154]", ".go]", 1),
		"line number no number":       strings.Replace(old, ".go:154]", ".go:1a]", 1),
		"no bracket":                  strings.Replace(old, ".go:154]", ".go:154", 1),
		"severity":                    "X" + old[1:],
		"lower-case severity":         "e" + old[1:],
		"no pid":                      strings.Replace(old, " 2240370", "", 1) + " ",
		"space before header":         " " + old,
		"tab before header":           "\t" + old,
		"tab, structured":             "\t" + newer,
		"tab, fragment":               "\torphaned pod \"" + testUID + "\" found, but error occurred when trying to remove the volumes dir: not a directory",
		"spaces, fragment":            "  orphaned pod \"" + testUID + "\" found, but error occurred when trying to remove the volumes dir: not a directory",
		"end of block":                ` > numErrs=1 err="orphaned pod \"` + testUID + `\" found, but x"`,
		"no quotes":                   head + `kubelet_volumes.go:154] orphaned pod ` + testUID + ` found, but volume paths are still present on disk`,
		"single quotes":               head + `kubelet_volumes.go:154] orphaned pod '` + testUID + `' found, but volume paths are still present on disk`,
		"curly quotes":                head + `kubelet_volumes.go:154] orphaned pod “` + testUID + `” found, but volume paths are still present on disk`,
		"upper case":                  head + `kubelet_volumes.go:154] ORPHANED POD "` + testUID + `" FOUND, BUT VOLUME PATHS ARE STILL PRESENT ON DISK`,
		"two spaces":                  head + `kubelet_volumes.go:154] Orphaned  pod "` + testUID + `" found, but volume paths are still present on disk`,
		"removing":                    head + `kubelet_volumes.go:145] Orphaned pod "` + testUID + `" found, removing`,
		"removing cgroups":            head + `kubelet_pods.go:1708] Orphaned pod "` + testUID + `" found, removing pod cgroups`,
		"removing, structured":        head + `kubelet_volumes.go:163] "Orphaned pod found, removing" podUID="` + testUID + `"`,
		"cleaned up":                  head + `kubelet_volumes.go:163] "Cleaned up orphaned pod volumes dir" podUID="` + testUID + `" path="/var/lib/kubelet/pods/` + testUID + `/volumes"`,
		"cleaned up volume":           head + `kubelet_volumes.go:139] Cleaned up orphaned volume from pod "` + testUID + `" at /x`,
		"not orphaned":                head + `kubelet_volumes.go:69] pod "` + testUID + `" found, but volumes are still mounted on disk [/x]`,
		"not orphaned, structured":    head + `kubelet_volumes.go:92] "Pod found, but volumes are still mounted on disk" podUID="` + testUID + `" paths=["x"]`,
		"aggregate":                   head + `kubelet_pods.go:1215] "Failed cleaning up orphaned pod directories" err="[orphaned pod \"` + testUID + `\" found, but error occurred when trying to remove the pod directory: busy]"`,
		"aggregate, plain":            head + `kubelet_pods.go:1215] Failed cleaning up orphaned pod directories: orphaned pod "` + testUID + `" found, but x`,
		"path only":                   head + `kubelet_volumes.go:154] remove /var/lib/kubelet/pods/` + testUID + `/containers/main: device or resource busy : There were a total of 1 errors similar to this. Turn up verbosity to see them.`,
		"err does not start with it":  head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="x orphaned pod \"` + testUID + `\" found, but y" numErrs=1`,
		"err without quotes":          head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=orphaned pod "` + testUID + `" found, but y numErrs=1`,
		"another key":                 head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." error="orphaned pod \"` + testUID + `\" found, but y" numErrs=1`,
		"key inside a value":          head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." note="x err=\"orphaned pod \\\"` + testUID + `\\\" found, but y\"" numErrs=1`,
		"message with suffix":         strings.Replace(newer, `to see them."`, `to see them. x"`, 1),
		"message in other words":      strings.Replace(newer, "There were many similar errors", "There were some similar errors", 1),
		"podUID of another message":   head + `kubelet_volumes.go:163] "Something else" podUID="` + testUID + `"`,
		"podUID in text":              head + `kubelet_volumes.go:163] "Orphaned pod found, but volumes are not cleaned up podUID=` + testUID + `"`,
		"podUID cut":                  head + `kubelet_volumes.go:163] "Orphaned pod found, but volumes are not cleaned up" podUID="` + testUID[:30],
		"podUID without its end":      head + `kubelet_volumes.go:163] "Orphaned pod found, but volumes are not cleaned up" podUID="` + testUID,
		"UID without its end":         head + `kubelet_volumes.go:154] Orphaned pod "` + testUID,
		"UID without its end in err":  head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + testUID,
		"UID, half an escape":         head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + testUID + `\`,
		"pager cut in the UID":        head + `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + testUID[:20] + `>`,
		"escaped letters in the UID":  strings.Replace(newer, testUID, `\x35`+testUID[1:], 1),
		"escaped letters in JSON":     strings.Replace(object, testUID, `\u0035`+testUID[1:], 1),
		"text after the fixed text":   head + `kubelet_volumes.go:154] Orphaned pod "` + testUID + `" found, but volume paths are still present on disk from 203.0.113.9 port 40022 ssh2`,
		"text after the roll-up":      old + " from 203.0.113.9 port 40022 ssh2",
		"probe output":                head + `prober.go:117] "Probe failed" probeType="Readiness" pod="x/y" podUID="` + otherUID + `" output=` + q(newer),
		"probe output, old":           head + `prober.go:111] Readiness probe for "x_y(` + otherUID + `):c" failed (failure): ` + old,
		"exec output":                 head + `handlers.go:110] "PreStop hook failed" err="x" message=` + q(newer),
		"event":                       head + `event.go:291] "Event occurred" object="x/y" message=` + q(old),
		"pod name":                    head + `kubelet.go:1924] SyncLoop (DELETE, "api"): "orphaned pod \"` + testUID + `\" found, but volume paths are still present on disk"`,
		"container output in err":     head + `pod_workers.go:747] "Error syncing pod, skipping" err="failed: ` + strings.ReplaceAll(q(newer), `"`, ``) + `"`,
		"container output, own file":  head + `kubelet_pods.go:100] "x" output=` + q(newer),
		"klog in klog":                head + `kubelet_volumes.go:154] ` + old,
		"klog in klog, quoted":        head + `kubelet_volumes.go:154] ` + q(old),
		"syslog in klog":              head + `kubelet_volumes.go:154] ` + at + "kubelet[1]: " + old,
		"quoted":                      q(newer),
		"in words":                    "we saw " + old,
		"comment":                     "# " + old,
		"mail quote":                  "> " + old,
		"list":                        "- " + old,
		"XML":                         "<log>" + old + "</log>",
		"logfmt":                      `time="2024-08-31T14:21:49Z" level=info msg=` + q(newer),
		"logfmt plain":                `level=warning msg="Orphaned pod ` + testUID + ` found, but volume paths are still present on disk"`,
		"key and colon":               `error_message: "orphaned pod \"` + testUID + `\" found, but volume paths are still present on disk"`,
		"audit":                       `type=EXECVE msg=audit(1693491709.324:881): argc=2 a0="logger" a1=` + q(old),
		"shell":                       `logger -t kubelet ` + q(old),
		"shell, nothing before":       `echo "` + old + `"`,
		"rust kubelet":                `2026-03-01T10:00:00.000000Z  WARN kubelet: orphaned pod "` + testUID + `" found, but volume paths are still present on disk`,
		"JSON of another program":     `{"level":"info","msg":` + q(old) + `}`,
		"JSON of another caller":      strings.Replace(object, "kubelet/kubelet_volumes", "myapp/main", 1),
		"JSON of a similar caller":    strings.Replace(object, "kubelet/kubelet_volumes", "evil/kubelet_volumes", 1),
		"JSON without caller":         strings.Replace(strings.TrimSuffix(object, "}")+`,"pod":"x"}`, `"caller":"kubelet/kubelet_volumes.go:263",`, "", 1),
		"JSON caller in the text":     strings.Replace(object, `"caller":"kubelet/kubelet_volumes.go:263"`, `"caller":"x kubelet/kubelet_volumes.go:263"`, 1),
		"JSON without ts":             strings.Replace(object, `"ts":1693491709324.2,`, "", 1),
		"JSON ts no number":           strings.Replace(object, `"ts":1693491709324.2,`, `"ts":"now",`, 1),
		"JSON note":                   `{"ts":1693491709324.2,"caller":"kubelet/kubelet_pods.go:100","msg":"Some pod event","v":0,"annotation":` + q(newer) + `}`,
		"JSON note, right caller":     `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:100","msg":"Some pod event","note":"orphaned pod \"` + testUID + `\" found, but volume paths are still present on disk"}`,
		"JSON note, right message":    `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","note":"orphaned pod \"` + testUID + `\" found, but volume paths are still present on disk"}`,
		"JSON err below":              `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","x":{"err":"orphaned pod \"` + testUID + `\" found, but x"}}`,
		"JSON err an object":          `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","err":{"x":"orphaned pod \"` + testUID + `\" found, but x"}}`,
		"JSON podUID of another file": `{"ts":1693491709324.2,"caller":"kubelet/kubelet_pods.go:163","msg":"Orphaned pod found, but volumes are not cleaned up","podUID":"` + testUID + `"}`,
		"JSON podUID, no file":        `{"ts":1693491709324.2,"msg":"Orphaned pod found, but volumes are not cleaned up","podUID":"` + testUID + `"}`,
		"JSON podUID, other message":  `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:163","msg":"Cleaned up orphaned pod volumes dir","podUID":"` + testUID + `"}`,
		"JSON upper-case keys":        strings.NewReplacer(`"msg"`, `"Msg"`, `"err"`, `"Err"`).Replace(object),
		"JSON cut":                    object[:len(object)-1],
		"JSON and more":               object + ` {"x":1}`,
		"JSON in an array":            "[" + object + "]",
		"JSON in a string":            q(object),
		"JSON in msg":                 `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":` + q(object) + `}`,
		"JSON klog in msg":            `{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":` + q(old) + `}`,
		"kube audit":                  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","requestObject":{"metadata":{"annotations":{"note":` + q(old) + `}}}}`,
		"docker stdout":               `{"log":` + q(old) + `,"stream":"stdout","time":"2024-01-04T18:51:21Z"}`,
		"docker no stream":            `{"log":` + q(old) + `,"time":"2024-01-04T18:51:21Z"}`,
		"docker more keys":            `{"log":` + q(old) + `,"stream":"stderr","kubernetes":{},"time":"2024-01-04T18:51:21Z"}`,
		"docker nested":               `{"log":` + q(`{"level":"info","msg":`+q(old)+`}`) + `,"stream":"stderr","time":"2024-01-04T18:51:21Z"}`,
		"docker fragment":             `{"log":"Orphaned pod \"` + testUID + `\" found, but volume paths are still present on disk","stream":"stderr","time":"2024-01-04T18:51:21Z"}`,
		"docker tab":                  `{"log":"\torphaned pod \"` + testUID + `\" found, but x","stream":"stderr","time":"2024-01-04T18:51:21Z"}`,
		"cri stdout":                  "2024-08-31T14:21:49.324206000Z stdout F " + old,
		"cri wrong tag":               "2024-08-31T14:21:49.324206000Z stderr X " + old,
		"cri fragment":                "2024-08-31T14:21:49.324206000Z stderr F Orphaned pod \"" + testUID + "\" found, but volume paths are still present on disk",
		"cri quoted":                  "2024-08-31T14:21:49.324206000Z stderr F " + q(old),
		"cri in cri":                  "2024-08-31T14:21:49.324206000Z stderr F 2024-08-31T14:21:49.324206000Z stderr F " + old,
		"journal in syslog":           at + `kubelet[1]: {"MESSAGE":` + q(old) + `,"_SYSTEMD_UNIT":"kubelet.service"}`,
		"MESSAGE in syslog":           at + "kubelet[1]: MESSAGE=" + old,
		"repeated twice":              at + "kubelet[1]: message repeated 3 times: [ message repeated 3 times: [ " + old + "]]",
		"last message repeated":       at + "kubelet[2240370]: last message repeated 3 times",
		"podUID in syslog":            at + `kubelet[1]: "Orphaned pod found, but volumes are not cleaned up" podUID="` + testUID + `"`,
		"podUID, two pods":            `"Failed to remove orphaned pod dir" err="remove /var/lib/kubelet/pods/` + otherUID + `/x: busy" podUID="` + testUID + `"`,
		"podUID, cleaned up":          `"Cleaned up orphaned pod volumes dir" podUID="` + testUID + `"`,
		"fragment in syslog":          at + `kubelet[1]: Orphaned pod "` + testUID + `" found, but volume paths are still present on disk`,
		"rfc5424 other program":       "<27>1 2024-11-18T01:57:48.546805+00:00 node1 logger 1 - - " + old,
		"rfc5424 kubelet as msgid":    "<27>1 2024-11-18T01:57:48.546805+00:00 node1 logger 1 kubelet - " + old,
		"rfc5424 in data":             `<27>1 2024-11-18T01:57:48.546805+00:00 node1 kubelet 1 - [x y="] ` + strings.ReplaceAll(old, `"`, `\"`) + `"] z`,
		"rfc5424 no program":          "<27>1 2024-11-18T01:57:48.546805+00:00 node1 - 1 - - " + old,
		"kernel":                      "[11859608.510084] nfs: " + old,
		"grep context of a shell":     `/usr/local/bin/fix.sh:echo ` + old,
		"grep, fragment":              `notes.txt:Orphaned pod "` + testUID + `" found, but volume paths are still present on disk`,
		"teardown without a pod":      head + `nestedpendingoperations.go:267] Operation for "\"kubernetes.io/secret/` + testUID + `-t\" (\"` + testUID + `\")" failed. Error: "UnmountVolume.TearDown failed for volume \"x\" : device or resource busy"`,
		"teardown of another pod":     head + `nestedpendingoperations.go:348] Operation for "{volumeName:x podName:` + otherUID + ` nodeName:}" failed. No retries permitted until now (durationBeforeRetry 500ms). Error: UnmountVolume.TearDown failed for volume "v" (UniqueName: "x") pod "` + testUID + `" (UID: "` + testUID + `") : busy`,
		"teardown, two pods":          head + `nestedpendingoperations.go:348] Operation for "{volumeName:x podName:` + testUID + ` nodeName:}" failed. No retries permitted until now (durationBeforeRetry 500ms). Error: UnmountVolume.TearDown failed for volume "v" (UniqueName: "x") pod "` + otherUID + `" (UID: "` + testUID + `") : busy`,
		"teardown in a volume's name": head + `nestedpendingoperations.go:348] Operation for "{volumeName:x podName:x nodeName:}" failed. No retries permitted until now (durationBeforeRetry 500ms). Error: UnmountVolume.TearDown failed for volume "v\" (UniqueName: \"x\") pod \"` + testUID + `\" (UID: \"` + testUID + `\") : " (UniqueName: "x") pod "x" (UID: "x") : busy`,
		"teardown of another file":    head + `evil.go:348] UnmountVolume.TearDown failed for volume "v" (UniqueName: "x") pod "` + testUID + `" (UID: "` + testUID + `") : busy`,
		"teardown quoted":             head + `prober.go:117] "Probe failed" output="UnmountVolume.TearDown failed for volume \"v\" (UniqueName: \"x\") pod \"` + testUID + `\" (UID: \"` + testUID + `\") : busy"`,
		"teardown succeeded":          head + `operation_generator.go:803] UnmountVolume.TearDown succeeded for volume "v" (OuterVolumeSpecName: "v") pod "` + testUID + `" (UID: "` + testUID + `"). InnerVolumeSpecName "v".`,
		"teardown started":            head + `reconciler_common.go:159] "operationExecutor.UnmountVolume started for volume \"v\" (UniqueName: \"x\") pod \"` + testUID + `\" (UID: \"` + testUID + `\") "`,
		"mount":                       head + `nestedpendingoperations.go:348] Operation for "{volumeName:x podName:` + testUID + ` nodeName:}" failed. No retries permitted until now (durationBeforeRetry 500ms). Error: MountVolume.SetUp failed for volume "UnmountVolume" (UniqueName: "x") pod "x" (UID: "` + testUID + `") : busy`,
		"teardown of a fragment":      ` Error: UnmountVolume.TearDown failed for volume "v" (UniqueName: "x") pod "` + testUID + `" (UID: "` + testUID + `") : busy`,
	}
	k0s := supervised(at + "k0s[1766]: ")(newer)
	for name, line := range map[string]string{
		"other component":       strings.Replace(k0s, "component=kubelet", "component=containerd", 1),
		"no component":          strings.Replace(k0s, " component=kubelet", "", 1),
		"component in the text": strings.Replace(supervised(at+"k0s[1766]: ")(newer+" component=kubelet"), " component=kubelet stream", " component=etcd stream", 1),
		"two components":        k0s + " component=kubelet",
		"two texts":             k0s + ` msg="x"`,
		"other key":             k0s + ` output="x"`,
		"piece of a line":       k0s + " chunk=2",
		"cut":                   strings.Split(k0s, " numErrs")[0],
		"no text":               at + `k0s[1766]: time="x" component=kubelet`,
		"own words":             at + "k0s[1766]: " + newer,
		"another program":       supervised(at + "containerd[1766]: ")(newer),
		"a kubelet's":           supervised(at + "kubelet[1766]: ")(newer),
		"quoted by the kubelet": supervised(at + "k0s[1766]: ")(head + `prober.go:107] "Probe failed" output=` + q(newer)),
		"fragment":              supervised(at + "k0s[1766]: ")(old[30:]),
		"twice":                 supervised(at + "k0s[1766]: ")(supervised("")(newer)),
	} {
		lines["k0s, "+name] = line
	}
	maps.Copy(lines, map[string]string{
		"no priority of syslog":  at + "x.y kubelet[1]: " + old,
		"no priority, one word":  at + "daemon kubelet[1]: " + old,
		"priority and a program": at + "user.notice logger: kubelet[1]: " + old,
		"two priorities":         at + "user.notice user.notice kubelet[1]: " + old,
		"other version of 5424":  "2 2024-11-18T01:57:48.546805+00:00 node1 kubelet 4133404 - - " + old,
		"5424, another program":  "1 2024-11-18T01:57:48.546805+00:00 node1 logger 4133404 - - " + old,
		"5424, structured data":  `1 - node1 kubelet 1 - [a@1 x="` + old + `"] y`,
		"time before a fragment": at[:16] + old[30:],
		"word before a time":     "saw " + at + "kubelet[1]: " + old,
		"words of a month":       "de la " + at + "kubelet[1]: " + old,
		"another node's line":    "mgt03 " + at + "kubelet[1]: " + old,
		"node with another host": "mgt02x.test " + at + "kubelet[1]: " + old,
		"node, no host":          ".test " + at[:16] + "kubelet[1]: " + old,
		"two nodes":              "mgt02 mgt02 " + at + "kubelet[1]: " + old,
		"node, another program":  "mgt02 " + at + "logger: kubelet[1]: " + old,
		"chosen fields, program": `{"__CURSOR":"s=0","SYSLOG_IDENTIFIER":"kubelet","MESSAGE":` + q(newer) + `}`,
		"chosen fields, foreign": `{"__CURSOR":"s=0","level":"info","MESSAGE":` + q(newer) + `}`,
		"MESSAGE alone":          `{"MESSAGE":` + q(newer) + `}`,
	})
	for _, program := range []string{
		"logger", "root", "systemd-cat", "sshd", "containerd", "dockerd", "docker", "journal", "csi-node", "crio", "systemd", "cron", "CRON", "kube-proxy", "kubeadm", "kubectl",
		"longhorn-manager", "k3s-killall.sh", "fake-kubelet", "kubelets", "mykubelet", "kubelet-csr-approver", "kubelet-exporter", "not.kubelet", "KUBELET", "Kubelet", "-", "python3", "zsh",
		"etcd", "calico-node", "node", "daemon", "wrapper", "snap.docker.dockerd", "user@1000.service/kubelet.service", "init.scope", "kubelet/kubelet", "1234",
	} {
		lines["program "+program] = at + program + "[991]: " + old
		lines["program without pid "+program] = at + program + ": " + newer
		lines["program in ISO "+program] = "2024-08-31T14:21:49+00:00 mgt02 " + program + "[1]: " + object
	}
	for name, tag := range map[string]string{
		"space": "sshd[4412] kubelet", "two tags": "logger: kubelet", "two tags with pid": "logger[1]: kubelet[2]", "failed user": "sshd[4412]: Failed password for invalid user kubelet",
		"pid no number": "kubelet[x]", "pid open": "kubelet[1", "quotes": `"kubelet"`, "empty": "",
	} {
		lines["tag with "+name] = at + tag + ": " + old
	}
	for name, fields := range map[string]string{
		"user unit":          `"_SYSTEMD_UNIT":"user@1000.service","SYSLOG_IDENTIFIER":"kubelet","_COMM":"systemd-cat","_UID":"1000"`,
		"no unit":            `"SYSLOG_IDENTIFIER":"kubelet","_COMM":"kubelet","_UID":"0"`,
		"untrusted unit":     `"UNIT":"kubelet.service","SYSTEMD_UNIT":"kubelet.service","SYSLOG_IDENTIFIER":"kubelet"`,
		"object unit":        `"OBJECT_SYSTEMD_UNIT":"kubelet.service","_SYSTEMD_UNIT":"session-1.scope","SYSLOG_IDENTIFIER":"kubelet"`,
		"user's unit":        `"_SYSTEMD_USER_UNIT":"kubelet.service","_SYSTEMD_UNIT":"user@1000.service","SYSLOG_IDENTIFIER":"kubelet"`,
		"another user":       `"_SYSTEMD_UNIT":"kubelet.service","SYSLOG_IDENTIFIER":"kubelet","_COMM":"kubelet","_UID":"1000"`,
		"logger in the unit": `"_SYSTEMD_UNIT":"kubelet.service","SYSLOG_IDENTIFIER":"kubelet","_COMM":"logger","_UID":"0"`,
		"two units":          `"_SYSTEMD_UNIT":["user@1000.service","kubelet.service"],"SYSLOG_IDENTIFIER":"kubelet"`,
		"unit twice":         `"_SYSTEMD_UNIT":"user@1000.service","_SYSTEMD_UNIT":"kubelet.service"`,
		"unit with a space":  `"_SYSTEMD_UNIT":"kubelet.service ","SYSLOG_IDENTIFIER":"kubelet"`,
		"similar unit":       `"_SYSTEMD_UNIT":"evil-kubelet.service","SYSLOG_IDENTIFIER":"kubelet"`,
		"session":            `"_SYSTEMD_UNIT":"session-4.scope","SYSLOG_IDENTIFIER":"kubelet","_COMM":"logger","_UID":"0"`,
		"cron":               `"_SYSTEMD_UNIT":"cron.service","SYSLOG_IDENTIFIER":"kubelet"`,
		"upper-case unit":    `"_SYSTEMD_UNIT":"KUBELET.SERVICE","SYSLOG_IDENTIFIER":"kubelet"`,
		"number for a user":  `"_SYSTEMD_UNIT":"kubelet.service","_UID":0`,
		"null unit":          `"_SYSTEMD_UNIT":null,"SYSLOG_IDENTIFIER":"kubelet"`,
		"nothing":            `"SYSLOG_IDENTIFIER":"kubelet"`,
	} {
		lines["journal "+name] = `{` + fields + `,"MESSAGE":` + q(newer) + `}`
		lines["journal in GCP "+name] = `{"jsonPayload":{` + fields + `,"MESSAGE":` + q(old) + `}}`
	}
	const trusted = `"_SYSTEMD_UNIT":"kubelet.service","_COMM":"kubelet","_UID":"0",`
	for name, message := range map[string]string{
		"null": "null", "number": "1", "array of texts": "[" + q(old) + "]", "two messages": "[" + q(old) + "," + q(newer) + "]", "numbers too large": "[300,400]",
		"negative": "[-1]", "fragment": q(`Orphaned pod "` + testUID + `" found, but volume paths are still present on disk`), "short header": q(old[30:]),
		"tab": q("\torphaned pod \"" + testUID + "\" found, but x"), "space": q("  " + old), "enveloped": q(at + "kubelet[1]: " + old), "object": `{"x":` + q(old) + `}`,
	} {
		lines["journal MESSAGE "+name] = `{` + trusted + `"MESSAGE":` + message + `}`
	}
	for name, line := range map[string]string{
		"another field": `{` + trusted + `"MESSAGE":"x","NOTE":` + q(old) + `}`,
		"MESSAGE_ID":    `{` + trusted + `"MESSAGE_ID":` + q(old) + `}`,
		"nested":        `{"x":{` + trusted + `"MESSAGE":` + q(old) + `}}`,
		"in a payload":  `{"textPayload":` + q(old) + `}`,
		"two payloads":  `{"jsonPayload":{"jsonPayload":{` + trusted + `"MESSAGE":` + q(old) + `}}}`,
	} {
		lines["journal "+name] = line
	}
	return lines
}

func TestHostileLinesNameNothing(t *testing.T) {
	lines := hostile()
	for name, line := range lines {
		if s, ok := parse(line); ok {
			t.Errorf("%s: reports %s (%s)\n%s", name, s.UID, s.Transport, line)
		}
	}
	if len(lines) < 150 {
		t.Errorf("only %d cases", len(lines))
	}
}

// TestHostileNamesInOwnWords puts another report into every part of the kubelet's own report that a pod's owner can
// name: only the report's own pod may be reported.
func TestHostileNamesInOwnWords(t *testing.T) {
	names := []string{
		`orphaned pod "` + otherUID + `" found, but volume paths are still present on disk`,
		`x" found, but y orphaned pod "` + otherUID, `" podUID="` + otherUID, ` err="orphaned pod \"` + otherUID + `\" found, but x" `,
		"pods/" + otherUID + "/volumes", "../pods/" + otherUID, "\norphaned pod \"" + otherUID + "\" found, but x", "\n\torphaned pod \"" + otherUID + "\" found, but x",
		"\nE0831 14:21:49.324206 2240370 kubelet_volumes.go:154] Orphaned pod \"" + otherUID + "\" found, but volume paths are still present on disk",
		"x : There were a total of 999 errors similar to this. Turn up verbosity to see them.", "#012orphaned pod \"" + otherUID + "\"", "\x1b[31m", "\x00", "\xff",
		`\" numErrs=77 err=\"orphaned pod \\\"` + otherUID + `\\\" found, but x`, `") pod "` + otherUID + `" (UID: "` + otherUID + `") : x`,
		" occurred when trying to remove the volumes dir", ": not a directory", strings.Repeat("a", 255),
	}
	for _, name := range names {
		path := "/var/lib/kubelet/pods/" + testUID + "/volumes/kubernetes.io~empty-dir/" + name
		err := `orphaned pod "` + testUID + `" found, but failed to rmdir() volume at path ` + path + `: device or resource busy`
		early := `orphaned pod "` + testUID + `" found, but error unlinkat ` + path + `: read-only file system occurred when trying to remove the volumes dir`
		detail := `UnmountVolume.TearDown failed for volume ` + strconv.Quote(name) + ` (UniqueName: ` + strconv.Quote(name) + `) pod "` + testUID + `" (UID: "` + testUID + `") : remove ` + path + `: busy`
		operation := `Operation for ` + strconv.Quote("{volumeName:"+name+" podName:"+testUID+" nodeName:}") + ` failed. No retries permitted until now (durationBeforeRetry 500ms). Error: `
		object, jerr := json.Marshal(err)
		if jerr != nil {
			t.Fatal(jerr)
		}
		for _, line := range []string{
			"kubelet_volumes.go:225] " + err + tail,
			"kubelet_volumes.go:225] " + early + tail,
			"kubelet_volumes.go:225] Orphan pod: " + err,
			`kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=` + strconv.Quote(err) + ` numErrs=5`,
			`kubelet_volumes.go:263] "Orphan pod" err=` + strconv.Quote(early),
			`kubelet_volumes.go:163] "Failed to remove orphaned pod subdir" err=` + strconv.Quote(path) + ` podUID="` + testUID + `" path=` + strconv.Quote(path),
			"nestedpendingoperations.go:348] " + operation + detail,
			"nestedpendingoperations.go:348] " + operation + strconv.Quote(detail),
			"reconciler_common.go:157] " + strconv.Quote("operationExecutor."+strings.Replace(detail, "TearDown ", "", 1)+" : "+detail) + ` err=` + strconv.Quote(detail),
			`{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","numErrs":5,"err":` + string(object) + `}`,
		} {
			if !strings.HasPrefix(line, "{") {
				line = "E0831 14:21:49.324206 2240370 " + line
			}
			s, ok := parse(line)
			if ok && string(s.UID) != testUID {
				t.Errorf("%q: reports %s\n%s", name, s.UID, line)
			}
			if ok && s.Count != 5 && s.Count != NoCount {
				t.Errorf("%q: count %d\n%s", name, s.Count, line)
			}
		}
	}
}

// TestQuotedReportsNameNothing quotes each form inside the kubelet's other messages, to any depth, and puts garbage
// before it: no pod is reported.
func TestQuotedReportsNameNothing(t *testing.T) {
	for _, f := range forms() {
		line := klogLine(f, testUID)
		quoted := line
		for depth := range 4 {
			for _, file := range []string{"prober.go:1", "kubelet.go:1", "kubelet_volumes.go:1", "kubelet_pods.go:1", "nestedpendingoperations.go:1", "reconciler.go:1"} {
				for _, format := range []string{`"Probe failed" output=%s`, `Probe failed: %s`, `"x" err=%s`, `"Orphan pod" note=%s err="x"`, `%s`, `x %s`, `[%s]`} {
					text := strconv.Quote(quoted)
					if depth == 0 && strings.Contains(format, " ") && !strings.Contains(format, "=") {
						text = quoted
					}
					outer := "E0831 14:21:49.324206 2240370 " + file + "] " + fmt.Sprintf(format, text)
					if s, ok := parse(outer); ok {
						t.Errorf("%s reports %s\n%s", f.name, s.UID, outer)
					}
				}
			}
			quoted = strconv.Quote(quoted)
		}
		for _, garbage := range []string{"x", "x ", "\"", "'", "# ", "{", "[", "(", "kubelet ", "> ", "| ", "x\x00", "\xff", "=", "E", "E0831 ", "a=b "} {
			if s, ok := parse(garbage + line); ok {
				t.Errorf("%s after %q reports %s", f.name, garbage, s.UID)
			}
		}
	}
}
