// Package program is the program testdata/node, which has its documentation: it makes the node, plays its pods and its runtime,
// and changes them.
package program

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
)

const usage = `Usage: node [FLAGS] DIR -- COMMAND [ARG…]

Makes a Kubernetes node below DIR, runs COMMAND in it and returns its exit code.

  --kubelet 1.19|1.28|1.33|1.37     what the kubelet does and prints (default 1.33)
  --log text|json|syslog|journal    where and how it logs (default text)
  --cgroup v1|v2                    the cgroup hierarchy (default v2)
  --every DURATION                  how often it looks for orphaned pods (default 2s)
  --pods FILE                       a line for each pod: NAME UID STATE [WORD…]

STATE is one of %s.
WORD is one of %s,
  %s, files=N and cni=NET.

COMMAND's environment has OR_FLAGS, NODE_PODS, NODE_CNI, NODE_CNI_CONF, NODE_LOG, and NODE_CTL: a file. Lines that are
appended to it change the node:

`

// printUsage prints what the program does, with the states, words and commands.
func printUsage() {
	fmt.Printf(usage, strings.Join(stateNames(), ", "), strings.Join(plainWords[:7], ", "), strings.Join(plainWords[7:], ", "))
	for _, c := range controls() {
		fmt.Println(" ", c.usage())
	}
}

// The names under which this program starts itself, as argv[0].
const (
	nameInit       = "node-init"    // PID 1: it starts nameControl and waits for all processes
	nameControl    = "node-control" // makes the node, changes it and runs COMMAND
	nameGate       = "node-gate"    // waits until its cgroup is set, and executes another
	nameKubelet    = "kubelet"
	nameJournalctl = "journalctl"
	nameRmdir      = "rmdir"
	namePause      = "pause" // a container's process
	nameAgent      = "agent" // a process that mounts in its own namespace
)

// config is what the caller asked for.
type config struct {
	Kubelet, Log, Cgroup string
	Every                time.Duration
	Dir                  string
	Command              []string
	Pods                 []podSpec
}

// Name is the name of the program as its user starts it.
const Name = "node"

// own are the processes of the node.
var own = map[string]func() int{
	nameInit:       runInit,
	nameControl:    runControl,
	nameGate:       runGate,
	nameKubelet:    runKubelet,
	nameJournalctl: func() int { return journal.Journalctl(os.Args[1:]) },
	nameRmdir:      func() int { return runRmdir(os.Args[1:]) },
	namePause:      pause,
	nameAgent:      runAgent,
}

// Main is the program, or one of the processes that it starts from its own file, by the name in argv[0]. It returns the
// exit code, and ok is false if argv[0] is another name.
func Main() (code int, ok bool) {
	name := filepath.Base(os.Args[0])
	if run := own[name]; run != nil {
		return run(), true
	}
	if name != Name {
		return 0, false
	}
	c, err := parseArgs(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage()
		return 0, true
	case err != nil:
		return fail(err), true
	}
	return start(c), true
}

func runKubelet() int {
	if err := kubelet.Run(); err != nil {
		return fail(err)
	}
	return 0
}

// fail prints an error and returns the exit code of a wrong usage and of a node that cannot be made.
func fail(err error) int {
	fmt.Fprintln(os.Stderr, "node:", err)
	return 2
}

// parseArgs parses the command line and reads FILE.
func parseArgs(args []string) (config, error) {
	var c config
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.Kubelet, "kubelet", "1.33", "")
	f.StringVar(&c.Log, "log", "text", "")
	f.StringVar(&c.Cgroup, "cgroup", "v2", "")
	f.DurationVar(&c.Every, "every", 2*time.Second, "")
	file := f.String("pods", "", "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"kubelet", c.Kubelet, []string{"1.19", "1.28", "1.33", "1.37"}},
		{"log", c.Log, []string{"text", "json", "syslog", "journal"}},
		{"cgroup", c.Cgroup, []string{"v1", "v2"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return c, fmt.Errorf("--%s is %q: use one of %s", choice.flag, choice.value, strings.Join(choice.of, ", "))
		}
	}
	if c.Every <= 0 {
		return c, fmt.Errorf("--every is %s: use a duration above 0", c.Every)
	}
	rest := f.Args()
	if len(rest) < 3 || rest[1] != "--" {
		return c, errors.New("DIR -- COMMAND is missing; see node --help")
	}
	c.Command = rest[2:]
	var err error
	if c.Dir, err = nodeDir(rest[0]); err != nil {
		return c, err
	}
	name, text := "the default pods", []byte(defaultPods)
	if *file != "" {
		name = *file
		if text, err = os.ReadFile(*file); err != nil {
			return c, fmt.Errorf("cannot read --pods: %w", err)
		}
	}
	c.Pods, err = parsePods(name, string(text))
	return c, err
}

// nodeDir makes DIR and returns its path without symbolic links.
func nodeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := usable(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot make DIR: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("cannot use DIR: %w", err)
	}
	return dir, usable(dir)
}

// usable returns an error for a directory that the node hides, and for a path that OR_FLAGS cannot contain.
func usable(dir string) error {
	if strings.ContainsAny(dir, " \t\n\\'\"") {
		return fmt.Errorf("DIR is %q: use a path without spaces, quotes and backslashes, since OR_FLAGS has it", dir)
	}
	for _, hidden := range append(slices.Clone(coveredDirs), "/proc", "/sys", "/run", "/var/run", "/var/log") {
		if dir == hidden || strings.HasPrefix(dir, hidden+"/") {
			return fmt.Errorf("DIR is %s: the node has another %s; use a directory elsewhere", dir, hidden)
		}
	}
	return nil
}

// start runs the node in namespaces of its own and returns the exit code of COMMAND.
func start(c config) int {
	text, err := json.Marshal(c)
	if err != nil {
		return fail(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	runtime.LockOSThread() // PR_SET_PDEATHSIG fires when the thread that started the child ends (prctl(2))
	cmd, in, err := startInit(os.Geteuid() != 0)
	if os.Geteuid() == 0 && errors.Is(err, unix.EPERM) {
		cmd, in, err = startInit(true) // root of a container without CAP_SYS_ADMIN
	}
	if err != nil {
		return fail(refused(err))
	}
	go func() {
		_, _ = in.Write(text) // init reports what is missing
		_ = in.Close()
	}()
	go forward(signals, cmd.Process)
	return exitCode(cmd.Wait())
}

func startInit(user bool) (*exec.Cmd, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{nameInit}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP,
		Pdeathsig:  unix.SIGKILL,
	}
	if user {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	return cmd, w, nil
}

// forward passes on signals that end a program. SIGINT comes from a terminal, which sends it to COMMAND, too.
func forward(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		if s != unix.SIGINT {
			_ = to.Signal(s)
		}
	}
}

// exitCode returns what a shell returns for a command that has ended.
func exitCode(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		return fail(err)
	}
	return statusCode(unix.WaitStatus(exit.Sys().(syscall.WaitStatus)))
}

func statusCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// runInit is PID 1 of the node. When it ends, the kernel ends all other processes (pid_namespaces(7)).
func runInit() int {
	if err := firstMounts(); err != nil {
		return fail(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	control, err := os.StartProcess("/proc/self/exe", []string{nameControl}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(3, "config")},
	})
	if err != nil {
		return fail(err)
	}
	go forward(signals, control)
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fail(err)
		case pid == control.Pid:
			return statusCode(status)
		}
	}
}
