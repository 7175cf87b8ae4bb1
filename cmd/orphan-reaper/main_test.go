package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	// testLoginUID is the file from which the program reads the login user, instead of the machine's.
	testLoginUID = "TEST_LOGINUID"
	// testNode is the directory of a script's node.
	testNode = "TEST_NODE"
)

// TestMain makes the program a command of the tests and the scripts.
func TestMain(m *testing.M) {
	// A test that systemd started must not notify it.
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "JOURNAL_STREAM"} {
		_ = os.Unsetenv(name) // cannot fail for these names
	}
	commands := map[string]func(){
		// The program on a script's node.
		"orphan-reaper": func() {
			os.Exit(runOnNode(os.Getenv(testNode), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		},
		// The program with the flags of newNode.
		"orphan-reaper-whole": func() {
			if err := ownNode(os.Args[1:]); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				os.Exit(99)
			}
			var person app.Person
			if file := os.Getenv(testLoginUID); file != "" {
				person.LoginUID, person.SudoUser = file, os.Getenv("SUDO_USER")
			}
			os.Exit(runAs(person, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		},
		// A process of that name that runs until its input ends.
		"kubelet": func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	}
	if commands[filepath.Base(os.Args[0])] == nil {
		testkit.Alone()
	}
	testscript.Main(m, commands)
}

// nodeFlags returns the flags that set the default paths below dir, without a kubelet and a runtime.
func nodeFlags(dir string) []string {
	return []string{"--node-root=" + dir, "--node-namespaces=self", "--runtime-endpoint=none", "--log-format=text"}
}

// runOnNode runs the program in this process on the node below dir. Commands that use no node get no flags.
func runOnNode(dir string, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	uses := []string{"doctor", "run", "scan", "explain", "sweep", "quarantine", "config"}
	at := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(uses, arg) })
	if at >= 0 && args[0] != "fleet" && args[0] != "help" && !slices.Contains(args, "--as") {
		if !filepath.IsAbs(dir) || dir == "/" {
			_, _ = fmt.Fprintln(stderr, "a test starts the program without a node of its own")
			return 99
		}
		args = slices.Insert(slices.Clone(args), at+1, nodeFlags(dir)...)
	}
	return runAs(app.Person{}, args, stdin, stdout, stderr, env)
}

// makeNode makes the directories of a node without pods below dir.
func makeNode(dir string) error {
	for _, name := range []string{"var/lib/kubelet/pods", "sys/fs/cgroup/kubepods", "etc/cni/net.d"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func TestScripts(t *testing.T) {
	testkit.NeedProcesses(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv(testNode, filepath.Join(e.WorkDir, "node"))
			e.Setenv("PODS", "node/var/lib/kubelet/pods")
			for i := range 3 {
				e.Setenv(fmt.Sprintf("U%d", i+1), wholeUID(i+1))
			}
			return makeNode(filepath.Join(e.WorkDir, "node"))
		},
		// exits N ARGS...: the program must end with exactly that code. orphan UID [data]: makes a dead pod.
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "orphan": orphan},
	})
}

// orphan makes the residue of a pod, and with data a user's file.
func orphan(ts *testscript.TestScript, _ bool, args []string) {
	pod := ts.MkAbs("node/var/lib/kubelet/pods/" + args[0])
	files := []string{"etc-hosts", "volumes/kubernetes.io~projected/token/..data/token"}
	if len(args) > 1 {
		files = append(files, "volumes/kubernetes.io~nfs/share/file")
	}
	for _, name := range files {
		name = filepath.Join(pod, name)
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		ts.Check(os.WriteFile(name, []byte("of "+args[0]), 0o600))
	}
}

// exits runs the program in this process, because exec reports only zero or nonzero codes.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	var out, errs bytes.Buffer
	for i, a := range args {
		if strings.HasPrefix(a, "./") {
			args[i] = ts.MkAbs(a)
		}
	}
	code := runOnNode(ts.Getenv(testNode), args[1:], strings.NewReader(""), &out, &errs, ts.Getenv)
	ts.Logf("%s%s", out.String(), errs.String())
	if want := args[0]; want != fmt.Sprint(code) {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

var errTest = errors.New("the node is away")

// testUID is a pod for tests that need one.
const testUID = "0badf00d-0001-4aaa-8bbb-cccc00000001"

func noEnv(string) string { return "" }

// call runs the program on a node without pods.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	var out, errs bytes.Buffer
	code = runOnNode(node, args, strings.NewReader(""), &out, &errs, noEnv)
	return code, out.String(), errs.String()
}

