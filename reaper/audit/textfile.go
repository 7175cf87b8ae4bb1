package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// WriteFile replaces the file at path by all metrics. A reader sees the old file or the new one, never a part. After an
// error the old file is kept and the failure is counted. Call it after each event: the node exporter exports the file's
// time (node_textfile_mtime_seconds), which serves as the daemon's heartbeat.
//
// It does not use prometheus.WriteToTextfile, which changes the mode by the temporary file's path: if the node
// exporter's user owns the directory, that user could place a symlink there and make root open any file to all. Here
// the mode is set on the open file, every name is opened from the directory's handle, and rename follows no symlink.
//
// It does not sync the file, since its content is useless after a power cut.
func (m *Metrics) WriteFile(path string) error {
	if err := m.writeFile(path); err != nil {
		m.Failure(OpMetrics)
		return fmt.Errorf("cannot write metrics to %s: %w", path, err)
	}
	return nil
}

// RemoveFile removes the file of WriteFile at an ordinary stop, since values that are no longer updated mislead. After
// a crash the file remains, and its age reveals the crash.
func RemoveFile(path string) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("cannot remove the metrics file %s: %w", path, err)
	}
	err = dir.Remove(filepath.Base(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("cannot remove the metrics file %s: %w", path, err)
	} else {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

func (m *Metrics) writeFile(path string) error {
	name := filepath.Base(path)
	if !strings.HasSuffix(name, ".prom") {
		return errors.New("the node exporter reads only files whose name ends in .prom")
	}
	content, err := m.text()
	if err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	// A fixed name, so that killed processes leave at most one file. It does not end in .prom, so the node exporter
	// does not read it.
	tmp := "." + name + ".tmp"
	err = replace(dir, tmp, name, content)
	if err != nil {
		if rm := dir.Remove(tmp); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return errors.Join(err, dir.Close())
}

func replace(dir *os.Root, tmp, name string, content []byte) error {
	if err := dir.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644) // despite the umask, since the node exporter is another user
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(tmp, name)
}

func (m *Metrics) text() ([]byte, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
