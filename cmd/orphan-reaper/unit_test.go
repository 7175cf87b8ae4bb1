package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const unitFile = "../../packaging/orphan-reaper.service"

// unit is a unit file: the values of each key of each section, "Service/Type", in order.
type unit map[string][]string

func readUnit(t *testing.T) unit {
	t.Helper()
	b, err := os.ReadFile(unitFile)
	testkit.Must(t, err)
	u := unit{}
	section := ""
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "" || key[0] == '#':
		case key[0] == '[':
			section = strings.Trim(key, "[]")
		case ok && section != "":
			u[section+"/"+key] = append(u[section+"/"+key], value)
		default:
			t.Fatalf("not a setting: %q", line)
		}
	}
	return u
}

const (
	ownMounts = "it gives the daemon a mount namespace of its own: mounts that the node makes later may be missing there, and a directory that is a mount point " +
		"only on the node is removed with the node's mount, without an error"
	noOpenat2 = "it takes openat2 away (ENOSYS on systemd 252 and 257, EPERM on 247): the walker falls back to comparing mount IDs"
	noNetwork = "the daemon asks the kubelet and the API server"
	notOurs   = "the daemon must see the node's own processes, users and files"
)

// forbidden are the settings that the unit must never have, and their cost, from systemd.exec(5) and tried on systemd
// 247, 252 and 257.
var forbidden = map[string]string{
	"ProtectSystem": ownMounts, "ProtectHome": ownMounts, "PrivateTmp": ownMounts, "PrivateDevices": ownMounts, "PrivateIPC": ownMounts,
	"ProtectKernelTunables": ownMounts, "ProtectKernelModules": ownMounts, "ProtectKernelLogs": ownMounts, "ProtectControlGroups": ownMounts,
	"ProtectProc": ownMounts, "ProcSubset": ownMounts, "LogNamespace": ownMounts, "TemporaryFileSystem": ownMounts, "NoExecPaths": ownMounts,
	"ExecPaths": ownMounts, "BindPaths": ownMounts, "BindReadOnlyPaths": ownMounts, "ReadWritePaths": ownMounts, "ReadOnlyPaths": ownMounts,
	"InaccessiblePaths": ownMounts, "MountFlags": ownMounts, "PrivateMounts": ownMounts, "MountAPIVFS": ownMounts, "MountImages": ownMounts,
	"ExtensionImages": ownMounts, "ExtensionDirectories": ownMounts, "RootDirectory": ownMounts, "RootImage": ownMounts, "IPCNamespacePath": ownMounts,
	"DynamicUser": ownMounts + "; and " + noOpenat2, "RestrictSUIDSGID": noOpenat2,
	"PrivateNetwork": ownMounts + " (from 257 on); and " + noNetwork, "NetworkNamespacePath": noNetwork, "IPAddressDeny": noNetwork,
	"PrivateUsers": notOurs, "PrivatePIDs": notOurs, "User": notOurs, "ProtectHostname": "a host name that is set after the start would not be seen, " +
		"and it names the node",
	"Requires": "the daemon must not be stopped with kubelet or runtime", "BindsTo": "the daemon must not be stopped with kubelet or runtime",
	"PartOf": "the daemon must not be stopped with kubelet or runtime", "AmbientCapabilities": "nothing that it starts needs any",
}

// TestUnitForbidden checks that no setting of the unit disables the daemon's protections.
func TestUnitForbidden(t *testing.T) {
	u := readUnit(t)
	for at := range u {
		_, key, _ := strings.Cut(at, "/")
		if why, ok := forbidden[key]; ok {
			t.Errorf("%s= must not be set: %s", key, why)
		}
	}
}

func TestUnit(t *testing.T) {
	u := readUnit(t)
	// Without it the Go runtime makes a thread for each processor and fails at TasksMax, with 256 processors before
	// main begins.
	if got := u["Service/Environment"]; !slices.Equal(got, []string{"GOMAXPROCS=4"}) {
		t.Errorf("Environment=%q", got)
	}
	// A call that the filter does not know must fail as on a kernel without it, and not kill the process.
	if got := u["Service/SystemCallErrorNumber"]; !slices.Equal(got, []string{"ENOSYS"}) {
		t.Errorf("SystemCallErrorNumber=%q", got)
	}
	// An allow list comes first: later lines remove from it and add to it (systemd.exec(5)). The landlock calls are
	// in no group before systemd 256, and a call's name has precedence over a group.
	filters := u["Service/SystemCallFilter"]
	if len(filters) != 3 || filters[0] != "@system-service" || !strings.HasPrefix(filters[1], "~@privileged ") {
		t.Fatalf("the filters: %q", filters)
	}
	for _, call := range []string{"openat2", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} {
		if !slices.Contains(strings.Fields(filters[2]), call) {
			t.Errorf("the filter lacks %s", call)
		}
	}
	// The configuration is checked before the signal.
	reload := u["Service/ExecReload"]
	if len(reload) != 2 || !strings.HasSuffix(reload[0], " config check --as $MAINPID") || !strings.Contains(reload[1], "kill -HUP $MAINPID") {
		t.Fatalf("ExecReload=%q", reload)
	}
	for _, line := range []string{strings.Join(u["Service/ExecStart"], "|"), reload[0]} {
		args := strings.Fields(line)
		if args[0] != "/usr/sbin/orphan-reaper" {
			t.Fatalf("%q", args)
		}
		cmd, rest, err := newRootCommand(&cli{env: os.Getenv, given: map[string][]string{}}).Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(slices.DeleteFunc(rest, func(arg string) bool { return arg == "$MAINPID" || arg == "--as" }))
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%q: %v", args, err)
		}
	}
}

