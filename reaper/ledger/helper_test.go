package ledger

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	envHelper = "ORPHAN_REAPER_TEST_HELPER" // its value makes the test binary run writer
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

// writer is the process that tests kill or let compete: "DIR NAME BATCHES". It appends batches of three records, and prints each batch's last number after writing it.
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
		done, err := s.Append(
			judge.Event{Kind: judge.EventStarted, PodName: fmt.Sprintf("%s-%d", name, i), Err: strings.Repeat("x", 700)},
			judge.Event{Kind: judge.EventKept, PodName: fmt.Sprintf("%s-%d", name, i)},
			judge.Event{Kind: judge.EventMoving, Entry: name, UID: uid(0), PodName: fmt.Sprintf("%s-%d", name, i)})
		if err != nil {
			return err
		}
		fmt.Println(done[2].Seq)
	}
	return s.Close()
}

func startWriter(t *testing.T, dir, name string, batches int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"="+fmt.Sprintf("%s %s %d", dir, name, batches))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

func open(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func appendTo(t *testing.T, s *Store, rs ...judge.Event) []judge.Event {
	t.Helper()
	done, err := s.Append(rs...)
	testkit.Must(t, err)
	return done
}

// all returns every record of the ledger.
func all(t *testing.T, s *Store) []judge.Event {
	t.Helper()
	var rs []judge.Event
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, err := range s.events(0) {
		testkit.Must(t, err)
		rs = append(rs, r.Event)
	}
	return rs
}

func uid(n int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

// life returns the records of one pod, up to the given kind.
func life(n int, until judge.EventKind) []judge.Event {
	at := judge.Instant{
		Wall:   time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
		BootID: "5b1ad9a2-a09f-4daf-b4eb-407793f6fb3e", Boot: time.Duration(n) * time.Second,
	}
	base := judge.Event{
		At: at, UID: uid(n), Entry: string(uid(n)) + "-1", Namespace: "shop", PodName: "cart-" + strconv.Itoa(n),
		ID: judge.FileID{Dev: 2049, Ino: uint64(n) + 100, Btime: 1767323045678901234}, Kubelet: 812,
	}
	var rs []judge.Event
	for _, k := range []judge.EventKind{judge.EventMoving, judge.EventQuarantined, judge.EventCleaning, judge.EventCleaned, judge.EventPurging, judge.EventRemoved} {
		r := base
		r.Kind = k
		if k == judge.EventCleaned || k == judge.EventRemoved {
			r.Taken = map[string]judge.Tally{"skeleton": {Entries: 5, Bytes: 4096}}
			r.VolData = map[string]string{"volumes/kubernetes.io~csi/pv/vol_data.json": `{"driverName":"d","volumeHandle":"<&>"}`}
		}
		if k == judge.EventCleaned {
			r.Left = []judge.Residue{{Path: "volumes/x", Class: content.Data, Tally: judge.Tally{Bytes: 10, Entries: 1}}}
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
	testkit.Must(t, err)
	return b
}

func writeFile(t *testing.T, b []byte, elem ...string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(elem...), b, 0o600))
}

func removeFile(elem ...string) error { return os.Remove(filepath.Join(elem...)) }

func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}
