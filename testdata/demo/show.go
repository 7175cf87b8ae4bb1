package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// demo is one showing.
type demo struct {
	*node
	*teller
	refused string // why there are no namespaces, "" where there are
	daemon  *exec.Cmd
	umount  string // the command that doctor prints
}

// story shows all parts and checks them.
func (d *demo) story(binary string) error {
	if err := d.make(binary); err != nil {
		return err
	}
	if err := d.start(context.Background()); err != nil {
		return err
	}
	parts := []func() error{d.before, d.work, d.after, d.undo, d.check}
	if !d.seesAll() {
		parts = []func() error{d.before, d.withoutProcesses}
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// seesAll reports whether the processes of these namespaces are visible: without them the
// daemon keeps everything.
func (d *demo) seesAll() bool {
	_, err := os.ReadFile("/proc/1/mountinfo")
	return err == nil
}

// pasted is a command of doctor's that ends a mount.
var pasted = regexp.MustCompile(`(?m)^    (umount '.*')$`)

func (d *demo) before() error {
	d.part("Before", "This node was made for the demo, in "+d.dir+". Its kubelet complains every two seconds, "+
		"in the words of a recorded one:")
	if err := d.awaitLine(safeUID); err != nil {
		return err
	}
	if _, err := d.shell(0, "tail -n 1 log/messages"); err != nil {
		return err
	}
	if d.refused != "" {
		d.say("This host allows no namespaces of our own (" + d.refused + "). So nothing is mounted, and no mount is shown.")
	}
	want := 3
	if !d.seesAll() {
		want = -1
	}
	told, err := d.shell(want, "orphan-reaper doctor --config node.yaml")
	if m := pasted.FindStringSubmatch(told); m != nil {
		d.umount = m[1]
	} else if err == nil && !d.plain {
		err = errors.New("doctor names no umount")
	}
	return err
}

// work runs the daemon until it has removed all that it may, then unmounts a volume as an operator does.
func (d *demo) work() error {
	d.part("At work", "The daemon moves one dead pod to quarantine. If nothing misses it, what holds no data is removed, and the "+
		"others follow. Seconds here are minutes by default. The records are shortened:")
	d.prompt("orphan-reaper run --config node.yaml &")
	if err := d.startDaemon(); err != nil {
		return err
	}
	for _, words := range [][]string{{safeUID, " removed: "}, {dataUID, " stripped: "}} {
		if _, err := d.await(words...); err != nil {
			return err
		}
	}
	if d.plain {
		return nil
	}
	d.say("It never unmounts anything. You do, as doctor said; the rest goes by itself:")
	if _, err := d.shell(0, d.umount); err != nil {
		return err
	}
	_, err := d.await(mountedUID, " removed: ")
	return err
}

func (d *demo) after() error {
	d.mute()
	d.part("After", "The kubelet is quiet:")
	told, err := d.shell(0, "orphan-reaper doctor --config node.yaml")
	if err == nil && !strings.Contains(told, "You have nothing to do.") {
		err = errors.New("doctor finds something to do")
	}
	if err != nil {
		return err
	}
	d.say("web-0 lives. A forged line of the kubelet about it is written into the log. It is kept all the same:")
	if err := d.forge(); err != nil {
		return err
	}
	told, err = d.shell(0, "orphan-reaper explain shop/web-0 --config node.yaml | grep -A1 Verdict")
	if err == nil && !strings.Contains(told, "This pod lives.") {
		err = errors.New("web-0 does not live")
	}
	return err
}

func (d *demo) undo() error {
	d.part("Undo", "orders.csv, in the CSI volume of orders-0, may be data: it waits in quarantine. One step "+
		"brings the pod back, and the kubelet will name it again:")
	if exists(d.pods(dataUID)) || find(d.path("kubelet", "orphan-reaper"), "orders.csv") == "" {
		return errors.New("orders.csv does not lie in quarantine")
	}
	_, err := d.shell(0, "orphan-reaper quarantine restore "+dataUID[:8]+" --config node.yaml")
	return err
}

// withoutProcesses is for a host that hides its processes.
func (d *demo) withoutProcesses() error {
	d.say("This host hides its processes (hidepid), so it is unknown what is mounted or in use elsewhere. " +
		"orphan-reaper keeps everything then.")
	if _, err := d.shell(3, "orphan-reaper sweep --dry-run --config node.yaml"); err != nil {
		return err
	}
	if !exists(d.pods(safeUID)) {
		return errors.New("cart-0 is gone, and nothing was to be changed")
	}
	for _, uid := range []string{dataUID, livingUID, startingUID, noUID} {
		if err := d.intact(uid); err != nil {
			return err
		}
	}
	return d.demand()
}

// shell shows a command as a user would type it, runs it, and shows its output. want is its
// exit code, -1 for any that is no failure.
func (d *demo) shell(want int, line string) (string, error) {
	d.prompt(line)
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = d.dir, d.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	d.write(string(out))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if code := cmd.ProcessState.ExitCode(); code != want && (want >= 0 || code != 0 && code != 3) {
		return "", fmt.Errorf("%s ended with code %d", line, code)
	}
	return string(out), nil
}

func (d *demo) startDaemon() error {
	d.daemon = exec.Command(d.path("bin", "orphan-reaper"), "run", "--config", "node.yaml")
	d.daemon.Dir, d.daemon.Env = d.dir, d.env()
	d.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := d.daemon.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.daemon.Start(); err != nil {
		return err
	}
	d.ended, d.began = make(chan struct{}), time.Now()
	go d.listen(stderr)
	return nil
}

// stopDaemon stops it as systemd does, and returns how it ended.
func (d *demo) stopDaemon() error {
	cmd := d.daemon
	if cmd == nil {
		return nil
	}
	d.daemon = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	<-d.ended // all of stderr must be read before Wait (os/exec, StderrPipe)
	return cmd.Wait()
}

// awaitLine waits until the kubelet has named the pod.
func (d *demo) awaitLine(uid string) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if strings.Contains(strings.Join(d.lines(), "\n"), uid) {
			return nil
		}
	}
	return errors.New("the kubelet wrote nothing")
}

// end stops whatever still runs.
func (d *demo) end() {
	_ = d.stopDaemon() // check has the result
	d.stop()
}
