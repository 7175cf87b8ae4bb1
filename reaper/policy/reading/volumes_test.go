package reading

import "testing"

// TestHolds: a staged volume is a living pod's that has it mounted; whatever is less than that
// leaves it the dead pod's.
func TestHolds(t *testing.T) {
	v := CSIVolume{Driver: "d", Handle: "h"}
	user := VolumeUser{UID: "successor", Volume: v, Lives: true, Mounted: true}
	if !user.KeepsStaged("orphan", v) {
		t.Error("the successor does not hold its volume")
	}
	for name, change := range map[string]func(u *VolumeUser){
		"another handle":        func(u *VolumeUser) { u.Volume.Handle = "i" },
		"another driver":        func(u *VolumeUser) { u.Volume.Driver = "e" },
		"the orphan itself":     func(u *VolumeUser) { u.UID = "orphan" },
		"nobody":                func(u *VolumeUser) { u.UID = "" },
		"dead":                  func(u *VolumeUser) { u.Lives = false },
		"without its own mount": func(u *VolumeUser) { u.Mounted = false },
	} {
		u := user
		if change(&u); u.KeepsStaged("orphan", v) {
			t.Errorf("%s keeps the volume staged", name)
		}
	}
	for _, none := range []CSIVolume{{}, {Driver: "d"}, {Handle: "h"}} {
		if (VolumeUser{UID: "successor", Volume: none, Lives: true, Mounted: true}).KeepsStaged("orphan", none) {
			t.Errorf("%+v is kept staged", none)
		}
	}
}
