package remove

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestIndex checks that index and files must match, and that an archive bomb is not unpacked.
func TestIndex(t *testing.T) {
	files := []cni.File{
		{Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: "n-1-eth0", Data: []byte("one")},
		{Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: "n-2-eth0", Data: []byte("two")},
	}
	head, index, err := describe(archivedAt, files)
	testkit.Must(t, err)
	one := bytes.SplitAfter(index, []byte("\n"))
	written := func(head, index []byte, files []cni.File) func(io.Writer) error {
		return func(w io.Writer) error { return writeArchive(w, head, index, files) }
	}
	good := written(head, index, files)
	cases := map[string]func(io.Writer) error{
		"whole":       good,
		"fewer files": written(head, index, files[:1]),
		"fewer lines": written(head, one[0], files),
		"more lines":  written(head, append(bytes.Clone(index), one[0]...), files),
		"more files":  written(head, index, append(files, files...)),
		"no head":     written(nil, index, files),
		"bomb":        written(make([]byte, mostAbout+1), index, files),
		"tail": func(w io.Writer) error {
			if err := good(w); err != nil {
				return err
			}
			zip := gzip.NewWriter(w)
			_, err := zip.Write(make([]byte, 2*mostAbout))
			return errors.Join(err, zip.Close())
		},
	}
	for name, put := range cases {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			testkit.Must(t, put(&b))
			var got []cni.File
			err := walkArchive(&b, func(c cni.File) error { got = append(got, c); return nil })
			switch {
			case name != "whole" && err == nil:
				t.Error("the archive was accepted")
			case name == "whole" && (err != nil || len(got) != 2 || string(got[1].Data) != "two"):
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