// fits fails on a line of more than 80 columns, or the given number, and on spaces at the end of a line. Rows of a
// table in a pipe, which have tabs, and commands may have any length.
func fits(t *testing.T, what, text string, columns ...int) {
	t.Helper()
	most := append(columns, 80)[0]
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		pasted := strings.Contains(line, " --node-root ")
		if n := utf8.RuneCountInString(line); n > most && !strings.Contains(line, "\t") && !pasted {
			t.Errorf("%s: %d columns: %s", what, n, line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("%s: space at the end: %q", what, line)
		}
	}
}

// ownNode refuses to start the program as a test's command on anything but a node that the test has made. make test
// once ran as root on a machine with networks of its own and deleted its reserved addresses, because one test had
// left out one directory.
func ownNode(args []string) error {
	at := slices.Index(args, "--node-root")
	if at < 0 || at+1 == len(args) || !filepath.IsAbs(args[at+1]) || args[at+1] == "/" {
		return errors.New("a test starts the program without a node of its own: newNode gives one")
	}
	return nil
}

// TestOwnNode checks that a test without a node of its own does not start the program.
func TestOwnNode(t *testing.T) {
	for _, args := range [][]string{{"sweep"}, {"scan", "--root-dir", t.TempDir()}, {"sweep", "--node-root"}, {"sweep", "--node-root", "/"}} {
		if ownNode(args) == nil {
			t.Errorf("%q starts the program", args)
		}
	}
	if err := ownNode(append([]string{"sweep"}, newWholeNode(t).args...)); err != nil {
		t.Error(err)
	}
}

// needNamespaces skips without mount and PID namespaces in which file systems can be mounted.
func needNamespaces(t *testing.T) {
	t.Helper()
	testkit.NeedRoot(t)
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		testkit.Skip(t, "this needs mount and PID namespaces: ", err, ": ", string(out))
	}
}

// TestNoHost checks that the tests see no process and no kubelet of this machine.
func TestNoHost(t *testing.T) {
	needNamespaces(t)
	if os.Getppid() != 1 {
		t.Errorf("these tests are a child of process %d", os.Getppid())
	}
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil || !bytes.Contains(first, []byte(filepath.Base(os.Args[0]))) {
		t.Errorf("the first process is %q, %v", first, err)
	}
}

// needCapability skips without this capability of capabilities(7).
func needCapability(t *testing.T, name string, capability int) {
	t.Helper()
	testkit.NeedRoot(t)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	testkit.Must(t, unix.Capget(&hdr, &data[0]))
	if data[capability/32].Effective&(1<<(capability%32)) == 0 {
		testkit.Skip(t, "this needs ", name)
	}
}

// TestCanary checks that the canary of make test detects a sweep that touches the machine. The one wrong directory
// here is the one that a test once left out.
func TestCanary(t *testing.T) {
	needNamespaces(t)
	canary := filepath.Join(t.TempDir(), "canary")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", canary, "../../testdata/canary").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name, script string
		wrong        []string
	}{
		{"a node of its own", `exec "$@"`, nil},
		{
			"the machine's networks", `exec "$@" --cni-conf-dir /etc/cni/net.d --cni-data-dir /var/lib/cni/networks`,
			[]string{"/var/lib/cni/networks/canary/10.99.0.2 is gone"},
		},
		{"the machine's state", `exec "$@" --state-dir /var/lib/orphan-reaper`, []string{"/var/lib/orphan-reaper/append.lock is new"}},
		{"the machine's runtime", `exec "$@" --runtime-endpoint unix:///run/containerd/containerd.sock`, []string{"the runtime was connected to"}},
		{"the machine's journal", `exec "$@" --log-format journal`, []string{"the journal was written to"}},
		{"opened only", `exec 3<>/var/lib/kubelet/orphan-reaper/.keep`, []string{"/var/lib/kubelet/orphan-reaper/.keep was opened for writing"}},
		{"another mode", `chmod 0700 /etc/cni`, []string{"/etc/cni has other attributes", "/etc/cni was mode 40755"}},
		{"a new name", `mkdir /var/lib/orphans`, []string{"/var/lib/orphans is new"}},
	} {
		n := newWholeNode(t)
		n.pod(1, false)
		n.args = append(n.args, "--cni-older-than", "0s")
		sweep := n.command("sweep", "--no-wait").Args
		sweep[0], _ = exec.LookPath(sweep[0]) // the shell would search another PATH
		cmd := bounded(t, canary, append([]string{"sh", "-c", c.script, "sh"}, sweep...)...)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (len(c.wrong) > 0) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		for _, want := range c.wrong {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: want %q\n%s", c.name, want, out)
			}
		}
	}
}
