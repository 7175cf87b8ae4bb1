package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
)

// process is one of the node's own.
type process struct {
	*os.Process
	ended chan struct{}
}

// command describes a process of the node.
type command struct {
	name   string // a link of node.link
	args   []string
	env    []string
	cgroup string // the path in the hierarchies, of a container or service
	err    *os.File
	files  []*os.File // from fd 4 on
	mounts bool       // in a mount namespace of its own
}

// spawn starts a process. It is in its cgroup before it has its name: a kubelet in a pod's cgroup is at no time one
// outside of it.
func (n *node) spawn(c command) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close() // opens the gate
	path := n.bin() + "/" + c.name
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{nameGate, path, c.name}, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.ExtraFiles = append([]*os.File{r}, c.files...)
	cmd.Stderr = c.err
	if c.err == nil {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // SIGINT of a terminal is for COMMAND
	if c.mounts {
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", c.name, err)
	}
	p := &process{cmd.Process, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is killed
		close(p.ended)
	}()
	if err := n.replaceFile("/proc/"+strconv.Itoa(p.Pid)+"/cgroup", n.cgroups.text(c.cgroup)); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// kill ends a process and waits for its end.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.Kill() // it may have ended
	<-p.ended
}

// runGate executes argv[1] as argv[2:] once fd 3 is closed at its other end.
func runGate() int {
	gate := os.NewFile(3, "gate")
	_, _ = io.Copy(io.Discard, gate)
	unix.CloseOnExec(3)
	return fail(unix.Exec(os.Args[1], os.Args[2:], os.Environ()))
}

// runAgent mounts a tmpfs on argv[1] and closes fd 4.
func runAgent() int {
	if err := mountTmpfs(os.Args[1]); err != nil {
		return fail(err)
	}
	_ = os.NewFile(4, "ready").Close()
	return pause()
}

// pause waits until the process is killed. The runtime of a program without cgo reports an empty select as a deadlock.
func pause() int {
	for {
		_ = unix.Pause() // it returns after each signal that the runtime handles
	}
}

// startPause starts a process in the cgroup of a container.
func (n *node) startPause(cgroup string) (*process, error) {
	return n.spawn(command{name: namePause, cgroup: cgroup})
}

// startAgent starts a process that mounts a tmpfs on the path in a mount namespace of its own, and waits for the mount.
func (n *node) startAgent(path string) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := n.spawn(command{name: nameAgent, args: []string{path}, cgroup: n.cgroups.service("agent.service"), files: []*os.File{w}, mounts: true})
	_ = w.Close()
	if err != nil {
		return nil, err
	}
	_, _ = r.Read(make([]byte, 1)) // the end of the file
	return p, nil
}

// kubeletProcess is a running stand-in of a kubelet.
type kubeletProcess struct {
	*process
	root       string
	number     byte
	send, acks *os.File
}

// tell sends the kubelet a message and waits until it has worked on it. COMMAND may have stopped it (SIGSTOP): then it
// works on it when it goes on.
func (k *kubeletProcess) tell(m kubelet.Message) error {
	k.number++
	m.Number = k.number
	if err := json.NewEncoder(k.send).Encode(m); err != nil {
		return err
	}
	for got := make([]byte, 1); got[0] != m.Number; {
		_ = k.acks.SetReadDeadline(time.Now().Add(poll)) // pipes have deadlines
		_, err := k.acks.Read(got)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && k.stopped():
			return nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
	return nil
}

func (p *process) stopped() bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/stat")
	return err == nil && bytes.Contains(text, []byte(") T "))
}

// stop kills it.
func (k *kubeletProcess) stop() {
	if k == nil {
		return
	}
	k.kill()
	_, _ = k.send.Close(), k.acks.Close()
}

// startKubelet starts a kubelet with a root directory and sends it the state of the node, on which it makes its first
// sweep. Its log goes to stderr, which is the other end of the stream, if there is one.
func (n *node) startKubelet(c kubelet.Config, cgroup string, stderr *os.File, st *journal.Stream) (*kubeletProcess, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	in, send, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	acks, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, _ = unix.FcntlInt(send.Fd(), unix.F_SETPIPE_SZ, 1<<20) // a stopped kubelet does not read
	args := []string{"--root-dir=" + c.Root, "--container-runtime-endpoint=unix://" + runtimeSocket, "--v=2"}
	if n.Kubelet == "1.19" {
		args = append(args, "--container-runtime=remote")
	}
	if n.Log == "json" {
		args = append(args, "--logging-format=json")
	}
	p, err := n.spawn(command{
		name: nameKubelet, args: args, env: []string{kubelet.Env + "=" + string(text)},
		cgroup: cgroup, err: stderr, files: []*os.File{in, out},
	})
	_, _ = in.Close(), out.Close()
	if err != nil {
		return nil, err
	}
	st.SetPID(p.Pid)
	k := &kubeletProcess{process: p, root: c.Root, send: send, acks: acks}
	return k, k.tell(kubelet.Message{State: new(n.kubeletState(c.Root))})
}
