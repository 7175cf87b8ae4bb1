package content

import (
	"strings"
	"testing"
)

// TestClassOf checks the class of each path. What is not certainly the kubelet's own is a user's data, which no pass
// removes.
func TestClassOf(t *testing.T) {
	tests := []struct {
		path string
		typ  Type
		size int64
		want Class
	}{
		{"etc-hosts", Regular, 200, Skeleton},
		{"etc-hosts", Symlink, 0, Data},
		{"containers/app/1a2b3c4d", Regular, 9, Skeleton},
		{"containers/app/sub/1a2b3c4d", Regular, 9, Data},
		{"containers/app/fifo", Other, 0, Data},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/ready", Regular, 0, Skeleton},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/other", Regular, 0, Data},
		{"volumes/kubernetes.io~secret/tok/..data", Symlink, 0, Projected},
		{"volumes/kubernetes.io~configmap/c/..2026/key", Regular, 5, Projected},
		{"volumes/kubernetes.io~projected/p/token", Regular, 5, Projected},
		{"volumes/kubernetes.io~downward-api/d/labels", Regular, 5, Projected},
		{"volumes/kubernetes.io~secret/file", Regular, 5, Data},
		{"volumes/kubernetes.io~empty-dir/cache/a/b", Regular, 5, Ephemeral},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", Regular, 300, Skeleton},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", Symlink, 0, Data},
		{"volumes/kubernetes.io~csi/pvc-1/other.json", Regular, 300, Data},
		{"volumes/kubernetes.io~csi/pvc-1/mount/vol_data.json", Regular, 300, Data},
		{"volumes/kubernetes.io~csi/pvc-1/mount/db", Regular, 300, Data},
		{"volumes/kubernetes.io~nfs/share/vol_data.json", Regular, 300, Data},
		{"volumes/kubernetes.io~local-volume/disk/x", Other, 0, Data},
		{"volumes/example.com~secret/x/y", Regular, 1, Data},
		{"volume-subpaths/v/app/0", Regular, 0, Skeleton},
		{"volume-subpaths/v/app/0", Regular, 1, Data},
		{"volume-subpaths/v/app/0/file", Regular, 0, Data},
		{"volumeDevices/kubernetes.io~csi/pvc-1", Symlink, 0, Skeleton},
		{"volumeDevices/kubernetes.io~csi/pvc-1", Other, 0, Data},
		{"volumes", Regular, 0, Data},
		{"anything", Regular, 0, Data},
		{"anything/else", Regular, 0, Data},
	}
	for _, tt := range tests {
		if got := Of(strings.Split(tt.path, "/"), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.path, got, tt.want)
		}
	}
}

