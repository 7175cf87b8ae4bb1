// Command standin stands in for a kubelet and for a container runtime, where a test is about the path of a
// kubelet's lines through stderr, systemd and journald.
//
// By the name kubelet it runs with a kubelet's command line and logs lines of a real kubelet, with its own PID,
// on request: each line of the FIFO /run/kubelet.say is the name of a line (names, holds) and a pod's UID. By
// any other name it is a runtime: its arguments are a CRI socket and the UIDs of the running pods.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

func main() {
	var err error
	if filepath.Base(os.Args[0]) == "kubelet" {
		err = kubelet()
	} else {
		err = runtime(os.Args[1], os.Args[2:])
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runtime runs nothing and lists the pods as running.
func runtime(socket string, uids []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := os.MkdirAll(filepath.Dir(socket), 0o711); err != nil {
		return err
	}
	s, err := fakecri.Start(ctx, socket, fakecri.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	var pods []fakecri.Pod
	for i, uid := range uids {
		// A kubelet keeps the log directory of what runs; without it the silence of one proves nothing.
		if err := os.MkdirAll(fmt.Sprintf("/var/log/pods/e2e_living-%d_%s", i, uid), 0o750); err != nil {
			return err
		}
		pods = append(pods, fakecri.Pod{UID: uid, Namespace: "e2e", Name: fmt.Sprintf("living-%d", i), Running: 1})
	}
	s.SetPods(pods...)
	<-ctx.Done()
	return nil
}

// words are the lines of kubelet 1.30 (testdata/recorded), with $POD for its UID.
var words = map[string]string{
	"names": `kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." ` +
		`err="orphaned pod \"$POD\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1`,
	// Not the error of a directory that is not empty: that one orphan-reaper helps with.
	"holds": `nestedpendingoperations.go:348] Operation for "{volumeName:kubernetes.io/nfs/$POD-vol podName:$POD nodeName:}" failed. ` +
		`No retries permitted until 2026-11-21 00:52:17.179824683 +0000 UTC m=+0.975158698 (durationBeforeRetry 500ms). ` +
		`Error: UnmountVolume.TearDown failed for volume "vol" (UniqueName: "kubernetes.io/nfs/$POD-vol") pod "$POD" (UID: "$POD") : ` +
		`remove /var/lib/kubelet/pods/$POD/volumes/kubernetes.io~nfs/vol: device or resource busy`,
}

// kubelet ends by a signal alone.
func kubelet() error {
	const say = "/run/kubelet.say"
	if err := unix.Mkfifo(say, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	// Open for writing, too: so it never ends.
	f, err := os.OpenFile(say, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := klog('I', `server.go:487] "Kubelet version" kubeletVersion="v1.30.14"`); err != nil {
		return err
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		word, uid, _ := strings.Cut(lines.Text(), " ")
		text, ok := words[word]
		if !ok {
			return fmt.Errorf("standin: no line for %q", lines.Text())
		}
		if err := klog('E', strings.ReplaceAll(text, "$POD", uid)); err != nil {
			return err
		}
	}
	return errors.New("standin: the FIFO has ended")
}

// klog writes one line as k8s.io/klog does.
func klog(severity rune, text string) error {
	_, err := fmt.Fprintf(os.Stderr, "%c%s %7d %s\n", severity, time.Now().Format("0102 15:04:05.000000"), os.Getpid(), text)
	return err
}
