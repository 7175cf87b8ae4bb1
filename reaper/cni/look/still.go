package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

var errChanged = errors.New("it is no longer what was judged")

// Still looks at files once more before they are archived, and sets Err of those that are gone, or
// others by now. A plugin's DEL may have removed them since they were read: an undo would bring back
// what nobody took. It asks by name and opens no file.
func (r *Reader) Still(ctx context.Context, files []cni.File) {
	for from := 0; from < len(files); {
		to := from + 1
		for to < len(files) && to-from < batchSize && files[to].Dir == files[from].Dir && files[to].Kind == files[from].Kind {
			to++
		}
		errs, err := r.stillIn(ctx, files[from:to])
		for i := range files[from:to] {
			c := &files[from+i]
			if err != nil {
				c.Err = cmp.Or(c.Err, err.Error())
			} else if errs[i] != nil {
				c.Err = cmp.Or(c.Err, errs[i].Error())
			}
		}
		from = to
	}
}

// stillIn looks at files of one directory.
func (r *Reader) stillIn(ctx context.Context, files []cni.File) ([]error, error) {
	d, err := r.dirOf(&files[0])
	if err != nil {
		return nil, err
	}
	type name struct {
		name string
		id   cni.FileID
	}
	names := make([]name, len(files)) // copies: a look that hangs must not see what becomes of files
	for i := range files {
		names[i] = name{files[i].Name, files[i].ID}
	}
	type answer struct {
		errs []error
		err  error
	}
	a, err := bounded.Do(ctx, r.Guard, "cni still "+d.path, func() answer {
		fd, err := openDirectory(r.Open, d)
		if err != nil {
			return answer{err: err}
		}
		defer beneath.Close(fd)
		errs := make([]error, len(names))
		for i, n := range names {
			switch st, err := beneath.StatName(fd, n.name); {
			case err != nil:
				errs[i] = beneath.PathError("statx", n.name, err)
			case fileID(&st) != n.id:
				errs[i] = errChanged
			}
		}
		return answer{errs: errs}
	})
	if err = cmp.Or(err, a.err); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", clean.Name(d.path), err)
	}
	return a.errs, nil
}

// dirOf finds the directory of a file, to open it as the sweep did.
func (r *Reader) dirOf(f *cni.File) (directory, error) {
	if f.Kind == cni.Address {
		return directory{f.Kind, filepath.Dir(f.Dir), []string{filepath.Base(f.Dir)}, f.Dir}, nil
	}
	for _, base := range r.CacheDirs {
		for _, c := range cacheDirs {
			d := cacheDir(base, c.kind, c.names)
			if d.kind == f.Kind && d.path == f.Dir {
				return d, nil
			}
		}
	}
	return directory{}, fmt.Errorf("%s is below no cache directory", clean.Name(f.Dir))
}
