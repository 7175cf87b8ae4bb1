package main

var cniFaults = []fault{
	{
		kind: durability, slip: "the archive is finished after the files are removed",
		file: "reaper/cni/remove.go", in: "removal.archive",
		old: `errors.Join(err, r.finish(a))`, new: `errors.Join(err, a.tar.Flush())`,
	},
	{
		kind: durability, slip: "files are removed without the intent in the ledger",
		file: "reaper/cni/remove.go", in: "Sweeper.remove",
		old: `|| !write(e) {`, new: `{ `,
	},
	{
		kind: operator, slip: "the undo of a sweep replaces the file of an address' new owner",
		file: "reaper/cni/archive.go", in: "undo",
		old: `-xkmf`, new: `-xmf`,
	},
	{
		kind: slip, slip: "an archive is kept as long as a file has to be old",
		file: "reaper/cni/cni.go", in: "Sweeper.Sweep",
		old: `s.dropOld(now, sweep.Retention)`, new: `s.dropOld(now, s.cfg.OlderThan)`,
	},
	{
		kind: slip, slip: "a pod that was cleaned is forgotten when the sweep after it fails",
		file: "reaper/cni/cni.go", in: "Sweeper.Sweep",
		old: `for _, uid := range sweep.Cleaned {`, new: "s.cleaned = parsers.PodSet{}\n\tfor _, uid := range sweep.Cleaned {",
	},
	{
		kind: slip, slip: "the file of a sandbox that is listed and not ready is stale",
		file: "reaper/cni/judge.go", in: "evidence.verdict",
		old: `e.boxes.ready[f.id]; listed {`, new: `e.boxes.ready[f.id]; listed && ready {`,
	},
	{
		kind: slip, slip: "a store of another engine that cannot be read is empty",
		file: "reaper/cni/judge.go", in: "evidence.verdict",
		old: "case e.doubt != nil:\n\t\treturn isUnknown, \"\"",
		new: "case e.doubt != nil && e.stored[f.id]:\n\t\treturn isUnknown, \"\"",
	},
	{
		kind: model, slip: "a clock that was set back makes a file of this boot older than it",
		file: "reaper/cni/read.go", in: "reader.marksOf",
		old: `mtime.Before(r.mark) && (age >= addTime || mtime.Before(bootTime(r.now)))`, new: `mtime.Before(r.mark)`,
	},
	{
		kind: model, slip: "a clock that was set forward makes a file of this boot older than it",
		file: "reaper/cni/node.go", in: "nodeRoot.bootMark",
		old: `oldestChange(run, bootTime(now))`, new: `bootTime(now), nil`,
	},
	{
		kind: slip, slip: "host-local's lock is released before the address is removed",
		file: "reaper/cni/remove.go", in: "removal.unlink",
		old: "err = r.unlinkOne(dir, x)\n\t\t\tl.release()", new: "l.release()\n\t\t\terr = r.unlinkOne(dir, x)",
	},
	{
		kind: refused, slip: "a file that was replaced after it was judged is removed",
		file: "reaper/cni/remove.go", in: "removal.unlinkOne",
		old: `!x.seen.Is(&st)`, new: `st.Mode&unix.S_IFMT != unix.S_IFREG`,
	},
}
