package contents

import (
	"strings"
	"testing"
)

// TestClassOf checks the class of each path. What is not certainly the kubelet's own is a user's data, which no pass
// removes.
func TestClassOf(t *testing.T) {
	tests := []struct {
		path string
		typ  EntryType
		size int64
		want Class
	}{
		{"etc-hosts", TypeRegular, 200, ClassSkeleton},
		{"etc-hosts", TypeSymlink, 0, ClassData},
		{"containers/app/1a2b3c4d", TypeRegular, 9, ClassSkeleton},
		{"containers/app/sub/1a2b3c4d", TypeRegular, 9, ClassData},
		{"containers/app/fifo", TypeOther, 0, ClassData},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/ready", TypeRegular, 0, ClassSkeleton},
		{"plugins/kubernetes.io~empty-dir/wrapped_x/other", TypeRegular, 0, ClassData},
		{"volumes/kubernetes.io~secret/tok/..data", TypeSymlink, 0, ClassProjected},
		{"volumes/kubernetes.io~configmap/c/..2026/key", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~projected/p/token", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~downward-api/d/labels", TypeRegular, 5, ClassProjected},
		{"volumes/kubernetes.io~secret/file", TypeRegular, 5, ClassData},
		{"volumes/kubernetes.io~empty-dir/cache/a/b", TypeRegular, 5, ClassEphemeral},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", TypeRegular, 300, ClassSkeleton},
		{"volumes/kubernetes.io~csi/pvc-1/vol_data.json", TypeSymlink, 0, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/other.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/mount/vol_data.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~csi/pvc-1/mount/db", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~nfs/share/vol_data.json", TypeRegular, 300, ClassData},
		{"volumes/kubernetes.io~local-volume/disk/x", TypeOther, 0, ClassData},
		{"volumes/example.com~secret/x/y", TypeRegular, 1, ClassData},
		{"volume-subpaths/v/app/0", TypeRegular, 0, ClassSkeleton},
		{"volume-subpaths/v/app/0", TypeRegular, 1, ClassData},
		{"volume-subpaths/v/app/0/file", TypeRegular, 0, ClassData},
		{"volumeDevices/kubernetes.io~csi/pvc-1", TypeSymlink, 0, ClassSkeleton},
		{"volumeDevices/kubernetes.io~csi/pvc-1", TypeOther, 0, ClassData},
		{"volumes", TypeRegular, 0, ClassData},
		{"anything", TypeRegular, 0, ClassData},
		{"anything/else", TypeRegular, 0, ClassData},
	}
	for _, tt := range tests {
		if got := ClassOf(strings.Split(tt.path, "/"), tt.typ, tt.size); got != tt.want {
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
		typ  EntryType
		size int64
		want bool
	}{
		{"userns", TypeRegular, 139, true},
		{".1234567", TypeRegular, 139, true},
		{"userns", TypeRegular, BiggestText + 1, false},
		{"userns", TypeSymlink, 10, false},
		{"userns", TypeOther, 0, false},
		{"userns.bak", TypeRegular, 139, false},
		{".", TypeRegular, 139, false},
		{".12a", TypeRegular, 139, false},
		{"containers/userns", TypeRegular, 139, false},
		{"volumes/kubernetes.io~nfs/userns", TypeRegular, 139, false},
	} {
		if got := ByText(rel(tt.path), tt.typ, tt.size); got != tt.want {
			t.Errorf("%s: %t", tt.path, got)
		}
		if got := ClassOf(rel(tt.path), tt.typ, tt.size); got != ClassData {
			t.Errorf("%s: %s before the text is read", tt.path, got)
		}
	}
	for text, want := range map[string]Class{
		kubelets: ClassSkeleton, kubelets + "\n": ClassSkeleton,
		"": ClassData, "{}": ClassData, "null": ClassData, "my notes": ClassData, kubelets + kubelets: ClassData,
		`{"uidMappings":[],"gidMappings":[]}`:                               ClassData,
		strings.Replace(kubelets, `{`, `{"note":"mine",`, 1):                ClassData,
		strings.Replace(kubelets, `"hostId":65536`, `"HostId":65536`, 1):    ClassData,
		strings.Replace(kubelets, `"length":65536`, `"length":"secret"`, 1): ClassData,
	} {
		if got := ClassOfText([]string{"userns"}, []byte(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	if ClassOfText([]string{".123"}, nil) != ClassSkeleton {
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
		"volumes/kubernetes.io~csi/v/mount":        ClassEphemeral,
		"volumes/kubernetes.io~csi/v/other":        ClassData,
		"volumes/kubernetes.io~nfs/v/mount":        ClassData,
		"volumes/kubernetes.io~projected/v/mount":  ClassProjected,
		"volumes/kubernetes.io~csi/v/mount/deeper": ClassData, // classed with mount
	} {
		rel := strings.Split(path, "/")
		if got, ok := ClassInCSI(rel, true); got != want || !ok {
			t.Errorf("%s: %s", path, got)
		}
		if got, _ := ClassInCSI(rel, false); got == ClassEphemeral {
			t.Errorf("%s of a persistent volume: %s", path, got)
		}
	}
}

// TestClassDefault checks that the zero value and a class of a newer version count as a user's data.
func TestClassDefault(t *testing.T) {
	var c Class
	if c != ClassData {
		t.Error("the zero value is not data")
	}
	c = ClassSkeleton
	if err := c.UnmarshalText([]byte("of the future")); err != nil || c != ClassData {
		t.Errorf("an unknown class is read as %s, %v", c, err)
	}
	if TakeStrip.Has(ClassData) || TakeStrip.Has(ClassEphemeral) || TakeAged.Has(ClassData) {
		t.Error("data may be removed automatically")
	}
}

func TestSplitLeaf(t *testing.T) {
	for leaf, want := range map[string]bool{
		"volumes/kubernetes.io~nfs/vol":                         true,
		"volumes/kubernetes.io~local-volume/pv":                 true,
		"volumes/kubernetes.io~empty-dir/e":                     false, // the kubelet removes it, so only a forged line names it
		"volumes/kubernetes.io~git-repo/e":                      false,
		"volumes/kubernetes.io~csi/pv/mount":                    true,
		"volumes/example.com~flex/vol":                          true,
		"volumes/kubernetes.io~csi/pv":                          false, // contains vol_data.json
		"volumes/kubernetes.io~csi/pv/vol_data.json":            false,
		"volumes/kubernetes.io~nfs/vol/mount":                   false,
		"volumes/kubernetes.io~nfs/vol/a/b":                     false,
		"volumes/kubernetes.io~nfs":                             false,
		"volumes":                                               false,
		"":                                                      false,
		"/volumes/kubernetes.io~nfs/vol":                        false,
		"volumes/kubernetes.io~nfs/vol/":                        false,
		"volumes//vol":                                          false,
		"volumes/kubernetes.io~nfs/..":                          false,
		"volumes/../vol":                                        false,
		"volumes/./vol":                                         false,
		"volumes/kubernetes.io~nfs/a\x00b":                      false,
		"volumes/kubernetes.io~nfs/" + strings.Repeat("x", 256): false,
		"volumes/kubernetes.io~secret/token":                    false, // the kubelet removes it
		"volume-subpaths/vol/c/0":                               false,
		"plugins/kubernetes.io~nfs/vol":                         false,
		"volumeDevices/kubernetes.io~csi/pv":                    false,
	} {
		if rel, ok := SplitLeaf(leaf); ok != want || (ok && strings.Join(rel, "/") != leaf) {
			t.Errorf("%q: %q %t, want %t", leaf, rel, ok, want)
		}
	}
}
