package parsers

import "testing"

const formUID = "0fb1a2c3-1111-4222-8333-444455556666"

// TestKubeletForms checks forms of a report that only some kubelet releases or transports produce.
func TestKubeletForms(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		want  Report
		count int
	}{
		"1.19 in JSON": {`{"ts":1606000000000.1,"msg":"orphaned pod \"` + formUID + `\" found, but volume paths are still present on disk : ` +
			`There were a total of 1 errors similar to this. Turn up verbosity to see them.\n","v":0}`, ReportPathsPresent, 1},
		"1.20 in JSON, without a number": {`{"ts":1606000000000.1,"msg":"Orphan pod: orphaned pod \"` + formUID + `\" found, but ` +
			`volume paths are still present on disk\n","v":5}`, ReportPathsPresent, NoCount},
		"1.20 in JSON, an error": {`{"ts":1606000000000.1,"msg":"orphaned pod \"` + formUID + `\" found, but ` +
			`failed to rmdir() volume at path /a/b: directory not empty : ` +
			`There were a total of 3 errors similar to this. Turn up verbosity to see them.\n","v":0}`, ReportRmdirNotEmpty, 3},
		"1.20 in JSON, a tear-down": {`{"ts":1606000000000.1,"msg":"Operation for \"{volumeName:v podName:` + formUID + ` nodeName:}\" failed. ` +
			`No retries. Error: \"UnmountVolume.TearDown failed for volume \\\"v\\\" (UniqueName: \\\"v\\\") pod ` +
			`\\\"` + formUID + `\\\" (UID: \\\"` + formUID + `\\\") : ` +
			`remove /var/lib/kubelet/pods/` + formUID + `/volumes/kubernetes.io~nfs/v: directory not empty\"\n","v":0}`, "", 0},
		"rsyslog's #012 in the formatted message of 1.20": {"Mar 31 15:47:45 host kubelet[2154]: E0117 09:15:33.123456    2154 kubelet_volumes.go:225] " +
			"orphaned pod \"" + formUID +
			"\" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/" + formUID + "/volumes/kubernetes.io~nfs/a#012b: directory not empty : " +
			"There were a total of 2 errors similar to this. Turn up verbosity to see them.", ReportRmdirNotEmpty, 2},
	} {
		s, ok := ParseLine(Line{Text: []byte(c.line)})
		if ok != (c.want != "") || (ok && (s.UID != formUID || s.Report != c.want || s.Count != c.count)) {
			t.Errorf("%s: %t %+v, want %s, %d", name, ok, s, c.want, c.count)
		}
	}
}

// TestPodsAPILines checks that the lines of a 1.37 kubelet about ListPods and about changed pods report no
// orphan.
func TestPodsAPILines(t *testing.T) {
	for _, line := range []string{
		`I1124 06:12:01.123456    2154 server.go:101] "ListPods called"`,
		`I1124 06:12:01.123456    2154 kubelet.go:2701] "SyncLoop ADD" source="file" pods=["kube-system/etcd-node-1"] podUIDs=["` + formUID + `"]`,
		`I1124 06:12:01.123456    2154 kubelet.go:2714] "SyncLoop REMOVE" source="api" pods=["shop/web-0"] podUIDs=["` + formUID + `"]`,
		`I1124 06:12:01.123456    2154 server.go:210] "Pod update broadcasted" pod="shop/web-0" podUID="` + formUID + `"`,
		`{"ts":1795500000000.1,"caller":"podsapi/server.go:101","msg":"ListPods called","v":0}`,
	} {
		if s, ok := ParseLine(Line{Text: []byte(line)}); ok {
			t.Errorf("%s: %+v", line, s)
		}
	}
}
