package parsers

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// form is one report in the format of a range of releases; U stands for the UID.
type form struct {
	name, line, text string // line is the statement's source line
	reason           Report
	count            int
}

const (
	many = `"There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"U\" found, but `
	tail = ` : There were a total of 5 errors similar to this. Turn up verbosity to see them.`
)

func forms() []form {
	none := NoCount
	return []form{
		{"1.3", "kubelet.go:2006", `Failed to remove orphaned pod "U" dir; err: remove /var/lib/kubelet/pods/U/volumes/x: device or resource busy`, ReportOther, none},
		{"1.4", "kubelet_volumes.go:159", `Orphaned pod "U" found, but volumes are still mounted; err: <nil>, volumes: map[x:y]`, ReportOther, none},
		{"1.4 read", "kubelet_volumes.go:159", `Orphaned pod "U" found, but error open /var/lib/kubelet/pods/U/volumes: no such file or directory occured during reading volume dir from disk`, ReportReadError, none},
		{"1.5", "kubelet_volumes.go:110", `Orphaned pod "U" found, but error <nil> occured during reading volume dir from disk`, ReportPathsPresent, none},
		{"1.6", "kubelet_volumes.go:114", `Orphaned pod "U" found, but volume paths are still present on disk.`, ReportPathsPresent, none},
		{"1.7", "kubelet_volumes.go:128", `Orphaned pod "U" found, but volume paths are still present on disk. : There were a total of 5 errors similar to this.  Turn up verbosity to see them.`, ReportPathsPresent, 5},
		{"1.8", "kubelet_volumes.go:129", `Orphaned pod "U" found, but volume paths are still present on disk` + tail, ReportPathsPresent, 5},
		{"1.12", "kubelet_volumes.go:154", `Orphaned pod "U" found, but volume subpaths are still present on disk` + tail, ReportSubpathsPresent, 5},
		{"1.14", "kubelet_volumes.go:154", `Orphaned pod "U" found, but error could not read directory x occurred during reading of volume-subpaths dir from disk` + tail, ReportReadError, 5},
		{"1.16", "kubelet_volumes.go:154", `orphaned pod "U" found, but volume paths are still present on disk` + tail, ReportPathsPresent, 5},
		{"1.17 v5", "kubelet_volumes.go:156", `Orphan pod: orphaned pod "U" found, but volume paths are still present on disk`, ReportPathsPresent, none},
		{"1.18", "kubelet_volumes.go:179", `orphaned pod "U" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/U/volumes/kubernetes.io~csi/v/mount: directory not empty` + tail, ReportRmdirNotEmpty, 5},
		{"1.18 busy", "kubelet_volumes.go:179", `orphaned pod "U" found, but failed to rmdir() subpath at path /var/lib/kubelet/pods/U/volume-subpaths/v/c/0: device or resource busy` + tail, ReportOther, 5},
		{"1.19", "kubelet_volumes.go:225", `orphaned pod "U" found, but error not a directory occurred when trying to remove the volumes dir` + tail, ReportNotADirectory, 5},
		{"1.19 pod dir", "kubelet_volumes.go:225", `orphaned pod "U" found, but error directory not empty occurred when trying to remove the pod directory` + tail, ReportOther, 5},
		{"1.19 subdir", "kubelet_volumes.go:206", `Orphaned pod "U" found, but failed to remove volumes subdir "/var/lib/kubelet/pods/U/volumes"; err: volumes subdir was found after it was removed`, ReportOther, none},
		{"1.20 subdir", "kubelet_volumes.go:208", `Failed to remove orphaned pod "U" subdir "/var/lib/kubelet/pods/U/plugins"; err: read-only file system`, ReportOther, none},
		{"1.20 v3", "kubelet_volumes.go:194", `Orphaned pod "U" found, but volumes are not cleaned up`, ReportOther, none},
		{"1.20 cgroups", "kubelet_pods.go:1698", `Orphaned pod "U" found, but volumes not yet removed.  Reducing cpu to minimum`, ReportOther, none},
		{"1.21", "kubelet_volumes.go:225", many + `error not a directory occurred when trying to remove the volumes dir" numErrs=5`, ReportNotADirectory, 5},
		{"1.21 v3", "kubelet_volumes.go:194", `"Orphaned pod found, but volumes are not cleaned up" podUID=U`, ReportOther, none},
		{"1.21 subdir", "kubelet_volumes.go:206", `"Orphaned pod found, but failed to remove volumes subdir" err="volumes subdir was found after it was removed" podUID=U path="/var/lib/kubelet/pods/U/volumes"`, ReportOther, none},
		{"1.22 v5", "kubelet_volumes.go:247", `"Orphan pod" err="orphaned pod \"U\" found, but error not a directory occurred when trying to remove the volumes dir"`, ReportNotADirectory, none},
		{"1.24", "kubelet_volumes.go:245", many + `error occurred when trying to remove the volumes dir: not a directory" numErrs=5`, ReportNotADirectory, 5},
		{"1.24 subdir", "kubelet_volumes.go:245", many + `error occurred when trying to remove subdir \"/var/lib/kubelet/pods/U/plugins\": unlinkat: read-only file system" numErrs=5`, ReportOther, 5},
		{"1.24 pod dir", "kubelet_volumes.go:245", many + `error occurred when trying to remove the pod directory: directory not empty" numErrs=5`, ReportOther, 5},
		{"1.27", "kubelet_volumes.go:263", many + `failed to rmdir() volume at path /var/lib/kubelet/pods/U/volumes/kubernetes.io~nfs/v1: directory not empty" numErrs=5`, ReportRmdirNotEmpty, 5},
		{"1.27 read", "kubelet_volumes.go:263", many + `error occurred during reading of volume-subpaths dir from disk: open /var/lib/kubelet/pods/U/volume-subpaths: not a directory" numErrs=5`, ReportReadError, 5},
		{"1.27 windows", "kubelet_volumes.go:263", many + `failed to rmdir() volume at path c:\\var\\lib\\kubelet\\pods\\U\\volumes\\x\\tmp: The directory is not empty." numErrs=5`, ReportRmdirNotEmpty, 5},
		{"1.27 dir", "kubelet_volumes.go:165", `"Failed to remove orphaned pod dir" err="device or resource busy" podUID="U"`, ReportOther, none},
		{"1.27 sub", "kubelet_volumes.go:165", `"Failed to remove orphaned pod subdir" err="read-only file system" podUID="U" path="/var/lib/kubelet/pods/U/plugins"`, ReportOther, none},
		{"1.34 v3", "kubelet_volumes.go:202", `"Orphaned pod found, but volumes are not cleaned up" podUID="U"`, ReportOther, none},
		{"1.36", "kubelet_volumes.go:261", many + `failed to remove subpath at path /var/lib/kubelet/pods/U/volume-subpaths/c/a/0: remove /var/lib/kubelet/pods/U/volume-subpaths/c/a/0: directory not empty" numErrs=5`, ReportRmdirNotEmpty, 5},
		{"1.36 logger", "kubelet_volumes.go:200", `"Orphaned pod found, but volumes are not cleaned up" logger="kubelet" podUID="U"`, ReportOther, none},
		{"teardown 1.4", "reconciler.go:195", `operationExecutor.UnmountVolume failed for volume "kubernetes.io/secret/U-t" (spec.Name: "t") pod "U" (UID: "U") controllerAttachDetachEnabled: true with err: x`, ReportTeardown, none},
		{"teardown 1.6", "nestedpendingoperations.go:262", `Operation for "\"kubernetes.io/secret/U-t\" (\"U\")" failed. No retries permitted until 2017-04-26 14:06:07.693217342 +0000 UTC (durationBeforeRetry 4s). Error: UnmountVolume.TearDown failed for volume "kubernetes.io/secret/U-t" (volume.spec.Name: "t") pod "U" (UID: "U") with: rename /var/lib/kubelet/pods/U/volumes/a /var/lib/kubelet/pods/U/volumes/b: device or resource busy`, ReportTeardown, none},
		{"teardown 1.20", "nestedpendingoperations.go:301", `Operation for "{volumeName:kubernetes.io/csi/x podName:U nodeName:}" failed. No retries permitted until 2020-12-20 10:00:00 +0000 UTC m=+1.5 (durationBeforeRetry 500ms). Error: "UnmountVolume.TearDown failed for volume \"v\" (UniqueName: \"kubernetes.io/csi/x\") pod \"U\" (UID: \"U\") : kubernetes.io/csi: mounter.TearDownAt failed"`, ReportTeardown, none},
		{"teardown 1.30", "nestedpendingoperations.go:348", `Operation for "{volumeName:kubernetes.io/nfs/U-vol1 podName:U nodeName:}" failed. No retries permitted until 2026-11-21 00:52:17.1 +0000 UTC m=+0.9 (durationBeforeRetry 500ms). Error: UnmountVolume.TearDown failed for volume "vol1" (UniqueName: "kubernetes.io/nfs/U-vol1") pod "U" (UID: "U") : remove /var/lib/kubelet/pods/U/volumes/kubernetes.io~nfs/vol1: directory not empty`, ReportTeardown, none},
		{"unmap 1.30", "nestedpendingoperations.go:348", `Operation for "{volumeName:kubernetes.io/csi/b podName:U nodeName:}" failed. No retries permitted until 2026-11-21 00:52:17.1 +0000 UTC m=+0.9 (durationBeforeRetry 500ms). Error: UnmapVolume.UnmapBlockVolume failed for volume "b" (UniqueName: "kubernetes.io/csi/b") pod "U" (UID: "U") : busy`, ReportTeardown, none},
		{"unmounter 1.12", "reconciler.go:180", `operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) for volume "tls" (UniqueName: "x^y") pod "U" (UID: "U") : UnmountVolume.NewUnmounter failed for volume "tls" (UniqueName: "x^y") pod "U" (UID: "U") : no such file`, ReportTeardown, none},
		{"unmounter 1.30", "reconciler_common.go:157", `"operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) for volume \"tls\" (UniqueName: \"x^y\") pod \"U\" (UID: \"U\") : UnmountVolume.NewUnmounter failed for volume \"tls\" (UniqueName: \"x^y\") pod \"U\" (UID: \"U\") : no such file" err="UnmountVolume.NewUnmounter failed"`, ReportTeardown, none},
	}
}

