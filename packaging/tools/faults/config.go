package main

var configFaults = []fault{
	{
		kind: slip, slip: "the hold is ten seconds by default",
		file: "cmd/internal/config/settings.go", in: "Settings",
		old: `key:"hold" type:"DURATION" default:"1m"`, new: `key:"hold" type:"DURATION" default:"10s"`,
	},
	{
		kind: slip, slip: "the first value of a flag counts",
		file: "cmd/internal/config/value.go", in: "Setting.set",
		old: `last := values[len(values)-1]`, new: `last := values[0]`,
	},
	{
		kind: slip, slip: "a file with the settings that cannot be read is no file",
		file: "cmd/internal/config/config.go", in: "Load",
		old: `case named || !errors.Is(err, fs.ErrNotExist):`, new: `case named && errors.Is(err, fs.ErrNotExist), named:`,
	},
	{
		kind: refused, slip: "the group of a file's owner decides what root removes",
		file: "cmd/internal/config/file.go", in: "read",
		old: `0o022`, new: `0o002`,
	},
	{
		kind: refused, slip: "the owner of a file that is not root decides what root removes",
		file: "cmd/internal/config/file.go", in: "read",
		old: `owner != 0 && owner != os.Geteuid(), `, new: ``,
	},
	{
		kind: refused, slip: "the pods directory lies in the quarantine",
		file: "cmd/internal/config/config.go", in: "Config.check",
		old: `within(quarantine, pods) || within(pods, quarantine)`, new: `within(quarantine, pods)`,
	},
	{
		kind: refused, slip: "a key that is there twice has the value of the second",
		file: "cmd/internal/config/file.go", in: "Config.apply",
		old: `first != 0`, new: `first == key.Line`,
	},
	{
		kind: refused, slip: "a value of a wrong line is used with the others",
		file: "cmd/internal/config/file.go", in: "Config.apply",
		old: `return errors.Join(errs...)`, new: `return nil`,
	},
	{
		kind: slip, slip: "a directory whose name begins like that of the pods is inside it",
		file: "cmd/internal/config/config.go", in: "within",
		old: `strings.TrimSuffix(dir, "/")+"/"`, new: `strings.TrimSuffix(dir, "/")`,
	},
	{
		kind: slip, slip: "the running kubelet's root directory is not compared with the quarantine",
		file: "cmd/internal/config/config.go", in: "Config.Settle",
		old: `return c.check(c.RootDir)`, new: `return nil`,
	},
	{
		kind: slip, slip: "max_per_scan is read and not used",
		file: "cmd/internal/config/config.go", in: "Config.Judge",
		old: ` MaxPerScan: c.MaxPerScan,`, new: ``,
	},
	{
		kind: slip, slip: "a reload changes a setting that needs a restart",
		file: "cmd/internal/config/settings.go", in: "Settings",
		old: `default:"24h" shared:"yes" usage:"how old a CNI file`, new: `default:"24h" reload:"yes" shared:"yes" usage:"how old a CNI file`,
	},
	{
		kind: slip, slip: "the auto of a flag does not win over the file",
		file: "cmd/internal/config/value.go", in: "Setting.set",
		old: "field.SetZero()\n\t\treturn nil", new: `return nil`,
	},
}
