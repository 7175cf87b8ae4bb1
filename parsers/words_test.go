package parsers

import "testing"

// TestWords: screens print the kubelet's words without the remains of klog's quoting.
func TestWords(t *testing.T) {
	const uid = "0badf00d-0001-4aaa-8bbb-cccc00000001"
	for text, want := range map[string]string{
		`E1129 03:00:00.000000     812 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \"` + uid + `\" found, but volume paths are still present on disk" numErrs=3`: `orphaned pod "` + uid + `" found, but volume paths are still present on disk`,
		`I1129 03:00:00.000000     812 kubelet_volumes.go:161] "Orphaned pod found, but volumes are not cleaned up" podUID="` + uid + `"`:                                                                                       `Orphaned pod found, but volumes are not cleaned up: podUID="` + uid + `"`,
		`E1129 03:00:00.000000     812 kubelet_volumes.go:154] Orphaned pod "` + uid + `" found, but volume paths are still present on disk : There were a total of 3 errors similar to this. Turn up verbosity to see them.`:   `Orphaned pod "` + uid + `" found, but volume paths are still present on disk`,
	} {
		r, ok := Parse(Line{Text: []byte(text), Whole: true})
		if !ok || r.Words != want {
			t.Errorf("%s\nhas the words %q, %t", text, r.Words, ok)
		}
	}
}
