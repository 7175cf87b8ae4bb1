package state

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	envHelper    = "ORPHAN_REAPER_TEST_HELPER"    // makes the test binary a writer, see writer
	envNamespace = "ORPHAN_REAPER_TEST_NAMESPACE" // the test that runs in its own mount namespace
)

func TestMain(m *testing.M) {
	if arg := os.Getenv(envHelper); arg != "" {
		if err := writer(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writer is the process that the tests kill or let compete: "DIR NAME BATCHES". It appends
// batches of three records, or archives where its name is that, and prints the last number of each batch once it is written.
func writer(arg string) error {
	var dir, name string
	var batches int
	if _, err := fmt.Sscan(arg, &dir, &name, &batches); err != nil {
		return err
	}
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for i := range batches {
		if name == "archive" {
			if err := s.Archive(fmt.Sprint("cni-", i), contents(1000)); err != nil {
				return err
			}
			fmt.Println(i)
			continue
		}
		done, err := s.Append(
			policy.Record{Kind: policy.KindStarted, PodName: fmt.Sprintf("%s-%d", name, i), Text: strings.Repeat("x", 700)},
			policy.Record{Kind: policy.KindKept, PodName: fmt.Sprintf("%s-%d", name, i)},
			policy.Record{Kind: policy.KindParked, Entry: name, UID: uid(i), PodName: fmt.Sprintf("%s-%d", name, i)})
		if err != nil {
			return err
		}
		fmt.Println(done[2].Seq)
	}
	return s.Close()
}

// startWriter starts a writer and returns it with its output.
func startWriter(t *testing.T, dir, name string, batches int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"="+fmt.Sprintf("%s %s %d", dir, name, batches))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// needRoot skips without root, or as root of a user namespace that has no other users,
// which with REQUIRE_ROOT=1 is a failure.
func needRoot(t *testing.T) {
	t.Helper()
	users := strings.Fields(string(readFile(t, "/proc/self/uid_map")))
	if os.Geteuid() != 0 || len(users) < 3 || users[2] == "1" {
		skip(t, "needs root, and other users")
	}
}

func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("REQUIRE_ROOT") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// inNamespace runs the test again in a mount namespace of its own, and a user namespace
// where it is not root. It returns true in the process that should do the test's work.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envNamespace) == t.Name() {
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envNamespace+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		skip(t, "no mount namespace here: "+err.Error())
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func appendTo(t *testing.T, s *Store, rs ...policy.Record) []policy.Record {
	t.Helper()
	done, err := s.Append(rs...)
	must(t, err)
	return done
}

// all returns every record of the ledger.
func all(t *testing.T, s *Store) []policy.Record {
	t.Helper()
	var rs []policy.Record
	for r, err := range s.Records() {
		must(t, err)
		rs = append(rs, r)
	}
	return rs
}

func uid(n int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

// life is what one pod leaves in the ledger, up to the given kind.
func life(n int, until policy.Kind) []policy.Record {
	at := policy.Instant{
		Wall:   time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
		BootID: "5b1ad9a2-a09f-4daf-b4eb-407793f6fb3e", Boot: time.Duration(n) * time.Second,
	}
	base := policy.Record{
		At: at, UID: uid(n), Entry: string(uid(n)) + "-1", Namespace: "shop", PodName: "cart-" + strconv.Itoa(n),
		ID: policy.DirID{Dev: 2049, Ino: uint64(n) + 100, Btime: 1767323045678901234}, Kubelet: policy.KubeletID{PID: 812, Start: time.Minute},
	}
	var rs []policy.Record
	for _, k := range []policy.Kind{policy.KindParking, policy.KindParked, policy.KindStripping, policy.KindStripped, policy.KindPurging, policy.KindRemoved} {
		r := base
		r.Kind = k
		if k == policy.KindStripped || k == policy.KindRemoved {
			r.Taken = map[string]policy.Tally{"skeleton": {Entries: 5, Bytes: 4096}}
			r.VolData = map[string]string{"volumes/kubernetes.io~csi/pv/vol_data.json": `{"driverName":"d","volumeHandle":"<&>"}`}
		}
		if k == policy.KindStripped {
			r.Left = []policy.Residue{{Path: "volumes/x", Class: policy.ClassData, Bytes: 10, Entries: 1}}
		}
		rs = append(rs, r)
		if k == until {
			break
		}
	}
	return rs
}

func readFile(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	must(t, err)
	return b
}

func writeFile(t *testing.T, b []byte, elem ...string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(elem...), b, 0o600))
}

func removeFile(elem ...string) error { return os.Remove(filepath.Join(elem...)) }

// logged returns a logger and what it has written.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}
