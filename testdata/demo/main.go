// Kubelet plays the kubelet of the demo's node, and its runtime: show.sh starts it under the name kubelet.
//
// Every 2 s it reads its pods directory, as a kubelet does, and reports one orphan in the words of a recorded kubelet, with its
// own PID and the time: the first in order, until that is gone. It reports no pod with a mount, as kubelets do since 1.14: the
// volume manager has to unmount that first. On its CRI socket it lists one pod that runs (package fakecri).
//
// It is in testdata, which ./... leaves out, so that it is no part of what is built, tested and shipped; go vet
// ./testdata/demo checks it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

func main() {
	root := flag.String("root-dir", "", "as a kubelet's")
	endpoint := flag.String("container-runtime-endpoint", "", "as a kubelet's")
	flag.Parse()
	if err := run(*root, strings.TrimPrefix(*endpoint, "unix://")); err != nil {
		fmt.Fprintln(os.Stderr, "demo: kubelet:", err)
		os.Exit(1)
	}
}

// run reports orphans until the process is killed. DEMO_LINE is a recorded report, DEMO_LIVING the UID of the pod that
// runs, DEMO_STARTING that of one of which there is no sandbox yet.
func run(root, socket string) error {
	living := os.Getenv("DEMO_LIVING")
	runtime, err := fakecri.Start(context.Background(), socket, fakecri.Options{})
	if err != nil {
		return err
	}
	runtime.SetPods(fakecri.Pod{UID: living, Namespace: "shop", Name: "web-0", Running: 1, Created: time.Now().Add(-26 * time.Hour).UnixNano()})
	for ; ; time.Sleep(2 * time.Second) {
		pods, err := filepath.Glob(root + "/pods/*-*-*-*-*")
		if err != nil {
			return err
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		var orphans []string // a volume of each
		for _, pod := range pods {
			uid := filepath.Base(pod)
			volumes, err := filepath.Glob(pod + "/volumes/*/*")
			if err != nil {
				return err
			}
			if len(volumes) > 0 && uid != living && uid != os.Getenv("DEMO_STARTING") && !strings.Contains(string(mounts), uid) {
				orphans = append(orphans, volumes[0])
			}
		}
		if len(orphans) > 0 {
			fmt.Print(report(os.Getenv("DEMO_LINE"), orphans[0], len(orphans), time.Now()))
		}
	}
}

var (
	// klogHeader matches klog's header: severity, date, time, PID in seven columns,
	// file and line (klog's format, k8s.io/klog/v2 klog.go, formatHeader).
	klogHeader = regexp.MustCompile(`^E\d{4} [0-9:.]{15} [ 0-9]{7} `)
	podPath    = regexp.MustCompile(`path \S+:`)
	podUID     = regexp.MustCompile(`pod \\"[-0-9a-f]+\\"`)
	howMany    = regexp.MustCompile(`numErrs=\d+`)
)

// report is the recorded line as this kubelet would write it now about a volume, in a syslog file.
func report(line, volume string, count int, at time.Time) string {
	uid := filepath.Base(filepath.Join(volume, "../../.."))
	line = klogHeader.ReplaceAllLiteralString(line, fmt.Sprintf("E%s %7d ", at.Format("0102 15:04:05.000000"), os.Getpid()))
	line = podUID.ReplaceAllLiteralString(line, `pod \"`+uid+`\"`)
	line = podPath.ReplaceAllLiteralString(line, "path "+volume+":")
	line = howMany.ReplaceAllLiteralString(line, fmt.Sprintf("numErrs=%d", count))
	return fmt.Sprintf("%s node-1 kubelet[%d]: %s\n", at.Format("2006-01-02T15:04:05.000000-07:00"), os.Getpid(), line)
}