// TestClassOfText checks that the kubelet's own files are recognized by their exact text.
func TestClassOfText(t *testing.T) {
	const kubelets = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
	rel := func(path string) []string { return strings.Split(path, "/") }
	for _, tt := range []struct {
		path string
		typ  Type
		size int64
		want bool
	}{
		{"userns", Regular, 139, true},
		{".1234567", Regular, 139, true},
		{"userns", Regular, BiggestText + 1, false},
		{"userns", Symlink, 10, false},
		{"userns", Other, 0, false},
		{"userns.bak", Regular, 139, false},
		{".", Regular, 139, false},
		{".12a", Regular, 139, false},
		{"containers/userns", Regular, 139, false},
		{"volumes/kubernetes.io~nfs/userns", Regular, 139, false},
	} {
		if got := ByText(rel(tt.path), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s: %t", tt.path, got)
		}
		if got := Of(rel(tt.path), tt.typ, tt.size); got != Data {
			t.Errorf("%s: %s before the text is read", tt.path, got)
		}
	}
	for text, want := range map[string]Class{
		kubelets: Skeleton, kubelets + "\n": Skeleton,
		"": Data, "{}": Data, "null": Data, "my notes": Data, kubelets + kubelets: Data,
		`{"uidMappings":[],"gidMappings":[]}`:                               Data,
		strings.Replace(kubelets, `{`, `{"note":"mine",`, 1):                Data,
		strings.Replace(kubelets, `"hostId":65536`, `"HostId":65536`, 1):    Data,
		strings.Replace(kubelets, `"length":65536`, `"length":"secret"`, 1): Data,
	} {
		if got := OfText([]string{"userns"}, []byte(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	if OfText([]string{".123"}, nil) != Skeleton {
		t.Error("an empty temporary file is data")
	}
}

// TestEphemeralCSI checks that only the kubelet's vol_data.json beside the mount makes the contents of the mount
// ephemeral.
func TestEphemeralCSI(t *testing.T) {
	for text, want := range map[string]bool{
		`{"driverName":"secrets-store.csi.k8s.io","volumeLifecycleMode":"Ephemeral"}`: true,
		`{"driverName":"ebs.csi.aws.com","volumeLifecycleMode":"Persistent"}`:         false,
		`{"driverName":"d"}`: false, ``: false, `[]`: false, `{"volumeLifecycleMode":true}`: false,
		`{"volumeLifecycleMode":"ephemeral"}`:                                       false,
		`{"volumeLifecycleMode":"Persistent","VOLUMELIFECYCLEMODE":"Ephemeral"}`:    false,
		`{"volumeHandle":{"volumeLifecycleMode":"Ephemeral"},"driverName":"d"}`:     false,
		`{"volumeLifecycleMode":"Ephemeral","volumeLifecycleMode":"Persistent"}`:    false,
		`{"driverName":"d","volumeLifecycleMode":"Ephemeral"}{"driverName":"more"}`: false,
	} {
		if got := EphemeralCSI([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for path, want := range map[string]Class{
		"volumes/kubernetes.io~csi/v/mount":        Ephemeral,
		"volumes/kubernetes.io~csi/v/other":        Data,
		"volumes/kubernetes.io~nfs/v/mount":        Data,
		"volumes/kubernetes.io~projected/v/mount":  Projected,
		"volumes/kubernetes.io~csi/v/mount/deeper": Data, // classed with mount
	} {
		rel := strings.Split(path, "/")
		if got, ok := InCSI(rel, true); got != want || !ok {
			t.Errorf("%s: %s", path, got)
		}
		if got, _ := InCSI(rel, false); got == Ephemeral {
			t.Errorf("%s of a persistent volume: %s", path, got)
		}
	}
}

// TestClassDefault checks that the zero value and a class of a newer version count as a user's data.
func TestClassDefault(t *testing.T) {
	var c Class
	if c != Data {
		t.Error("the zero value is not data")
	}
	c = Skeleton
	if err := c.UnmarshalText([]byte("of the future")); err != nil || c != Data {
		t.Errorf("an unknown class is read as %s, %v", c, err)
	}
	if Payloads.Has(Data) || Payloads.Has(Ephemeral) || Aged.Has(Data) {
		t.Error("data may be removed automatically")
	}
}

// TestMadeFirst checks that only what a kubelet makes before a container runs does not count as use.
func TestMadeFirst(t *testing.T) {
	for _, tt := range []struct {
		path string
		typ  Type
		size int64
		want bool
	}{
		{"etc-hosts", Regular, 200, true},
		{"etc-hosts", Symlink, 0, false},
		{"containers/app/1a2b3c4d", Regular, 0, true},
		{"containers/app/1a2b3c4d", Regular, 9, false}, // a container wrote it
		{"plugins/kubernetes.io~empty-dir/cache/ready", Regular, 0, true},
		{"plugins/kubernetes.io~empty-dir/cache/ready", Regular, 1, false},
		{"volumes/kubernetes.io~csi/pv/vol_data.json", Regular, 300, true},
		{"volumes/kubernetes.io~csi/pv/vol_data.json", Symlink, 0, false},
		{"volumes/kubernetes.io~csi/pv/mount/file", Regular, 0, false},
		{"volumes/kubernetes.io~empty-dir/cache/file", Regular, 0, false},
		{"volumes/kubernetes.io~projected/token/..data", Symlink, 0, false},
		{"volume-subpaths/v/app/0", Regular, 0, false},
		{"volumeDevices/kubernetes.io~csi/pv", Symlink, 0, false},
		{"userns", Regular, 139, false},
		{"other", Regular, 0, false},
	} {
		if got := MadeFirst(strings.Split(tt.path, "/"), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s, %d bytes: %t", tt.path, tt.size, got)
		}
	}
}
