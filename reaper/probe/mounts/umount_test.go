package mounts

import "testing"

func TestUmountCommand(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/var/lib/kubelet/pods/1/v", "umount /var/lib/kubelet/pods/1/v"},
		{"/a'; reboot; '", `umount '/a'\''; reboot; '\'''`},
		{`/a\040b`, ""}, // as mountinfo has a space
		{"/a\x1b[2J", ""},
		{"/a\u202eb", ""},
		{"", ""},
	} {
		if got := UmountCommand(tt.path); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.path, got, tt.want)
		}
	}
}
