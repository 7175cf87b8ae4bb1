package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// recording has the lines of a real kubelet.
const recording = "testdata/recorded/kubelet-1.30.log"

// recorded returns the first recorded report of a volume that is not empty.
func recorded() (string, error) {
	b, err := os.ReadFile(recording)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "E") && strings.Contains(line, "failed to rmdir() volume") && strings.Contains(line, ": directory not empty") {
			return strings.TrimSuffix(line, "\n"), nil
		}
	}
	return "", fmt.Errorf("%s holds no report of a volume that is not empty", recording)
}

// klogHeader is what klog puts before its text: severity, date, time, PID in seven columns,
// file and line (klog's format, k8s.io/klog/v2 klog.go, formatHeader).
var klogHeader = regexp.MustCompile(`^E\d{4} [0-9:.]{15} [ 0-9]{7} `)

var (
	podPath = regexp.MustCompile(`path \S+:`)
	podUID  = regexp.MustCompile(`pod \\"[-0-9a-f]+\\"`)
	howMany = regexp.MustCompile(`numErrs=\d+`)
)

// report is the recorded line as the kubelet pid would write it now, in a syslog file.
func report(line string, pid int, uid, path string, count int, at time.Time) string {
	header := fmt.Sprintf("E%s %7d ", at.Format("0102 15:04:05.000000"), pid)
	line = klogHeader.ReplaceAllLiteralString(line, header)
	line = podUID.ReplaceAllLiteralString(line, `pod \"`+uid+`\"`)
	line = podPath.ReplaceAllLiteralString(line, "path "+path+":")
	line = howMany.ReplaceAllLiteralString(line, fmt.Sprintf("numErrs=%d", count))
	return fmt.Sprintf("%s node-1 kubelet[%d]: %s\n", at.Format("2006-01-02T15:04:05.000000-07:00"), pid, line)
}

// runKubelet is the process named kubelet. Every 2 s it reads its pods directory, as a
// kubelet does, and reports one orphan: the first in order, until that is
// gone. It reports no pod with a mount, as kubelets do since 1.14: its volume
// manager has to unmount that first.
func runKubelet() error {
	line, root := os.Getenv("DEMO_LINE"), ""
	wanted := strings.Split(os.Getenv("DEMO_WANTED"), " ")
	for _, arg := range os.Args {
		if value, ok := strings.CutPrefix(arg, "--root-dir="); ok {
			root = value
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	housekeeping := time.NewTicker(2 * time.Second)
	defer housekeeping.Stop()
	for {
		if err := nameOrphan(line, root, wanted); err != nil {
			return err
		}
		select {
		case <-housekeeping.C:
		case <-stop:
			return nil
		}
	}
}

func nameOrphan(line, root string, wanted []string) error {
	pods, err := filepath.Glob(root + "/pods/*-*-*-*-*")
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var first, path string
	count := 0
	for _, pod := range pods {
		uid := filepath.Base(pod)
		volumes, err := filepath.Glob(pod + "/volumes/*/*")
		if err != nil {
			return err
		}
		if len(volumes) == 0 || slices.Contains(wanted, uid) || strings.Contains(string(mounts), uid) {
			continue
		}
		if count++; first == "" {
			first, path = uid, volumes[0]
		}
	}
	if first == "" {
		return nil
	}
	_, err = os.Stdout.WriteString(report(line, os.Getpid(), first, path, count, time.Now()))
	return err
}
