package policy

// Means says how what changes the disk is kept to what it is to change. It is for people:
// no verdict rests on it.
type Means struct {
	// Openat2 says whether the kernel itself stops each step at a mount, and why not.
	Openat2 Fact `json:"openat2"`
	// Landlock says whether the kernel confines each batch to the directories of the batch,
	// whatever the code does, and why not.
	Landlock Fact `json:"landlock"`
}
