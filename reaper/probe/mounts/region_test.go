package mounts

import "testing"

// TestPlace: what counts as the pods' own file system.
func TestPlace(t *testing.T) {
	in := []region{{Dev: "8:1", Path: "/var/lib/kubelet/pods", FSType: "ext4"}}
	network := []region{{Dev: "0:50", Path: "/pods", FSType: "nfs4"}}
	for _, c := range []struct {
		in           []region
		dev, fs, at  string
		want         bearing
		below        string
		whyNotByText string
	}{
		{in, "8:1", "ext4", "/var/lib/kubelet/pods/U/v", within, "U/v", ""},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods/U//deleted", within, "U//deleted", "a bind of what was removed"},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods", elsewhere, "", "a bind of the parent holds no pod"},
		{in, "8:1", "ext4", "/var/lib/kubelet/pods2/U", elsewhere, "", ""},
		{in, "8:1", "ext4", "/tmp/var/lib/kubelet/pods/U", elsewhere, "", ""},
		{in, "0:30", "tmpfs", "/var/lib/kubelet/pods/U", elsewhere, "", "another file system"},
		{in, "0:31", "virtiofs", "/var/lib/kubelet/pods/U", unplaced, "", "may be the same directory on the host"},
		{network, "0:51", "nfs4", "/pods/U", unplaced, "", "may be the same export, mounted once more"},
		{network, "0:52", "ext4", "/pods/U", unplaced, "", ""},
		{nil, "8:1", "ext4", "/var/lib/kubelet/pods/U", unplaced, "", ""},
	} {
		if b, below := place([]byte(c.dev), []byte(c.fs), c.at, c.in); b != c.want || below != c.below {
			t.Errorf("%s %s on %s: %v %q, want %v %q", c.fs, c.at, c.dev, b, below, c.want, c.below)
		}
	}
}
