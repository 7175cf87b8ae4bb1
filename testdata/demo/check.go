package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shownMetrics are those that say most.
var shownMetrics = []string{
	"orphan_reaper_sightings_total", "orphan_reaper_parked_pods_total", "orphan_reaper_reaped_pods_total",
	"orphan_reaper_removed_entries_total", "orphan_reaper_orphans", "orphan_reaper_stray_entries", "orphan_reaper_breaker_open",
}

// figures shows some of the metrics.
func (d *demo) figures() error {
	if err := d.await(dataUID, " kept: ", "restored"); err != nil {
		return err
	}
	d.heading("Metrics")
	d.say("For the node exporter, in metrics/orphan-reaper.prom; some of them:")
	text, err := d.metrics()
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, labelled := strings.Cut(name, "{")
		if slices.Contains(shownMetrics, name) && (!labelled || value != "0") {
			b.WriteString(line)
		}
	}
	d.quote(b.String())
	return nil
}

func (d *demo) metrics() (string, error) {
	text, err := os.ReadFile(d.path("metrics", "orphan-reaper.prom"))
	return string(text), err
}

// counted says whether the metrics agree with the story.
func (d *demo) counted() bool {
	text, err := d.metrics()
	return err == nil && containsAll(text, []string{
		"\norphan_reaper_parked_pods_total 2\n", "\norphan_reaper_reaped_pods_total 1\n", "\norphan_reaper_breaker_open 0\n",
	})
}

// check stops the daemon and looks whether all is as it was told.
func (d *demo) check() error {
	d.heading("Checked")
	counted := d.counted() // a stop takes the figures away
	stopped := d.stopDaemon()
	d.stop()
	d.gap()
	var failed int
	say := func(ok bool, text string) {
		word := "ok    "
		if !ok {
			word = "FAILED"
			failed++
		}
		d.write(wrap("  "+word+"  ", strings.Repeat(" ", 10), text))
	}
	say(!exists(d.pods(safeUID)) && find(d.path("kubelet"), "password") == "", "cart-0 is gone from the pods directory and from quarantine")
	for _, c := range []struct{ uid, text string }{
		{dataUID, "orders-0 was in quarantine and is back, orders.csv byte for byte"},
		{mountedUID, "reports-0 is where it was, its volume is mounted, and nothing in it was touched"},
		{livingUID, "web-0, of which a forged line spoke, has its files"},
		{startingUID, "the pod that starts has its files"},
		{noUID, noUID + ", which is no pod, was left alone"},
	} {
		if c.uid != mountedUID || !d.plain {
			say(d.intact(c.uid) == nil, c.text)
		}
	}
	if !d.plain {
		say(mounted(d.pods(mountedUID)), "the mount is still a mount")
	}
	say(counted, "the metrics count two pods parked and one reaped")
	say(stopped == nil, "the daemon ended when it was told to")
	if failed > 0 {
		return fmt.Errorf("%d of these failed", failed)
	}
	d.say("That is all. Nothing of it is left on this host: the directory and the processes go with this demo. " +
		"On a node of yours, orphan-reaper scan and orphan-reaper run --mode observe look and change nothing.")
	return d.demand()
}

// demand fails a demo that could not show everything where that was asked for.
func (d *demo) demand() error {
	if d.refused != "" && os.Getenv("REQUIRE_ROOT") == "1" {
		return errors.New("REQUIRE_ROOT=1, and not everything could be shown: " + d.refused)
	}
	return nil
}

// intact says whether the pod's canary is where it was, as it was.
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

// mounted says whether something is mounted below the directory.
func mounted(dir string) bool {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(text), " "+filepath.Clean(dir)+"/")
}
