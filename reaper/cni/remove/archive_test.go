package remove

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var archivedAt = policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), BootID: "boot-1", Boot: 10*time.Hour + 7}

func openStore(t *testing.T, dir string) ArchiveStore {
	t.Helper()
	s, err := state.Open(dir, state.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return ArchiveStore{s}
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

// cniFiles returns n files like CNI's, each a little different.
func cniFiles(n int) []cni.File {
	list := make([]cni.File, n)
	conf := strings.Repeat("eyJjbmlWZXJzaW9uIjoiMC40LjAiLCJuYW1lIjoiazhzLXBvZC1uZXR3b3JrIn0", 10)
	for i := range list {
		id := fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
		list[i] = cni.File{
			Kind: cni.Cache, Dir: "/var/lib/cni/results", Name: "podnet-" + id + "-eth0", Container: id, Network: "podnet", IfName: "eth0",
			UID: testUID(i), Namespace: "shop", PodName: fmt.Sprint("cart-", i),
			ID: cni.FileID{Dev: 2049, Ino: uint64(i) + 7, Size: 1500, Ctime: 1767323045678901234}, Changed: time.Unix(1767323045, 678901234).UTC(),
			Mode: 0o600, Owner: [2]uint32{0, uint32(i % 3)}, Mtime: time.Unix(1767323000+int64(i), 123456789).UTC(),
			Data: fmt.Appendf(nil, `{"kind":"cniCacheV1","containerId":%q,"config":%q,"ifName":"eth0","networkName":"podnet","netns":"/var/run/netns/cni-%s","cniArgs":[["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","cart-%d"],["K8S_POD_INFRA_CONTAINER_ID",%q],["K8S_POD_UID",%q]],"result":{"cniVersion":"0.4.0","interfaces":[{"name":"veth%s"},{"name":"eth0","mac":%q,"sandbox":"/var/run/netns/cni-%s"}],"ips":[{"version":"4","address":"10.244.%d.%d/24"}],"dns":{}}}`,
				id, conf, id[:36], i, id, testUID(i), id[:8], id[:12], id[:36], i/250%250, i%250),
		}
	}
	return list
}

// odd returns files with names and values that an archive must not change.
func odd() []cni.File {
	list := cniFiles(8)
	list[0].Name = "net\nwork\xff\xfe \"'\\-x"
	list[1].Name = strings.Repeat("\xc3", 255)
	list[2].Dir, list[2].Kind, list[2].Name = "/mnt/"+strings.Repeat("deep/", 60)+"podnet", cni.Address, "fd00::1"
	list[2].Data = []byte("abc\r\neth0")
	list[3].Data, list[3].Broken, list[3].Runtime = nil, true, "containerd 1.6.20"
	list[4].Data = bytes.Repeat([]byte{0, '\n', 0xff}, 100_000)
	list[4].Label = "system_u:object_r:container_var_lib_t:s0:c1,c2"
	list[5].Mode, list[5].Owner = 0o4755, [2]uint32{4294967294, 4294967294}
	list[6].Mtime = time.Unix(1<<40, 5).UTC() // the year 36812
	list[6].Changed, list[6].Reaped = time.Time{}, true
	list[7].Mtime = time.Unix(-5, 999).UTC()
	return list
}

func readAll(t *testing.T, s ArchiveStore, name string) []cni.File {
	t.Helper()
	var got []cni.File
	testkit.Must(t, s.ReadArchive(name, func(c cni.File) error { got = append(got, c); return nil }))
	return got
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	want := odd()
	left := cniFiles(1)[0]
	left.Err = "it changed"
	testkit.Must(t, s.Archive("cni-1", archivedAt, append([]cni.File{left}, want...)))
	testkit.Must(t, s.Archive("cni-2", archivedAt, nil))
	testkit.Must(t, s.Close())

	r, err := state.OpenReadOnly(dir, state.Options{})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, r.Close()) })
	s = ArchiveStore{r}
	got := readAll(t, s, "cni-1")
	if len(got) != len(want) {
		t.Fatalf("%d files, want %d", len(got), len(want))
	}
	for i := range want {
		if want[i].Data == nil {
			want[i].Data = []byte{}
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
	if got := readAll(t, s, "cni-2"); len(got) != 0 {
		t.Error(got)
	}
	list, err := s.Archives()
	testkit.Must(t, err)
	if len(list) != 2 || list[0].Name != "cni-1" || list[0].Files != int64(len(want)) || list[0].Bytes < 300_000 || list[0].At != archivedAt ||
		list[0].Err != "" {
		t.Errorf("%+v", list)
	}
	for _, err := range []error{s.Archive("x", archivedAt, want), s.DropArchive("cni-1")} {
		if !errors.Is(err, state.ErrReadOnly) {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "archive", "cni-1.tar.gz"))
	testkit.Must(t, err)
	if info.Mode() != 0o600 {
		t.Error(info.Mode())
	}
}

// TestArchiveForTar checks that an operator can extract the files with tar, without this program.
func TestArchiveForTar(t *testing.T) {
	if os.Geteuid() == 0 {
		testkit.NeedUsers(t) // whose IDs root's tar restores
	}
	dir, to := t.TempDir(), t.TempDir()
	s := openStore(t, dir)
	want := odd()
	want[6].Mtime, want[7].Mtime = want[0].Mtime, want[0].Mtime // tar reports such years as an error
	testkit.Must(t, s.Archive("cni-1", archivedAt, want))
	out, err := exec.CommandContext(t.Context(), "tar", "-C", to, "-xzf", filepath.Join(dir, "archive", "cni-1.tar.gz")).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v %s", err, out)
	}
	for _, c := range want {
		at := filepath.Join(to, c.Dir, c.Name)
		got, err := os.ReadFile(at)
		testkit.Must(t, err)
		info, err := os.Stat(at)
		testkit.Must(t, err)
		if !bytes.Equal(got, c.Data) || !info.ModTime().Equal(c.Mtime.Truncate(time.Second)) || uint32(info.Mode().Perm()) != c.Mode&0o777 {
			t.Errorf("%q: %v %v", c.Name, info.Mode(), info.ModTime())
		}
	}
	index := readFile(t, to, "orphan-reaper.index.jsonl")
	if bytes.Count(index, []byte("\n")) != len(want) || !bytes.Contains(index, []byte(`"pod":"cart-1"`)) {
		t.Errorf("%s", index)
	}
}

