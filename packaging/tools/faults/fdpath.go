package main

var fdpathFaults = []fault{
	{
		kind: guard, slip: "a step goes through a mount point",
		file: "reaper/fdpath/opener.go", in: "resolveStep",
		old: " | unix.RESOLVE_NO_XDEV",
		new: "",
	},
	{
		kind: guard, slip: "a step follows a link",
		file: "reaper/fdpath/opener.go", in: "pathAny",
		old: "unix.O_PATH | unix.O_NOFOLLOW",
		new: "unix.O_PATH",
	},
	{
		kind: guard, slip: "a mount ID that could not be read counts as that of the parent",
		file: "reaper/fdpath/opener.go", in: "Opener.byMountID",
		old: "if err != nil {\n\t\t\tClose(handle)",
		new: "if errors.Is(err, unix.EXDEV) {\n\t\t\tClose(handle)",
	},
	{
		kind: guard, slip: "two directories are on one mount where that is not known",
		file: "reaper/fdpath/dir.go", in: "Dir.SameMount",
		old: "err == nil && same",
		new: "err != nil || same",
	},
	{
		kind: guard, slip: "the walk enters another file system that is no mount point",
		file: "reaper/fdpath/walk.go", in: "Walker.enter",
		old: "child.ID.Dev != l.ID.Dev",
		new: "child.ID == l.ID",
	},
	{
		kind: slip, slip: "each level of a walk keeps the names of a large piece",
		file: "reaper/fdpath/walk.go", in: "Walker.piece",
		old: "len(up.pending) >= sortFrom",
		new: "len(up.pending) < 0",
	},
	{
		kind: guard, slip: "a file that is a mount point is visited",
		file: "reaper/fdpath/walk.go", in: "Walker.file",
		old:   "case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:",
		new:   "case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && opened:",
		tests: []string{"reaper/fdpath", "reaper/quarantine"},
	},
	{
		kind: refused, slip: "a step goes up",
		file: "reaper/fdpath/opener.go", in: "Opener.resolve",
		old: `name == "" || name == ".." || `,
		new: `name == "" || `,
	},
	{
		kind: guard, slip: "a status is taken through a mount point on a kernel that does not show these",
		file: "reaper/fdpath/dir.go", in: "Dir.StatIn",
		old: "st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || ",
		new: "",
	},
	{
		kind: refused, slip: "a file that was written since counts as the one that was seen",
		file: "reaper/fdpath/file.go", in: "Seen.Is",
		old: ` && Nanos(st.Ctime) == s.Ctime`, new: ``,
	},
	{
		kind: refused, slip: "a file is read that is not the one that was seen",
		file: "reaper/fdpath/file.go", in: "Dir.ReadSeen",
		old: `!seen.Is(&st)`, new: `!IsDir(&st) && st.Ino == 0`,
	},
}
