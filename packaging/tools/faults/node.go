package main

// nodeFaults are faults of the sensors. The judge believes what they return, so that only their own tests catch these.
var nodeFaults = []fault{
	{
		kind: slip, slip: "a node on which no pod has a cgroup passes for one without cgroups of pods",
		file: "reaper/node/cgroup.go", in: "podCgroups.fact",
		old: `f.Truth, f.Detail = judge.Unknown, "no`, new: `f.Truth, f.Detail = judge.No, "no`,
	},
	{
		kind: guard, slip: "the walk of the cgroups ends at its limit without an error",
		file: "reaper/node/cgroup.go", in: "cgroupWalk.walk",
		old: `return fdpath.PathError("read", at, errors.New("the cgroups are too deep"))`, new: `_ = errors.New; return nil`,
	},
	{
		kind: slip, slip: "a cgroup that a user has made counts as a pod's",
		file: "reaper/node/cgroup.go", in: "cgroupWalk.visit",
		old: `case st.Uid != 0 && int(st.Uid) != os.Geteuid():`, new: `case int(st.Uid) < os.Geteuid():`,
	},
	{
		kind: slip, slip: "the last value of a flag does not win",
		file: "reaper/node/command.go", in: "command.flag",
		old: `values[len(values)-1]`, new: `values[0]`,
	},
	{
		kind: guard, slip: "a subvolume passes for a directory of the pods' file system",
		file: "reaper/node/directory.go", in: "Scanner.readDirectory",
		old: `d.id.Dev != dev`, new: `d.id.Dev == 0 && dev != 0`,
	},
	{
		kind: guard, slip: "a mount in a directory that the kubelet has made again is passed over",
		file: "reaper/node/directory.go", in: "skeletonOnly",
		old: "case errors.Is(err, unix.EXDEV):\n\t\t\treturn judge.No", new: "case errors.Is(err, unix.EXDEV):\n\t\t\tcontinue",
	},
	{
		kind: slip, slip: "a directory whose mtime was set back has not changed",
		file: "reaper/node/directory.go", in: "skeletonReader.add",
		old: `binary.NativeEndian.PutUint64(b[16:], uint64(fdpath.Nanos(st.Ctime)))`, new: ``,
	},
	{
		kind: slip, slip: "the age of a volume is that of its inode",
		file: "reaper/node/directory.go", in: "skeletonReader.written",
		old: `fdpath.Nanos(st.Mtime)`, new: `fdpath.Nanos(st.Ctime)`,
	},
	{
		kind: slip, slip: "the age of a CSI volume is that of its directory, which the kubelet changes when it cleans",
		file: "reaper/node/directory.go", in: "skeletonReader.plugin",
		old: `plugin != csiPlugin || !fdpath.IsDir(&st)`, new: `plugin != csiPlugin || fdpath.IsDir(&st)`,
	},
	{
		kind: slip, slip: "the subpaths of a pod are not compared",
		file: "reaper/node/directory.go", in: "skeletonReader.read",
		old: `"containers", "volume-subpaths"`, new: `"containers"`,
	},
	{
		kind: model, slip: "a root directory with the same inode on another device is ours",
		file: "reaper/node/kubelet.go", in: "Scanner.findKubelets",
		old: `root != k.rootID`, new: `root.Ino != k.rootID.Ino`,
	},
	{
		kind: slip, slip: "a kubelet whose root directory cannot be opened has another one",
		file: "reaper/node/kubelet.go", in: "Scanner.findKubelets",
		old: `return k, fmt.Errorf("cannot open the root directory of %s: %w", c.who(), err)`,
		new: `k.others = append(k.others, fmt.Sprintf("cannot open the root directory of %s: %v", c.who(), err))`,
	},
	{
		kind: slip, slip: "a program of another user is a kubelet",
		file: "reaper/node/kubelet.go", in: "Scanner.candidates",
		old: ` || !p.root {`, new: ` {`,
	},
	{
		kind: model, slip: "a process that takes over the PID of another one is that one",
		file: "reaper/node/kubelet.go", in: "Scanner.candidate",
		old: `err != nil || after != before`, new: `err != nil || after < before`,
	},
	{
		kind: slip, slip: "the PID of the kubelet in its container is the node's",
		file: "reaper/node/kubelet.go", in: "Scanner.describe",
		old: `Inner: c.inner`, new: `Inner: c.pid`,
	},
	{
		kind: slip, slip: "of two kubelets with our root directory the first one counts",
		file: "reaper/node/kubelet.go", in: "kubelets.ours",
		old: `case len(k.own) == 1:`, new: `case len(k.own) >= 1:`,
	},
	{
		kind: slip, slip: "the root directory of a kubelet is looked up in our own root",
		file: "reaper/node/kubelet.go", in: "Scanner.rootOf",
		old: `unix.Openat2(root.FD(), dir, &how)`, new: `unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: how.Flags})`,
	},
	{
		kind: slip, slip: "the budget of a pod is as large for each table",
		file: "reaper/node/table.go", in: "mountReader.parse",
		old: `if b.bytes = in.left; over {`, new: `if over {`,
	},
	{
		kind: slip, slip: "a large table of a pod is a doubt about all pods",
		file: "reaper/node/mounts.go", in: "mountReader.readProcess",
		old: `case v.owner.pod != "":`, new: `case v.owner.pod != "" && v.apart:`,
	},
	{
		kind: slip, slip: "a table of the node's programs that cannot be read is passed over",
		file: "reaper/node/mounts.go", in: "mountReader.readProcess",
		old: `case v.apart:`, new: `case v.apart || v.owner.unit != "":`,
	},
	{
		kind: slip, slip: "the first mount of a pod that is found hides one in its directory",
		file: "reaper/node/mounts.go", in: "mountReader.scan",
		old: `ok && (known.Alive || !alive)`, new: `ok && (known.Truth == judge.Yes || !alive)`,
	},
	{
		kind: slip, slip: "any user of the node keeps a pod by a path of its name",
		file: "reaper/node/mounts.go", in: "mountReader.scan",
		old: `v.apart && !r.onPodsDevice(m)`, new: `v.apart && len(r.dirs) == 0`,
	},
	{
		kind: slip, slip: "a mount of a pod shows that it is alive wherever it is",
		file: "reaper/node/mounts.go", in: "mountReader.scan",
		old: `v.own && r.below(m.Mountpoint, uid)`, new: `v.own`,
	},
	{
		kind: slip, slip: "a mount below the pods directory shows that every pod is alive whose UID it has",
		file: "reaper/node/owndir.go", in: "mountReader.below",
		old: `named {`, new: `named || first != "" {`,
	},
	{
		kind: slip, slip: "another peer group than the host's receives its mounts",
		file: "reaper/node/owndir.go", in: "mountReader.follows",
		old: `&& r.host.shared[group]`, new: `&& group != ""`,
	},
	{
		kind: slip, slip: "a mount namespace that is a slave of the host's does not receive its mounts",
		file: "reaper/node/owndir.go", in: "mountReader.follows",
		old: `(tag == "master" || tag == "shared")`, new: `tag == "shared"`,
	},
	{
		kind: slip, slip: "any process at the socket of the PodsAPI is the kubelet",
		file: "reaper/node/podsapi.go", in: "peerChecker.check",
		old: `|| int(c.Pid) != kubelet`, new: ``,
	},
	{
		kind: slip, slip: "a process that may not be read has ended",
		file: "reaper/node/process.go", in: "vanished",
		old: `unix.ESRCH, unix.EINVAL`, new: `unix.ESRCH, unix.EINVAL, unix.EACCES`,
	},
	{
		kind: slip, slip: "a cgroup below a user's slice is a pod's",
		file: "reaper/node/process.go", in: "parseOwner",
		old: `!slices.Contains(parts, "user.slice")`, new: `!slices.Contains(parts, "user")`,
	},
	{
		kind: slip, slip: "a daemon that is hidden by hidepid does not run",
		file: "reaper/node/process.go", in: "Scanner.listProcesses",
		old: `!slices.Contains(pids, 1)`, new: `len(pids) == 0`,
	},
	{
		kind: slip, slip: "a socket is asked, and its error is not counted beside one that answers",
		file: "reaper/node/runtime.go", in: "merge",
		old: `a.Err != nil && first == nil`, new: `a.Err != nil && first == nil && len(sources) == 0`,
	},
	{
		kind: slip, slip: "a container without labels is not its sandbox's",
		file: "reaper/node/runtime.go", in: "runtimes.add",
		old: `owners[c.GetPodSandboxId()]...`, new: `owners[c.GetId()]...`,
	},
	{
		kind: slip, slip: "an answer of no pod at all is complete",
		file: "reaper/node/snapshot.go", in: "scan.runtimeKnown",
		old: `if _, ok := r.pods[parsers.PodUID(name)]; ok {`,
		new: `if _, ok := r.pods[parsers.PodUID(name)]; ok || len(r.pods) == 0 {`,
	},
	{
		kind: slip, slip: "a pod of a manifest is not static for a runtime that does not show it",
		file: "reaper/node/snapshot.go", in: "scan.pod",
		old: `p.Static = p.Static || c.list.found.pods[uid].static`, new: `p.Static = c.list.found.pods[uid].static`,
	},
	{
		kind: slip, slip: "a directory of the journal that cannot be read is none",
		file: "reaper/node/snapshot.go", in: "scan.journal",
		old: `return judge.Unknown`, new: `return judge.No`,
	},
	{
		kind: slip, slip: "a scan that ran out of time asks for an operator",
		file: "reaper/node/scanner.go", in: "sense",
		old: `errors.Is(err, bounded.ErrHangs) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)`,
		new: `errors.Is(err, bounded.ErrHangs)`,
	},
	{
		kind: slip, slip: "the mounts are read before the runtime is asked",
		file: "reaper/node/scanner.go", in: "Scanner.Scan",
		old: `	c.runtime = sense(ctx, s, "runtimes", func(ctx context.Context) (runtimes, error) { return s.askRuntimes(ctx) })
	c.mounts = sense(ctx, s, "mounts", func(ctx context.Context) (*mountTables, error) {
		return s.readMounts(ctx, c.kubelet.found.pid(), c.wanted)
	})
`,
		new: `	c.mounts = sense(ctx, s, "mounts", func(ctx context.Context) (*mountTables, error) {
		return s.readMounts(ctx, c.kubelet.found.pid(), c.wanted)
	})
	c.runtime = sense(ctx, s, "runtimes", func(ctx context.Context) (runtimes, error) { return s.askRuntimes(ctx) })
`,
	},
	{
		kind: partial, slip: "a scan of few pods does not see who else uses a volume",
		file: "reaper/node/staged.go", in: "Scanner.readStaged",
		old: "for _, at := range v.at {\n\t\t\tusers[at]++",
		new: "for _, at := range v.at {\n\t\t\tif !wanted[parsers.PodUID(name)] {\n\t\t\t\tbreak\n\t\t\t}\n\t\t\tusers[at]++",
	},
	{
		kind: refused, slip: "a volume is staged for no pod if the pods directory cannot be listed",
		file: "reaper/node/snapshot.go", in: "scan.stagedFact",
		old: "[]doubt{c.mounts.doubt, c.names.doubt}",
		new: "[]doubt{c.mounts.doubt}",
	},
	{
		kind: slip, slip: "the block volumes of a pod that could not be read are none",
		file: "reaper/node/staged.go", in: "readVolumes",
		old: "if v.err == nil {\n\t\tv.err = err\n\t}", new: "_ = err",
	},
	{
		kind: partial, slip: "a scan does not compare the new directory of a pod in quarantine",
		file: "reaper/node/scanner.go", in: "scan.want",
		old: `c.asked, c.entries[uid] = append(c.asked, string(uid)), true`,
		new: `c.asked, c.entries[uid] = append(c.asked, string(uid)), len(only) == 0`,
	},
}
