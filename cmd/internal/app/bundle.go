package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// BundleFile is one file of a support bundle.
type BundleFile struct {
	Name string
	Text []byte
}

// Limits of a bundle.
const (
	mostRecords = 1000
	mostMetrics = 1 << 20 // bytes
)

// BundleOf returns the last records, without the content of vol_data.json, whose attributes may be secrets, and the metrics. A
// file that cannot be read is replaced by the error.
func BundleOf(cfg config.Config) []BundleFile {
	records, err := reading(cfg, func(s *state.Store) ([]byte, error) { return lastRecords(s, mostRecords) })
	files := []BundleFile{orError("records.jsonl", records, err)}
	path := cfg.MetricsFile
	if path == config.Auto {
		path = metricsIn(cfg.NodeRoot, textfileDirs)
	}
	if path == "" || path == config.None {
		return append(files, orError("metrics.prom", nil, errors.New("no metrics are written")))
	}
	metrics, err := beneath.ReadNamed(path, mostMetrics)
	return append(files, orError("metrics.prom", metrics, err))
}

func orError(name string, text []byte, err error) BundleFile {
	if err != nil {
		return BundleFile{name + ".error.txt", []byte(err.Error() + "\n")}
	}
	return BundleFile{name, text}
}

// lastRecords returns the last records of the ledger in lines of JSON. A damaged ledger ends at the damage.
func lastRecords(s *state.Store, most int) ([]byte, error) {
	var last []policy.Record
	var problem error
	for r, err := range s.Records() {
		if err != nil {
			problem = err
			break
		}
		if r.VolData = nil; len(last) == most {
			last = last[1:]
		}
		last = append(last, r)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for i := range last {
		if err := e.Encode(last[i]); err != nil {
			return nil, err
		}
	}
	if problem != nil && len(last) == 0 {
		return nil, problem
	}
	return text.Bytes(), nil
}

// WriteBundle writes the files as one tar.gz: to the named file, which it creates for its owner only, or to w
// if the name is "-". Every file is in the directory dir. It returns the size in bytes.
func WriteBundle(name, dir string, files []BundleFile, at time.Time, w io.Writer) (size int64, err error) {
	if name != "-" {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // another user's link is not followed
		if errors.Is(err, os.ErrExist) {
			return 0, exit.Usagef("name another file with --bundle-file", "%s is already there", name)
		}
		if err != nil {
			return 0, fmt.Errorf("cannot write the bundle: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	t := tar.NewWriter(z)
	for _, f := range files {
		head := &tar.Header{Name: dir + "/" + f.Name, Mode: 0o600, Size: int64(len(f.Text)), ModTime: at}
		if err := t.WriteHeader(head); err != nil {
			return 0, err
		}
		if _, err := t.Write(f.Text); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return 0, err
	}
	size, err = io.Copy(w, &packed)
	return size, err
}
