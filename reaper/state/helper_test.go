package state

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
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
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

// writer is the process that tests kill or let compete: "DIR NAME BATCHES". It appends batches of three records, or
// writes archives if NAME selects that, and prints each batch's last number after writing it.
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
			if err := s.CreateArchive(fmt.Sprint("cni-", i), holding(longArchive)); err != nil {
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

func appendTo(t *testing.T, s *Store, rs ...policy.Record) []policy.Record {
	t.Helper()
	done, err := s.Append(rs...)
	testkit.Must(t, err)
	return done
}

// all returns every record of the ledger.
func all(t *testing.T, s *Store) []policy.Record {
	t.Helper()
	var rs []policy.Record
	for r, err := range s.Records() {
		testkit.Must(t, err)
		rs = append(rs, r)
	}
	return rs
}

func uid(n int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

// life returns the records of one pod, up to the given kind.
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
			r.Left = []policy.Residue{{Path: "volumes/x", Class: contents.ClassData, Bytes: 10, Entries: 1}}
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
