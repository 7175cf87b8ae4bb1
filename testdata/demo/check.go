package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// check stops the daemon and checks each claim on disk.
func (d *demo) check() error {
	quiet, err := d.await(safeUID, " quiet: ")
	if err != nil {
		return err
	}
	stopped := d.stopDaemon()
	d.stop()
	d.say("Checked, on disk:")
	failed := 0
	say := func(ok bool, text string) {
		word := "ok    "
		if !ok {
			word = "FAILED"
			failed++
		}
		d.write("  " + word + "  " + text + "\n")
	}
	say(!exists(d.pods(safeUID)) && find(d.path("kubelet"), "password") == "", "cart-0 is gone, its Secret, too")
	say(d.intact(dataUID) == nil, "orders-0 was in quarantine and is back, orders.csv byte for byte")
	if !d.plain {
		report, err := os.ReadFile(d.path(storedReport))
		say(!exists(d.pods(mountedUID)) && err == nil && string(report) == fiveYears,
			"reports-0 is gone, and what was mounted in it is whole")
	}
	say(d.intact(livingUID) == nil && d.intact(startingUID) == nil && d.intact(noUID) == nil,
		"web-0, a pod that starts, and lost+found (no pod) are untouched")
	say(stopped == nil, "the daemon ended when it was told to, and left no error")
	if failed > 0 {
		return fmt.Errorf("%d of these failed", failed)
	}
	_, quiet, _ = strings.Cut(quiet, " quiet: ")
	d.write("\n" + besideName.ReplaceAllString(quiet, "") + "\n")
	return d.demand()
}

// demand fails a demo that could not show everything where that was asked for.
func (d *demo) demand() error {
	if d.refused != "" && os.Getenv("REQUIRE_ROOT") == "1" {
		return errors.New("REQUIRE_ROOT=1, and not everything could be shown: " + d.refused)
	}
	return nil
}

// intact returns an error unless the pod's canary is where it was, as it was.
func (d *demo) intact(uid string) error {
	for path, want := range canaries {
		if !strings.HasPrefix(path, uid+"/") {
			continue
		}
		got, err := os.ReadFile(d.pods(path))
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s holds %q", path, got)
		}
	}
	return nil
}

// exists reports whether there is a file or directory.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// find looks for a file of that name anywhere below dir.
func find(dir, name string) (found string) {
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == name {
			found = path
		}
		return nil
	})
	return found
}
