package parsers

import "time"

// Line is one line of a log as a source delivers it.
type Line struct {
	// Text is the line without its newline. It may contain any byte, and may be truncated to limit the source's memory.
	// The receiver owns it.
	Text []byte
	// Source is "journald" or the path of a file.
	Source string
	// Journal has journald's own fields for the entry, whose MESSAGE is Text. It is nil for a line of a file.
	Journal *JournalFields
	// CatchUp is true if the line was in the file when the file was opened or found truncated. Without a certain time
	// such a line may be of any age, even of another boot: it may start a look, but is not evidence.
	CatchUp bool
	// Whole is true if the line is known to be a complete line of its writer: in a file the line before was not
	// truncated, and this one ends in a newline; in the journal neither is a piece that journald has split. In both no line
	// just before it may be a message with newlines (Follows).
	Whole bool
}

// JournalFields are the fields of a journal entry that journald itself adds and no client can forge
// (systemd.journal-fields(7), "Trusted Journal Fields"), and the client's SYSLOG_IDENTIFIER for display.
type JournalFields struct {
	Unit       string    // _SYSTEMD_UNIT
	Comm       string    // _COMM
	UID        string    // _UID, or ""
	PID        int       // _PID, or 0
	BootID     string    // _BOOT_ID, 32 hex digits
	Identifier string    // SYSLOG_IDENTIFIER, which the client sets
	Time       time.Time // __REALTIME_TIMESTAMP, or zero
}

// Report is the kind of problem that a kubelet's line reports. Its values are part of the command line's contract.
type Report string

// The reports of a kubelet about an orphaned pod. ReportTeardown is not one of them: it is a hint that the kubelet's
// volume manager still works on the pod.
const (
	ReportPathsPresent    Report = "paths-present"
	ReportSubpathsPresent Report = "subpaths-present"
	ReportNotADirectory   Report = "not-a-directory"
	ReportRmdirNotEmpty   Report = "rmdir-not-empty"
	ReportReadError       Report = "read-error"
	ReportOther           Report = "other"
	ReportTeardown        Report = "teardown"
)

// Kind is what a report means for the pod's directory. Other texts have none.
type Kind string

const (
	// KindRemoval is every text of removeOrphanedPodVolumeDirs and of the removal after it: the kubelet has released the
	// pod, and cannot remove its directory.
	KindRemoval Kind = "removal"
	// KindVolumes are the texts at V(3) that mean the opposite: the pod has volumes in the volume manager, or mounted.
	KindVolumes Kind = "volumes"
)

// NoCount is Sighting.Count if the line has no number of errors.
const NoCount = -1

// Sighting is a line that reports one pod: a hint that a look is worth its cost.
type Sighting struct {
	UID       PodUID
	Report    Report
	Kind      Kind
	Count     int       // the kubelet's number of similar errors, or NoCount
	Transport string    // the format around the kubelet's text: klog, klog-json, syslog, journal-json, cri, ...
	Program   string    // the program that the transport names, or ""
	Time      time.Time // the line's own time, or zero if it is not certain
	// PID is the kubelet's process ID from the klog header, or from journald's trusted fields, or from the syslog tag, or
	// 0. The header has precedence, since journald has the process that wrote the line: a shell, a container client, k0s.
	PID int
	// Trusted is true if journald's own fields show that a kubelet's unit wrote the line. Only then, or if PID is the
	// running kubelet, is the line evidence.
	Trusted bool
	// CatchUp is that of the line.
	CatchUp bool
	// Whole is true if the line is known to be complete. If not, a pod may have chosen how it begins, and it is not
	// evidence.
	Whole bool
	// JSON is true for klog's JSON format, which has no process ID.
	JSON bool
	// BootID is journald's _BOOT_ID, or "".
	BootID string
	// Path is the volume path in a ReportTeardown or removal error, or "".
	Path string
	// Volume is the kubelet's name for the volume of a ReportTeardown, as it quotes it.
	Volume string
	// Leaf is set if the only error of a ReportTeardown is a directory that is not empty: the path of that directory,
	// relative to the pod directory.
	Leaf string
}