const envCapabilities = "ORPHAN_REAPER_TEST_CAPABILITIES"

// capabilityNeeds maps each capability of the unit to the work that fails without it.
var capabilityNeeds = map[string]struct {
	number int
	needed []string
}{
	"CAP_DAC_OVERRIDE": {unix.CAP_DAC_OVERRIDE, []string{"private directory"}},
	"CAP_FOWNER":       {unix.CAP_FOWNER, []string{"sticky directory"}},
	"CAP_SYS_PTRACE":   {unix.CAP_SYS_PTRACE, []string{"process"}},
}

// TestUnitCapabilities checks that everything works with the unit's bounding set, and that without each capability
// exactly the work in the unit's comment fails.
func TestUnitCapabilities(t *testing.T) {
	u := readUnit(t)
	for name, c := range capabilityNeeds {
		needCapability(t, name, c.number)
	}
	needCapability(t, "CAP_SETPCAP", unix.CAP_SETPCAP)
	set := strings.Fields(strings.Join(u["Service/CapabilityBoundingSet"], " "))
	if lost := withCapabilities(t, set); len(lost) > 0 {
		t.Errorf("with %v: %v", set, lost)
	}
	for i, name := range set {
		rest := slices.Delete(slices.Clone(set), i, i+1)
		want := capabilityNeeds[name].needed
		if lost := withCapabilities(t, rest); len(want) == 0 || !slices.Equal(lost, want) {
			t.Errorf("without %s: lost %q, want %q", name, lost, want)
		}
	}
}

// withCapabilities does the daemon's work in a process with this bounding set, and returns what failed.
func withCapabilities(t *testing.T, set []string) (lost []string) {
	t.Helper()
	const uid = "0a1b2c3d-0000-4000-8000-00000000000a"
	root := t.TempDir()
	empty := filepath.Join(root, "orphan-reaper", uid+".1", "volumes", "kubernetes.io~empty-dir", "e")
	private, sticky := filepath.Join(empty, "private"), filepath.Join(empty, "sticky")
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "pods"), 0o750), os.MkdirAll(empty, 0o755), os.Chmod(filepath.Join(root, "orphan-reaper"), 0o700),
		os.Mkdir(private, 0o700), os.WriteFile(filepath.Join(private, "f"), nil, 0o600), os.Lchown(private, 1000, 1000),
		os.Mkdir(sticky, 0o700), os.WriteFile(filepath.Join(sticky, "f"), nil, 0o600),
		os.Lchown(sticky, 1000, 1000), os.Lchown(filepath.Join(sticky, "f"), 1001, 1001), os.Chmod(sticky, 0o777|fs.ModeSticky),
	} {
		testkit.Must(t, err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCapabilitiesHelper$")
	cmd.Env = append(os.Environ(), envCapabilities+"="+root)
	done := make(chan error)
	var out []byte
	go func() {
		runtime.LockOSThread() // permanently: the bounding set is the thread's and its children's
		// A container may have inheritable capabilities, which root's programs keep beside the bounding set:
		// capabilities(7).
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		data[0].Inheritable, data[1].Inheritable = 0, 0
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		for n := range unix.CAP_LAST_CAP + 1 {
			if !slices.ContainsFunc(set, func(name string) bool { return capabilityNeeds[name].number == n }) {
				if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
					done <- err
					return
				}
			}
		}
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for what, path := range map[string]string{"private directory": private, "sticky directory": filepath.Join(sticky, "f")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, what)
		}
	}
	if !strings.Contains(string(out), "process seen") {
		lost = append(lost, "process")
	}
	slices.Sort(lost)
	return lost
}

// TestCapabilitiesHelper is the process that withCapabilities starts.
func TestCapabilitiesHelper(t *testing.T) {
	root := os.Getenv(envCapabilities)
	if root == "" {
		return
	}
	const uid = parsers.PodUID("0a1b2c3d-0000-4000-8000-00000000000a")
	r, err := removal.Open(removal.Config{PodsDir: filepath.Join(root, "pods")})
	testkit.Must(t, err)
	permit := policy.Standing{ByPerson: true, Node: policy.Node{MayEnforce: policy.Fact{Truth: policy.Yes}}}.Gate()
	r.Execute(t.Context(), permit, policy.Batch{Actions: []policy.Action{{Kind: policy.Purge, UID: uid, Entry: string(uid) + ".1", Take: contents.TakeAll}}})
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", os.Getppid())); err == nil {
		fmt.Println("process seen")
	}
}
