package audit

import (
	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Record is how the events of one kind are shown: one row of the table that the journal, the message catalog and the docs
// use.
type Record struct {
	Kind     judge.EventKind
	ID       string // MESSAGE_ID, sd-id128(3)
	Priority journal.Priority
	Subject  string // one line
	Meaning  string // what has happened
	Do       string // what the operator does; "" if there is nothing to do
	Run      string // the command for that, which ends Do, with UID for the pod's
	// Pod is true if every event of the kind has a pod: its catalog entry names it.
	Pod  bool
	text func(e judge.Event) string
}

// Records is the table of records, in the order of the docs. Every kind of event has a row, except the intents: an intent
// is followed by its result.
var Records = [...]Record{
	{
		Kind: judge.EventQuarantined, ID: "7e9f7a6a9e2947a8b0e48bd5ac44653c", Priority: journal.PriInfo, Pod: true, text: quarantined,
		Subject: "A dead pod was moved to quarantine",
		Meaning: "The kubelet reported the pod as an orphan, and no fact on the node kept it. Its directory was moved to the quarantine by one " +
			"rename. Nothing was removed. If the pod shows within the time of confirm that it is alive, it is restored.",
	},
	{
		Kind: judge.EventCleaned, ID: "59cfb4a3507141d2b9bdc87e281eb1eb", Priority: journal.PriInfo, Pod: true, text: cleaned,
		Subject: "A dead pod's directory was cleaned, and some of it is left",
		Meaning: "What the kubelet had made was removed from the quarantined directory. emptyDirs and ephemeral volumes are removed after " +
			"the time of retention. What may be a user's data is removed by an operator's command only.",
		Do: "If data is left: list it with `orphan-reaper quarantine list`, then restore it or purge it.",
	},
	{
		Kind: judge.EventRemoved, ID: "ebe912dba8df4dd79d75dc062fde0cf0", Priority: journal.PriInfo, Pod: true, text: removed,
		Subject: "Nothing is left of a dead pod",
		Meaning: "The pod's quarantined directory was removed. The message has what was removed by class. If data was among it, an operator " +
			"had ordered that.",
	},
	{
		Kind: judge.EventRestored, ID: "ff761f1533844ec59cbafd0b211f7069", Priority: journal.PriNotice, Pod: true, text: restored,
		Subject: "A pod was restored from quarantine",
		Meaning: "The pod's directory is in the kubelet's pods directory again, since the pod showed that it is alive, or by an operator's " +
			"command. What an operator has restored is kept until `orphan-reaper sweep UID` names it, or the kubelet has not reported it " +
			"for an hour.",
	},
	{
		Kind: judge.EventKept, ID: "339b54063c7440b49d03bfee4892a028", Priority: journal.PriWarning, Pod: true, text: kept,
		Subject: "A pod needs an operator",
		Meaning: "The pod is kept for a reason that does not end by itself. There is one record for each change of the reasons.",
		Do:      "See each reason and what ends it:",
		Run:     "orphan-reaper explain UID",
	},
	{
		Kind: judge.EventConflict, ID: "7754070a954e49a7a941f07406a76112", Priority: journal.PriErr, Pod: true, text: conflict,
		Subject: "A living pod has another directory than the quarantined one",
		Meaning: "The pod is alive, and its directory could not be restored, since the kubelet has made another one that is in use. Nothing " +
			"was removed from either.",
		Do:  "Remove the quarantined directory with `orphan-reaper quarantine purge UID`, or have the pod use it again:",
		Run: "orphan-reaper quarantine restore UID --replace",
	},
	{
		Kind: judge.EventBreaker, ID: "27b37300a2464af08cb59b3f7cbe4565", Priority: journal.PriCrit, text: breaker,
		Subject: "The circuit breaker opened: a quarantined pod is alive",
		Meaning: "Everything had shown that the pod was dead, and then it showed that it is alive. Its directory is restored with all that " +
			"was in it. Until an operator closes the circuit breaker, nothing on this node is moved or removed.",
		Do:  "Find the cause in the logs of the kubelet and the runtime of that time. Then close the circuit breaker:",
		Run: "orphan-reaper quarantine resume",
	},
	{
		Kind: judge.EventResumed, ID: "1f4f2e7fc4944001a44bd56fee6aaa57", Priority: journal.PriNotice, text: resumed,
		Subject: "An operator closed the circuit breaker",
		Meaning: "Dead pods are moved and removed again.",
	},
	{
		Kind: judge.EventFailed, ID: "fbffbf8696bd412d8519839fc12fa7ea", Priority: journal.PriErr, text: failed,
		Subject: "A step failed",
		Meaning: "The message has the error and its path. The daemon tries a step in quarantine again after five minutes, and later each time.",
		Do:      "Repair what the error names: a read-only or full file system, an immutable file, an input/output error.",
	},
	{
		Kind: judge.EventNotMoved, ID: "6a93a6434c9a4daf903b978f44b7218b", Priority: journal.PriInfo, Pod: true, text: notMoved,
		Subject: "A pod was not moved to quarantine",
		Meaning: "The move was planned, and withdrawn or refused: the last scan before it found a reason to keep the pod, the kubelet removed " +
			"the directory first, or the disk refused. The pod is judged again at the next scan.",
	},
	{
		Kind: judge.EventNotRestored, ID: "ddf81eaf044b43d4a86427be02007dc2", Priority: journal.PriWarning, Pod: true, text: notRestored,
		Subject: "A pod was not restored from quarantine",
		Meaning: "The directory is in quarantine as before, with all that is in it. The restore is tried again at the next scan.",
		Do:      "If it is repeated, repair what the error names.",
	},
	{
		Kind: judge.EventReleased, ID: "7d5d219af4a74ea4841d9bfabe168c48", Priority: journal.PriInfo, Pod: true, text: released,
		Subject: "A restored pod is judged again",
		Meaning: "An operator's sweep has named the pod, or the kubelet has not reported it for an hour. The restore keeps it no longer.",
	},
	{
		Kind: judge.EventUnmounted, ID: "57de7a9a1c224ae49f819ffd6b52e16f", Priority: journal.PriNotice, Pod: true, text: unmounted,
		Subject: "A dead pod's mounts were unmounted",
		Meaning: "An operator ordered it. The message has the mount points. What was mounted there keeps its data.",
	},
	{
		Kind: judge.EventCNIRemoved, ID: "239a6bf051e240ab9f9cefde1e4914b7", Priority: journal.PriInfo, text: cniRemoved,
		Subject: "Stale CNI files were removed",
		Meaning: "The sandboxes of these files are gone: cached results, and addresses that host-local had reserved. All of them are in one " +
			"tar archive, which is kept for the time of retention. The message has the command that puts them back.",
	},
	{
		Kind: judge.EventStarted, ID: "c4fd42b7ba23469c9c7c483a606dee92", Priority: journal.PriInfo, text: started,
		Subject: "The daemon started",
		Meaning: "It scans at once, and then when the kubelet reports an orphan.",
	},
	{
		Kind: judge.EventStopped, ID: "170872e7f263487faee7e996e7700bab", Priority: journal.PriInfo, text: stopped,
		Subject: "The daemon stopped",
		Meaning: "What is in quarantine is kept. The next start goes on with it.",
	},
}

// RecordOf returns the row of the kind. It returns false for an intent.
func RecordOf(kind judge.EventKind) (Record, bool) {
	for _, r := range Records {
		if r.Kind == kind {
			return r, true
		}
	}
	return Record{}, false
}