// TestArchiveNames checks that a file that could not be restored unchanged is refused, and that nothing is written.
func TestArchiveNames(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	for _, f := range [][2]string{
		{"/d", ""},
		{"/d", "."},
		{"/d", ".."},
		{"/d", "a/b"},
		{"/d", "a\x00"},
		{"d", "a"},
		{"/d/../e", "a"},
		{"/d/", "a"},
		{"", "a"},
		{"/", "a"},
		{"/d\x00", "a"},
	} {
		c := cniFiles(2)
		c[1].Dir, c[1].Name = f[0], f[1]
		if err := s.Archive("cni-1", archivedAt, c); err == nil {
			t.Errorf("%q was accepted", f)
		}
	}
	if list, err := s.Archives(); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// TestArchiveDamaged checks that an archive with a cut or a flipped bit anywhere returns no file, and that the others
// are still readable.
func TestArchiveDamaged(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	testkit.Must(t, s.Archive("good", archivedAt, cniFiles(3)))
	testkit.Must(t, s.Archive("bad", archivedAt, odd()))
	whole := readFile(t, dir, "archive", "bad.tar.gz")
	all, same := readAll(t, s, "bad"), 0
	check := func(b []byte, what string) {
		t.Helper()
		writeFile(t, b, dir, "archive", "bad.tar.gz")
		var given []cni.File
		err := s.ReadArchive("bad", func(c cni.File) error { given = append(given, c); return nil })
		if err == nil && reflect.DeepEqual(given, all) {
			same++ // an unused bit of a byte
			return
		}
		if err == nil || len(given) > 0 || !strings.Contains(err.Error(), "bad.tar.gz") {
			t.Fatalf("%s: %d files, %v", what, len(given), err)
		}
	}
	for cut := 0; cut < len(whole); cut += 1 + len(whole)/300 {
		check(whole[:cut], fmt.Sprint("cut at ", cut))
	}
	// The gzip header's time, flags and system (bytes 4 to 9) have no meaning.
	for at := 10; at < len(whole); at += 1 + len(whole)/300 {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		check(b, fmt.Sprint("flipped at ", at))
	}
	list, err := s.Archives()
	testkit.Must(t, err)
	if len(list) != 2 || len(readAll(t, s, "good")) != 3 || same > 10 {
		t.Error(list, same)
	}
	writeFile(t, nil, dir, "archive", "bad.tar.gz")
	list, err = s.Archives()
	testkit.Must(t, err)
	if list[0].Name != "bad" || list[0].Err == "" || list[1].Err != "" {
		t.Errorf("%+v", list)
	}
	testkit.Must(t, s.DropArchive("bad"))
}

func testUID(n int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}