// klogLine replaces each separate U by uid.
func klogLine(f form, uid string) string {
	return "E0331 15:47:45.892216    3416 " + f.line + "] " + loneU.ReplaceAllString(f.text, "${1}"+uid)
}

// klogObject returns the same report in klog's JSON format.
func klogObject(tb testing.TB, f form, uid string) string {
	tb.Helper()
	e := envelope{Text: klogLine(f, uid)}
	c, ok := e.call()
	if !ok {
		tb.Fatalf("no call: %s", e.Text)
	}
	dir, _, _ := strings.Cut(strings.TrimSuffix(c.File, ".go"), "_") // reconciler/reconciler_common.go
	q := func(v string) string {
		b, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		return string(b)
	}
	var s strings.Builder
	s.WriteString(`{"ts":1795221215791.6343,"caller":` + q(dir+"/"+f.line) + `,"msg":` + q(c.Msg))
	for _, x := range c.Fields {
		if x.Key == "numErrs" {
			s.WriteString(`,"numErrs":` + x.Value)
			continue
		}
		s.WriteString("," + q(x.Key) + ":" + q(x.Value))
	}
	return s.String() + "}"
}

// transports wrap a kubelet's line (text or JSON) as their real counterparts do.
func transports() map[string]func(string) string {
	prefix := func(p string) func(string) string { return func(s string) string { return p + s } }
	quote := func(format string) func(string) string {
		return func(s string) string {
			b, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			return fmt.Sprintf(format, b)
		}
	}
	numbers := func(sep, format string) func(string) string {
		return func(s string) string {
			var b []string
			for i := range len(s) {
				b = append(b, fmt.Sprint(s[i]))
			}
			return fmt.Sprintf(format, strings.Join(b, sep))
		}
	}
	const trusted = `"_SYSTEMD_UNIT":"kubelet.service","SYSLOG_IDENTIFIER":"kubelet","_COMM":"kubelet","_UID":"0","_PID":"3416"`
	return map[string]func(string) string{
		"raw":                     prefix(""),
		"rfc3164":                 prefix("Mar 31 15:47:45 dgx1 kubelet[3416]: "),
		"rfc3164 one-digit day":   prefix("Dec  9 13:14:02 dgx1 kubelet[3416]: "),
		"rfc3164 no pid":          prefix("Mar 31 15:47:45 dgx1 kubelet: "),
		"rfc3164 no host":         prefix("Mar 31 15:47:45 kubelet[3416]: "),
		"rfc3164 priority":        prefix("<27>Mar 31 15:47:45 dgx1 kubelet[3416]: "),
		"rfc3164 year":            prefix("Mar 31 2024 15:47:45 dgx1 kubelet[3416]: "),
		"priority only":           prefix("<27>kubelet[3416]: "),
		"program only":            prefix("kubelet[3416]: "),
		"rfc5424":                 prefix("<27>1 2024-11-18T01:57:48.546805+00:00 node1 kubelet 4133404 - - "),
		"rfc5424 bom":             prefix("<27>1 2024-11-18T01:57:48.546805Z node1 kubelet - ID47 - \ufeff"),
		"rfc5424 structured data": prefix(`<27>1 - node1 kubelet 1 - [a@1 x="] \" "][b@2 y="1"] `),
		"iso":                     prefix("2024-03-31T15:47:45.892216+00:00 node1 kubelet[3416]: "),
		"iso no pid":              prefix("2024-03-31T15:47:45+02:00 node1 kubelet: "),
		"iso Z":                   prefix("2024-03-31T15:47:45Z node1 kubelet[3416]: "),
		"plain date":              prefix("2024-03-31 15:47:45.892 node1 kubelet[3416]: "),
		"short-iso":               prefix("2024-03-31T15:47:45+0000 node1 kubelet[3416]: "),
		"short-iso-precise":       prefix("2024-03-31T15:47:45.892216+0200 node1 kubelet[3416]: "),
		"short-precise":           prefix("Mar 31 15:47:45.892216 node1 kubelet[3416]: "),
		"short-full":              prefix("Sun 2024-03-31 15:47:45 UTC node1 kubelet[3416]: "),
		"short-full zone":         prefix("Sun 2024-03-31 15:47:45 CEST node1 kubelet[3416]: "),
		"short-monotonic":         prefix("[ 1234.567890] node1 kubelet[3416]: "),
		"short-delta":             prefix("[ 1234.567890 <    0.000123 >] node1 kubelet[3416]: "),
		"short-unix":              prefix("1711900065.892216 node1 kubelet[3416]: "),
		"with-unit":               prefix("Sun 2024-03-31 15:47:45 UTC node1 kubelet.service[3416]: "),
		"with-unit k3s":           prefix("Sun 2024-03-31 15:47:45 UTC node1 k3s-agent.service[3416]: "),
		"with-unit snap":          prefix("Mar 31 15:47:45 node1 snap.microk8s.daemon-kubelite.service[3416]: "),
		"message field":           prefix("    MESSAGE="),
		"colour":                  func(s string) string { return "Mar 31 15:47:45 node1 kubelet[3416]: \x1b[0;1;31m" + s + "\x1b[0m" },
		"grep colour": func(s string) string {
			return strings.Replace(s, "orphaned pod", "\x1b[01;31m\x1b[Korphaned pod\x1b[m\x1b[K", 1)
		},
		"json":                quote(`{"__REALTIME_TIMESTAMP":"1705393812044483",` + trusted + `,"MESSAGE":%s}`),
		"json spaced":         quote(`{"MESSAGE" : %s, "_SYSTEMD_UNIT" : "kubelet.service" }`),
		"json numbers":        numbers(",", `{`+trusted+`,"MESSAGE":[%s]}`),
		"json numbers spaced": numbers(", ", `{"MESSAGE" : [ %s ], `+trusted+`}`),
		"gcp":                 quote(`{"jsonPayload": {"MESSAGE": %s, "SYSLOG_IDENTIFIER": "kubelet", "_SYSTEMD_UNIT": "kubelet.service"}, "resource": {"type": "k8s_node"}}`),
		"docker json": func(s string) string {
			return quote(`{"log":%s,"stream":"stderr","time":"2024-01-04T18:51:21.080528000Z"}`)(s + "\n")
		},
		"docker json attrs":      quote(`{"log":%s,"stream":"stderr","attrs":{"tag":"kubelet"},"time":"2024-01-04T18:51:21.080528000Z"}`),
		"docker logs timestamps": prefix("2024-01-04T18:51:21.080528000Z "),
		"cri":                    prefix("2024-03-30T07:25:46.496936000+00:00 stderr F "),
		"cri Z":                  prefix("2024-03-30T07:25:46.496936000Z stderr F "),
		"cri partial":            prefix("2024-03-30T07:25:46.496936000Z stderr P "),
		"cri tags":               prefix("2024-03-30T07:25:46.496936000Z stderr F:x "),
		"grep file":              prefix("/var/log/messages-20240116:Mar 31 15:47:45 dgx1 kubelet[3416]: "),
		"grep file and line":     prefix("/var/log/syslog.1:48211:Mar 31 15:47:45 dgx1 kubelet: "),
		"grep line":              prefix("48211:Mar 31 15:47:45 dgx1 kubelet[3416]: "),
		"grep relative":          prefix("messages:Mar 31 15:47:45 dgx1 kubelet[3416]: "),
		"grep raw":               prefix("/var/log/kubelet.log:"),
		"minikube":               prefix("* Sep 16 06:24:12 minikube kubelet[3416]: "),
		"minikube indented":      prefix("  * Sep 16 06:24:12 minikube kubelet[3416]: "),
		"talos":                  prefix("172.20.0.2: "),
		"locale ko":              prefix(" 3월 31 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale ja":              prefix(" 3月 31 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale de":              prefix("Mär 31 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale fr":              prefix("févr. 09 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale ru":              prefix("июл 13 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale es":              prefix("ene 13 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale pt":              prefix("dez  3 16:03:01 k8s-worker06 kubelet[3416]: "),
		"locale ca":              prefix("de nov. 27 00:59:23 vm kubelet[3416]: "),
		"locale ca, apostrophe":  prefix("d’oct. 27 00:59:23 vm kubelet[3416]: "),
		"locale vi":              prefix("Thg 11 27 00:59:23 vm kubelet[3416]: "),
		"locale mn":              prefix("11-р сар 27 00:59:23 vm kubelet[3416]: "),
		"locale ar":              prefix("تشرين الثاني 27 00:59:23 vm kubelet[3416]: "),
		"node-logs":              prefix("worker3.test Jul 28 01:14:12.868554 worker3.test kubenswrapper[3416]: "),
		"node-logs short host":   prefix("worker3.test Jul 28 01:14:12.868554 worker3 kubenswrapper[3416]: "),
		"node-logs short-unix":   prefix("worker3.test 1711900065.892216 worker3.test kubenswrapper[3416]: "),
		"repeated": func(s string) string {
			return "Mar 31 15:47:45 node1 kubelet[3416]: message repeated 3 times: [ " + s + "]"
		},
		"repeated squeezed": func(s string) string {
			return "Mar 31 15:47:45 node1 kubelet[3416]: message repeated 12 times: [" + s + "]"
		},
		"#012":                    func(s string) string { return "Mar 31 15:47:45 node1 kubelet[3416]: " + s + "#012" },
		"carriage return":         func(s string) string { return "Mar 31 15:47:45 node1 kubelet[3416]: " + s + "\r" },
		"byte order mark":         prefix("\ufeffMar 31 15:47:45 node1 kubelet[3416]: "),
		"trailing spaces":         func(s string) string { return "Mar 31 15:47:45 node1 kubelet[3416]: " + s + "  " },
		"k3s":                     prefix("Feb 24 14:46:15 n k3s[699]: "),
		"k3s-agent":               prefix("Feb 24 14:46:15 n k3s-agent[699]: "),
		"rke2":                    prefix("Feb 24 14:46:15 n rke2[699]: "),
		"microk8s":                prefix("Feb 24 14:46:15 n microk8s.daemon-kubelite[699]: "),
		"microk8s old":            prefix("Feb 24 14:46:15 n microk8s.daemon-kubelet[699]: "),
		"snap":                    prefix("Feb 24 14:46:15 n kubelet.daemon[699]: "),
		"openshift hyperkube":     prefix("Feb 24 14:46:15 n hyperkube[699]: "),
		"openshift kubenswrapper": prefix("Feb 24 14:46:15 n kubenswrapper[699]: "),
		"openshift 3":             prefix("Feb 24 14:46:15 n atomic-openshift-node[699]: "),
		"coreos":                  prefix("Feb 24 14:46:15 n kubelet-wrapper[699]: "),
		"start script":            prefix("Feb 24 14:46:15 n start-kubelet.sh[699]: "),
		"Deckhouse":               prefix("Jun 06 04:10:31 n d8-kubelet-forker[1745]: "),
		"shell":                   prefix("Feb 24 14:46:15 n sh[699]: "),
		"canonical kubernetes":    prefix("Feb 24 14:46:15 n k8s.kubelet[699]: "),
		"canonical, with-unit":    prefix("Feb 24 14:46:15 n snap.k8s.kubelet.service[699]: "),
		"rfc5424 no priority":     prefix("1 2024-11-18T01:57:48.546805+00:00 node1 kubelet 4133404 - - "),
		"busybox":                 prefix("Mar 31 15:47:45 alpine daemon.err kubelet[3416]: "),
		"busybox no pid":          prefix("Mar 31 15:47:45 alpine local0.info kubelet: "),
		"ts":                      prefix("Mar 31 15:47:45 "),
		"NULs of a crash":         prefix(strings.Repeat("\x00", 4096) + "Mar 31 15:47:45 node1 kubelet[3416]: "),
		"json chosen fields":      quote(`{"__CURSOR":"s=0;i=1","__REALTIME_TIMESTAMP":"1705393812044483","__SEQNUM":"7","_BOOT_ID":"0","MESSAGE":%s}`),
		"k0s":                     supervised(""),
		"k0s syslog":              supervised("2024-07-08T08:46:26.112550+00:00 worker-1 k0s[1766]: "),
		"k0s short":               supervised("Jul 08 08:46:26 worker-1 k0s[1766]: "),
		"k0s with-unit":           supervised("Jul 08 08:46:26 worker-1 k0sworker.service[1766]: "),
		"k0s json": func(s string) string {
			return quote(`{"_SYSTEMD_UNIT":"k0scontroller.service","SYSLOG_IDENTIFIER":"k0s","_COMM":"k0s","_UID":"0","_PID":"1766","MESSAGE":%s}`)(supervised("")(s))
		},
	}
}

// supervised returns a line of k0s's log that starts with lead.
func supervised(lead string) func(string) string {
	return func(s string) string {
		return lead + `time="2024-07-08 08:46:26" level=info msg=` + strconv.Quote(s) + " component=kubelet stream=stderr"
	}
}

const testUID = "5da3387d-ad1c-11ea-a025-525400767782"

// TestEachFormInEachTransport parses each form in each transport, with both kinds of UID, as text and as JSON.
func TestEachFormInEachTransport(t *testing.T) {
	n := 0
	for name, wrap := range transports() {
		for _, f := range forms() {
			for _, uid := range []string{testUID, "7f8e47b71a845b4eb634a44a94e20069"} {
				for kind, inner := range map[string]string{"text": klogLine(f, uid), "json": klogObject(t, f, uid)} {
					if kind == "json" && strings.HasPrefix(f.line, "kubelet_pods.go") && strings.HasPrefix(f.text, `"`) {
						continue
					}
					n++
					line := wrap(inner)
					s, ok := ParseLine(Line{Text: []byte(line)})
					if !ok || string(s.UID) != uid || s.Report != f.reason || s.Count != f.count {
						t.Errorf("%s, %s, %s: got %v %s %s %d\n%s", name, f.name, kind, ok, s.UID, s.Report, s.Count, line)
					}
				}
			}
		}
	}
	t.Logf("%d lines", n)
}

var loneU = regexp.MustCompile(`(^|[^A-Za-z])U\b`)

// TestTimes checks that a time is parsed only from a stamp with year and zone.
func TestTimes(t *testing.T) {
	inner := klogLine(forms()[6], testUID)
	for transport, want := range map[string]string{
		"rfc3164": "", "short-precise": "", "short-full zone": "", "short-monotonic": "", "plain date": "", "raw": "", "locale ko": "",
		"iso no pid":             "2024-03-31T13:47:45Z",
		"short-iso":              "2024-03-31T15:47:45Z",
		"short-iso-precise":      "2024-03-31T13:47:45.892216Z",
		"short-full":             "2024-03-31T15:47:45Z",
		"short-unix":             "2024-03-31T15:47:45.892216Z",
		"rfc5424":                "2024-11-18T01:57:48.546805Z",
		"json":                   "2024-01-16T08:30:12.044483Z",
		"cri Z":                  "2024-03-30T07:25:46.496936Z",
		"docker json":            "2024-01-04T18:51:21.080528Z",
		"docker logs timestamps": "2024-01-04T18:51:21.080528Z",
	} {
		s, ok := ParseLine(Line{Text: []byte(transports()[transport](inner))})
		got := ""
		if !s.Time.IsZero() {
			got = s.Time.Format(time.RFC3339Nano)
		}
		if !ok || got != want {
			t.Errorf("%s: time %q, want %q", transport, got, want)
		}
	}
	s, _ := ParseLine(Line{Text: []byte(klogObject(t, forms()[6], testUID))})
	if got := s.Time.Format(time.RFC3339Nano); got != "2026-11-21T00:33:35.791634Z" {
		t.Errorf("klog-json: time %s", got)
	}
}
