package parsers

import (
	"strings"
	"testing"
)

// TestWords checks that the message for users is extracted from every wrapping.
func TestWords(t *testing.T) {
	const uid = "0badf00d-6131-4aaa-8bbb-cccc00006131"
	const old = `rphaned pod "` + uid + `" found, but volume paths are still present on disk`
	const late = `orphaned pod "` + uid + `" found, but error occurred when trying to remove the volumes dir: not a directory`
	for _, c := range [][2]string{
		{`E0331 15:47:45.892216    3416 kubelet_volumes.go:140] O` + old +
			` : There were a total of 3 errors similar to this. Turn up verbosity to see them.`, "O" + old},
		{`Mar 31 15:47:45 node1 kubelet[3416]: E0331 15:47:45.892216    3416 kubelet_volumes.go:114] O` + old + `.`, "O" + old + "."},
		{`o` + old, "o" + old},
		{
			`E0331 15:47:45.892216    3416 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." ` +
				`err="orphaned pod \"` + uid + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=3`, late,
		},
		{
			`{"ts":1,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors.","numErrs":3,` +
				`"err":"orphaned pod \"` + uid + `\" found, but error occurred when trying to remove the volumes dir: not a directory"}`, late,
		},
		{
			`{"MESSAGE":"{\"msg\":\"x\",\"err\":\"orphaned pod \\\"` + uid + `\\\" found, but error occurred when trying to ` +
				`remove the volumes dir: not a directory\"}"}`,
			late,
		},
		{
			`E0331 15:47:45.892216 3416 nestedpendingoperations.go:301] Operation for "x" failed. Error: UnmountVolume.TearDown failed for volume "y" : busy`,
			`UnmountVolume.TearDown failed for volume "y" : busy`,
		},
	} {
		if got := Words([]byte(c[0])); got != c[1] {
			t.Errorf("%s\n got %s\nwant %s", c[0], got, c[1])
		}
	}
	if got := Words([]byte(`orphaned pod "` + strings.Repeat("ä", 70_000))); len(got) > mostWords+len("…") {
		t.Errorf("%d bytes", len(got))
	}
	if Words(nil) != "" {
		t.Error("an empty line returned text")
	}
}

// TestWordsOfCorpus checks that each report's text contains the pod's UID and no header.
func TestWordsOfCorpus(t *testing.T) {
	seen := 0
	for _, r := range corpus(t) {
		if !r.report || !strings.Contains(r.raw, r.uid) {
			continue
		}
		seen++
		words := Words([]byte(r.raw))
		// Some forms have the UID in a key of its own, after the message.
		if !strings.Contains(words, r.uid) && !strings.Contains(r.raw, `"podUID"`) ||
			strings.Contains(words, "kubelet_volumes.go") || strings.ContainsAny(words, "\\\n") {
			t.Errorf("%s: %s\n%s", r.id, words, r.raw)
		}
	}
	if seen < 100 {
		t.Errorf("only %d reports", seen)
	}
}
