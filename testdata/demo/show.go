package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// demo is one showing.
type demo struct {
	*node
	*teller
	binary  string
	refused string // why there are no namespaces, "" where there are
	daemon  *exec.Cmd
}

// story tells the whole story and checks it.
func (d *demo) story() error {
	if err := d.beginning(); err != nil {
		return err
	}
	if !d.seesAll() {
		return d.withoutProcesses()
	}
	for _, part := range []func() error{d.look, d.reap, d.undo, d.explain, d.figures} {
		if err := part(); err != nil {
			return err
		}
	}
	return d.check()
}

// seesAll says whether the processes of these namespaces can be seen: without them the
// daemon keeps everything, and rightly so.
func (d *demo) seesAll() bool {
	_, err := os.ReadFile("/proc/1/mountinfo")
	return err == nil
}

func (d *demo) beginning() error {
	if err := d.make(); err != nil {
		return err
	}
	d.say("orphan-reaper removes the directories that dead pods left on a Kubernetes node, and nothing else. " +
		"Here it runs on a node that was made for it.")
	if d.refused != "" {
		d.say("Note: this host does not let us have namespaces of our own (" + d.refused + "). " +
			"So nothing is mounted, and what needs a mount is not shown.")
	}
	d.heading("The node")
	d.say("The node is the directory " + d.dir + ". The pods directory of its kubelet, kubelet/pods, holds:")
	d.quote(d.inventory())
	return d.start(context.Background())
}

func (d *demo) inventory() string {
	rows := [][2]string{
		{safeUID, "cart-0: dead; the kubelet's own files and a\nSecret are left"},
		{dataUID, "orders-0: dead; somebody's orders.csv lies in\nthe directory of a CSI volume"},
		{mountedUID, "reports-0: dead; its volume is still mounted"},
		{livingUID, "web-0: lives, the runtime runs its container"},
		{startingUID, "starts: waits for a Secret; has a cgroup, but\nno sandbox and no container"},
		{noUID, "is no pod"},
	}
	var b strings.Builder
	for _, row := range rows {
		if row[0] == mountedUID && d.plain {
			continue
		}
		name := row[0]
		if len(name) == 36 {
			name = name[:8] + "-…"
		}
		for i, line := range strings.Split(row[1], "\n") {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-11s  %s\n", name, line)
		}
	}
	return b.String()
}

// look shows the log, what is read in it, and the first verdicts.
func (d *demo) look() error {
	if err := d.awaitLine(safeUID); err != nil {
		return err
	}
	d.say("A process named kubelet names an orphan in its log every 2 s, in the words of a recorded kubelet 1.30:")
	d.quote(fold(d.lines()[0], width-4))
	if err := d.forge(); err != nil {
		return err
	}
	d.say("And somebody forged the same line with the kubelet's PID for web-0, which lives.")
	d.heading("What a look finds")
	d.say("A line in a log is a hint and no proof. orphan-reaper looks for itself: at the mounts of all mount namespaces, " +
		"at the runtime, the cgroups, the kubelet's own files, open files, and what each directory holds. scan changes nothing.")
	return d.command(3, "scan")
}

// reap runs the daemon until it has taken all that may go.
func (d *demo) reap() error {
	d.heading("The daemon")
	d.say("It looks twice, moves one dead pod aside, and waits whether anything misses it: a kubelet makes a living pod's " +
		"directory again. Only then the others follow, and only in quarantine anything is removed. The times are seconds here; " +
		"by default they are minutes. What follows are the daemon's own records; only UIDs and paths are cut.")
	d.prompt("run")
	if err := d.startDaemon(); err != nil {
		return err
	}
	if err := d.await(safeUID, " removed: "); err != nil {
		return err
	}
	if err := d.await(dataUID, " stripped: "); err != nil {
		return err
	}
	d.say("cart-0 is gone, Secret and all. orders-0 lies in quarantine: what may be a user's data is never purged but by a person.")
	return nil
}

func (d *demo) undo() error {
	d.heading("Undo")
	if exists(d.pods(dataUID)) || find(d.path("kubelet", "orphan-reaper"), "orders.csv") == "" {
		return errors.New("orders.csv does not lie in quarantine")
	}
	if err := d.command(0, "quarantine", "list"); err != nil {
		return err
	}
	if err := d.command(0, "quarantine", "restore", dataUID); err != nil {
		return err
	}
	return d.intact(dataUID)
}

func (d *demo) explain() error {
	uid, name := mountedUID, "reports-0"
	if d.plain {
		uid, name = startingUID, "the pod that starts"
	}
	d.heading("Why is " + name + " kept?")
	return d.command(-1, "explain", uid)
}

// withoutProcesses is for a host that hides its processes: what can be seen is shown.
func (d *demo) withoutProcesses() error {
	if err := d.look(); err != nil {
		return err
	}
	d.heading("What would happen")
	d.say("This host hides its processes (hidepid), so nobody can tell what is mounted or in use elsewhere. " +
		"orphan-reaper keeps everything then.")
	if err := d.command(3, "sweep", "--dry-run"); err != nil {
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

// command runs orphan-reaper and shows it as a person would type it. want is its exit
// code, -1 for any that is no failure.
func (d *demo) command(want int, args ...string) error {
	d.prompt(args...)
	return d.alone(func() error {
		cmd := exec.Command(d.binary, append(args, "--config", "node.yaml")...)
		cmd.Dir = d.dir
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		code := cmd.ProcessState.ExitCode()
		if code != want && (want >= 0 || code != 0 && code != 3) {
			return fmt.Errorf("orphan-reaper %s ended with code %d", args[0], code)
		}
		return nil
	})
}

func (d *demo) startDaemon() error {
	d.daemon = exec.Command(d.binary, "run", "--config", "node.yaml")
	d.daemon.Dir = d.dir
	d.daemon.Stdout = os.Stdout
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

// stopDaemon stops it as systemd does, and says whether it ended well.
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
	_ = d.stopDaemon() // check has said how it ended, if the story came so far
	d.stop()
}
