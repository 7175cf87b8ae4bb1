package parsers

import "time"

// Line is one line of a log as a source delivers it.
type Line struct {
	// Text is the line without its newline. It may hold any byte, and may be cut
	// short where the source bounds its memory. The receiver owns it.
	Text []byte
	// Source names where the line comes from: "journald", or the path of a file.
	Source string
	// Journal holds journald's own fields for the entry, nil for a line of a file.
	// Text is then the entry's MESSAGE.
	Journal *JournalFields
	// CatchUp is true where the line was in the file when the file was opened, or found
	// truncated. Without a time that is certain, such a line may be of any age, even of
	// another boot: it may start a look, and is no evidence.
	CatchUp bool
	// Whole is true where the line is known to be a whole one of its writer: in a file the line before
	// was not cut, and this one ends in a newline; in the journal neither is a piece that journald cut off.
	Whole bool
}

// JournalFields are the fields of a journal entry that journald itself adds and no
// client can forge (systemd.journal-fields(7), "Trusted Journal Fields"), with the
// client's SYSLOG_IDENTIFIER beside them for display.
type JournalFields struct {
	Unit       string    // _SYSTEMD_UNIT
	Comm       string    // _COMM
	UID        string    // _UID, "" where absent
	PID        int       // _PID, 0 where absent
	BootID     string    // _BOOT_ID, 32 hex digits
	Identifier string    // SYSLOG_IDENTIFIER, which the client sets
	Time       time.Time // __REALTIME_TIMESTAMP, zero where absent
}

// Report is the kind of trouble that a kubelet's line reports. The values are those
// of the command line's contract.
type Report string

// The reports that a kubelet makes of an orphaned pod, and ReportTeardown, which is
// no report of an orphan but a hint that the kubelet's volume manager still works on
// the pod.
const (
	ReportPathsPresent    Report = "paths-present"
	ReportSubpathsPresent Report = "subpaths-present"
	ReportNotADirectory   Report = "not-a-directory"
	ReportRmdirNotEmpty   Report = "rmdir-not-empty"
	ReportReadError       Report = "read-error"
	ReportOther           Report = "other"
	ReportTeardown        Report = "teardown"
)

// NoCount is Sighting.Count where the line carries no number of errors.
const NoCount = -1

// Sighting is one line naming one pod: a hint that a look is worth its cost.
type Sighting struct {
	UID       PodUID
	Report    Report
	Count     int       // the kubelet's number of similar errors, NoCount where it gave none
	Transport string    // how the line was wrapped: klog, klog-json, syslog, journal-json, cri, ...
	Program   string    // the program that the transport names, "" where it names none
	Time      time.Time // the line's own time, zero where it has none that is certain
	// PID is the kubelet's process ID: from the klog header, else from journald's trusted
	// fields, else from the syslog tag; 0 where the line has none. The header comes first
	// since journald names the process that wrote: a shell, a container client, k0s.
	PID int
	// Trusted is true where journald's own fields show that a kubelet's unit wrote the
	// line. Only then, or when PID is the kubelet that runs now, is it evidence.
	Trusted bool
	// CatchUp is that of the line.
	CatchUp bool
	// Whole is true where the line is known to be a whole one. Where it may be the rest of
	// another, a pod chose how it begins: a hint, and no evidence.
	Whole bool
	// JSON is true for klog's JSON format, which holds no process ID of its own.
	JSON bool
	// BootID is journald's _BOOT_ID, "" elsewhere.
	BootID string
	// Path is the volume path that a ReportTeardown or removal error names, "" where it
	// names none.
	Path string
	// Volume is the kubelet's own name for the volume of a ReportTeardown, as it quotes it.
	Volume string
	// Leaf is set where a ReportTeardown fails for nothing but a directory that is not empty:
	// that directory, from the pod directory on.
	Leaf string
}
