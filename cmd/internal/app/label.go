package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// refused returns which security label keeps this process from reading one of the places, "" where none is known to. It is
// for root, which lacks only capabilities otherwise. attr is the label of this process, as in /proc/self/attr/current.
func refused(attr string, places ...string) string {
	for _, place := range places {
		f, err := os.Open(place)
		if err == nil {
			_ = f.Close()
		}
		if errors.Is(err, fs.ErrPermission) {
			return labelHint(attr, place)
		}
	}
	return ""
}

// labelHint returns what keeps the label from reading the place, and the setting that helps.
//
//	system_u:system_r:container_t:s0:c12,c40
//	cri-containerd.apparmor.d (enforce)
func labelHint(attr, place string) string {
	text, err := os.ReadFile(attr)
	if err != nil {
		return ""
	}
	label := strings.TrimRight(string(text), "\x00\n")
	if profile, ok := strings.CutSuffix(label, " (enforce)"); ok {
		return fmt.Sprintf("AppArmor: this runs with the profile %s, which may not read %s; set the pod's appArmorProfile to Unconfined", profile, place)
	}
	if context := strings.Split(label, ":"); len(context) > 2 {
		return fmt.Sprintf("SELinux: this runs as %s, which may not read %s; set seLinuxOptions.type to spc_t", context[2], place)
	}
	return ""
}
