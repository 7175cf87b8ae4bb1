package main

var contentFaults = []fault{
	{
		kind: slip, slip: "the content of a CSI volume is an emptyDir's",
		file: "reaper/content/class.go", in: "classOfVolumeTree",
		old: "return Data, len(rel) > 3",
		new: "return Ephemeral, len(rel) > 3",
	},
	{
		kind: slip, slip: "a file with content in a subpath is the kubelet's",
		file: "reaper/content/class.go", in: "Of",
		old: " && regular && size == 0",
		new: "",
	},
	{
		kind: slip, slip: "a link in the place of a termination log is the kubelet's",
		file: "reaper/content/class.go", in: "Of",
		old: "len(rel) == 3 && regular:\n\t\t// containers",
		new: "len(rel) == 3:\n\t\t// containers",
	},
	{
		kind: refused, slip: "a file of JSON in the pod's directory is the kubelet's",
		file: "reaper/content/class.go", in: "OfText",
		old: "err != nil || !bytes.Equal(again, compact.Bytes())",
		new: "err != nil || !json.Valid(again)",
	},
	{
		kind: refused, slip: "a persistent CSI volume whose data has the word is ephemeral",
		file: "reaper/content/class.go", in: "EphemeralCSI",
		old: `json.Unmarshal(volData, &v) == nil && v["volumeLifecycleMode"] == ephemeral`,
		new: "json.Unmarshal(volData, &v) == nil",
	},
	{
		kind: slip, slip: "all that lies beside an ephemeral CSI volume is ephemeral",
		file: "reaper/content/class.go", in: "InCSI",
		old: ` && rel[3] == "mount"`,
		new: "",
	},
	{
		kind: slip, slip: "the class of a newer version is the kubelet's",
		file: "reaper/content/class.go", in: "Class.UnmarshalText",
		old: "*c = Data",
		new: "*c = Skeleton",
	},
	{
		kind: slip, slip: "a termination log with content counts as made first",
		file: "reaper/content/class.go", in: "MadeFirst",
		old: "return size == 0",
		new: "return size >= 0",
	},
	{
		kind: slip, slip: "emptyDirs go after confirm",
		file: "reaper/content/class.go", in: "Payloads",
		old: "SetOf(Skeleton, Projected)",
		new: "SetOf(Skeleton, Projected, Ephemeral)",
	},
}
