package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/account"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/quiet"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// testLoginUID names the file in which the whole program reads who has logged in, in place of this machine's word.
const testLoginUID = "TEST_LOGINUID"

// TestMain makes the program, with a fake node behind it, a command of the scripts.
func TestMain(m *testing.M) {
	// A test that systemd started has nothing to say to it.
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "JOURNAL_STREAM"} {
		_ = os.Unsetenv(name) // it cannot fail for these names
	}
	commands := map[string]func(){
		"orphan-reaper": func() {
			os.Exit(runWith(fakeDeps(os.Getenv), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		},
		// The program itself, for the tests of the whole.
		"orphan-reaper-whole": func() {
			if err := ownNode(os.Args[1:]); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				os.Exit(99)
			}
			console := ui.NewConsole(os.Stdout, os.Stderr, os.Getenv)
			person := app.Person{Stderr: console.Stderr()}
			if file := os.Getenv(testLoginUID); file != "" {
				person.LoginUID, person.SudoUser = file, os.Getenv("SUDO_USER")
			}
			os.Exit(runOn(console, realDeps(person), os.Args[1:], os.Stdin, os.Getenv))
		},
		// A process of that name, until its input ends.
		"kubelet": func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	}
	if commands[filepath.Base(os.Args[0])] == nil {
		testkit.Alone()
	}
	testscript.Main(m, commands)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		// exits N ARGS...: the program must end with exactly that code.
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs the program in this process: exec knows only zero and the rest.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	var out, errs bytes.Buffer
	at := func(name string) string { return ts.MkAbs(name) }
	for i, a := range args {
		if strings.HasPrefix(a, "./") {
			args[i] = at(a)
		}
	}
	code := runWith(fakeDeps(ts.Getenv), args[1:], strings.NewReader(""), &out, &errs, ts.Getenv)
	ts.Logf("%s%s", out.String(), errs.String())
	if want := args[0]; want != string(rune('0'+code)) {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// testArchive is the one archive of CNI files that the fake node has.
const testArchive = "cni-20261120-001415-000"

var errNode = errors.New("the node is away")

// fakeDeps is a node that answers from fixed reports. FAKE names what it holds: nothing
// (the default), alive, all, or broken, where everything fails.
func fakeDeps(env func(string) string) deps {
	held := env("FAKE")
	fail := func() error {
		if held == "broken" {
			return errNode
		}
		return nil
	}
	return deps{
		configFile: "/dev/null", // not this machine's
		now:        func() policy.Instant { return at(0) },
		nodeName:   func(config.Config) string { return "n1" },
		discover: func(context.Context) (string, string, bool) {
			if dir := env("FAKE_ROOT_DIR"); dir != "" {
				return dir, "kubelet, PID 812", true
			}
			return "", "several kubelets run; set --root-dir", false
		},
		nameThere: func(_ config.Config, name string) bool { return name == "lost+found\x1b[2J" },
		seen:      func(config.Config, bool) bool { return held == "seen" },
		rootThere: func(cfg config.Config) error {
			if cfg.RootDir == "/nope" {
				return exit.Failf("is this a Kubernetes node?", "cannot find the kubelet's root directory /nope")
			}
			return nil
		},
		agrees: func(context.Context, config.Config) policy.Fact {
			if words := env("FAKE_DISAGREES"); words != "" {
				return policy.Fact{Truth: policy.No, Detail: words}
			}
			return policy.Fact{Truth: policy.Yes}
		},
		pods: func(_ context.Context, _ config.Config, past bool) ([]app.Pod, error) {
			if held == "all" {
				return testPods(past), nil
			}
			return nil, fail()
		},
		survey: func(_ context.Context, _ config.Config, uids []parsers.PodUID) (reaper.Report, error) {
			switch held {
			case "alive", "alive-contradiction":
				r := only(testReport(), uidAlive)
				r.Entries = nil
				if held != "alive" {
					r.Look.Node.Agrees = policy.Fact{Truth: policy.No, Detail: "--root-dir is another"}
				}
				return r, fail()
			case "all":
				if len(uids) > 0 {
					return only(testReport(), uids...), nil
				}
				return testReport(), nil
			case "stopped":
				r := testReport()
				r.Stopped = true
				return r, nil
			}
			return reaper.Report{}, fail()
		},
		examine: func(_ context.Context, cfg config.Config) (app.Examination, error) {
			x := app.Examination{Root: true, Case: healthyNode()}
			if cfg.RootDir == "/nope" {
				x.LookErr, x.Case.Looked = fmt.Errorf("cannot list the pods directory %s: %w", cfg.PodsDir(), fs.ErrNotExist), false
			}
			if change := doctored[held]; change != nil {
				change(&x)
			}
			return x, fail()
		},
		standing: func(context.Context, config.Config) diagnosis.Daemon {
			d := healthyNode().Daemon
			switch env("FAKE_DAEMON") {
			case "none":
				return diagnosis.Daemon{Runs: policy.No}
			case "unknown":
				return diagnosis.Daemon{Problem: "PID 612 holds the daemon's lock, and shows no command"}
			case "observe":
				d.Mode = "observe"
			}
			return d
		},
		report: func(_ context.Context, _ config.Config, from, now time.Time) (app.Reported, error) {
			if held == "all" {
				return testReported(from, now), nil
			}
			return app.Reported{Account: account.Of(account.Table{}, quiet.Memory{}, from, now)}, fail()
		},
		list: func(context.Context, config.Config) ([]policy.EntryState, error) {
			if held == "all" {
				return testEntries(), nil
			}
			return nil, fail()
		},
		breaker: func(context.Context, config.Config) (*policy.Record, error) {
			if held != "stopped" {
				return nil, fail()
			}
			return &policy.Record{
				Kind: policy.KindBreaker, UID: uidConflict, At: policy.Instant{Wall: testNow.Add(-5 * time.Hour)},
				Why: []policy.Why{{Reason: policy.ReasonRemade, Detail: "there is a pods/" + string(uidConflict) + " again"}},
			}, nil
		},
		history: func(_ context.Context, _ config.Config, uid parsers.PodUID) ([]policy.Record, error) {
			if held == "all" {
				return testHistory(uid), nil
			}
			return nil, fail()
		},
		restore: func(_ context.Context, _ config.Config, uid parsers.PodUID, _ []policy.EntryState) (policy.Outcome, error) {
			o := policy.Outcome{Action: policy.Action{Kind: policy.PutBack, UID: uid, Entry: string(uid)}, Result: policy.Done}
			if uid == uidConflict {
				o.Result, o.Err = policy.Refused, "there is a pods/"+string(uid)+" again"
			}
			return o, fail()
		},
		purge: func(_ context.Context, _ config.Config, shown []policy.EntryState, _ bool) ([]policy.Outcome, error) {
			var outcomes []policy.Outcome
			for _, e := range shown {
				outcomes = append(outcomes, policy.Outcome{
					Action: policy.Action{Kind: policy.Purge, UID: e.UID, Entry: e.Entry}, Result: policy.Done,
					Taken: map[contents.Class]policy.Tally{contents.ClassData: {Entries: 3, Bytes: 8192}},
				})
			}
			return outcomes, fail()
		},
		resume: func(context.Context, config.Config) error { return fail() },
		forget: func(_ context.Context, _ config.Config, uids []parsers.PodUID) ([]parsers.PodUID, error) {
			return slices.DeleteFunc(slices.Clone(uids), func(uid parsers.PodUID) bool { return uid != uidReap }), fail()
		},
		archives: func(context.Context, config.Config) ([]cni.ArchiveState, error) {
			if held == "all" {
				return []cni.ArchiveState{{Name: testArchive, At: testNow.Add(-3 * time.Hour), Files: 2048, Bytes: 3 << 20}}, nil
			}
			return nil, fail()
		},
		restoreBatch: func(_ context.Context, _ config.Config, batch string) (cni.Restored, error) {
			if batch != testArchive {
				return cni.Restored{}, fmt.Errorf("no batch %q", batch)
			}
			files := testCNI().Files
			return restoredOf(endedFile(files[0], policy.Done, ""), endedFile(files[2], policy.Done, "")), nil
		},
		restoreCNI: func(_ context.Context, _ config.Config, which string) (cni.Restored, error) {
			files := testCNI().Files
			switch which {
			case testArchive:
				return restoredOf(
					endedFile(files[0], policy.Done, ""),
					endedFile(files[1], policy.Refused, "the address is another sandbox's by now"),
					endedFile(files[2], policy.Gone, ""),
				), nil
			case string(uidParked):
				return restoredOf(endedFile(files[0], policy.Done, "")), nil
			}
			return cni.Restored{}, fail()
		},
		dropArchive: func(context.Context, config.Config, string) error { return fail() },
	}
}

func endedFile(f cni.File, r policy.Result, err string) cni.File {
	f.Result, f.Err = r, err
	return f
}

func restoredOf(outs ...cni.File) (done cni.Restored) {
	done.Add(outs)
	return done
}

// call runs the program with the fake node.
func call(t *testing.T, held string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	env := func(key string) string { return map[string]string{"FAKE": held}[key] }
	var out, errs bytes.Buffer
	code = runWith(fakeDeps(env), args, strings.NewReader(""), &out, &errs, env)
	return code, out.String(), errs.String()
}

// golden compares with a file of testdata/golden; UPDATE_GOLDEN=1 writes it anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, filepath.Join("testdata", "golden", name), got)
}

// fits fails on a line of more than 80 columns, or so many, and on spaces at a line's end. A row of a
// table in a pipe, with its tabs, is as long as it is.
func fits(t *testing.T, what, text string, columns ...int) {
	t.Helper()
	most := append(columns, 80)[0]
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		pasted := strings.HasPrefix(line, "    look   ") || strings.Contains(line, "umount '") || strings.Contains(line, " --state-dir ") // a command is not broken
		if n := utf8.RuneCountInString(line); n > most && !strings.Contains(line, "\t") && !pasted {
			t.Errorf("%s: %d columns: %s", what, n, line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("%s: space at the end: %q", what, line)
		}
	}
}
