package mounts

import "testing"

func TestUmountCommand(t *testing.T) {
	for _, tt := range []struct{ path, pid, want string }{
		{"/var/lib/kubelet/pods/1/v", "1", "umount '/var/lib/kubelet/pods/1/v'"},
		{"/var/lib/kubelet/pods/1/v", "4711", "nsenter -t 4711 -m umount '/var/lib/kubelet/pods/1/v'"},
		{"/a'; reboot; '", "1", `umount '/a'\''; reboot; '\'''`},
		{`/a\040b`, "1", ""}, // as mountinfo has a space
		{"/a\x1b[2J", "1", ""},
		{"/a\u202eb", "1", ""},
		{"", "1", ""},
	} {
		if got := UmountCommand(tt.path, tt.pid); got != tt.want {
			t.Errorf("%q of %s: %s, want %s", tt.path, tt.pid, got, tt.want)
		}
	}
}
