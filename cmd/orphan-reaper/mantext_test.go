package main

// What the man pages say beside what they take from the code.

const manAbout = `A kubelet that finds a pod directory without a pod cleans it up only if nothing is left in its volumes. Where something is, it logs
an error every two seconds for ever. orphan-reaper follows that log. It proves for itself which pods are dead: from mounts, runtime, cgroups, processes and
the kubelet's own files.

A dead pod's directory is moved to quarantine in one rename. If the pod shows any sign of life within the confirm
time, it is put back; if not, what holds no data is removed. emptyDir content is removed after the retention. What may be data of a user stays until an operator purges it. A fact that cannot be read keeps the pod.

orphan-reaper.service runs the daemon. The other commands work beside it and without it.`

const manConfig = `The file is YAML with the keys below. A key that is unknown, is there twice, or has a value of another kind is an error, with file
and line. Flags win over the file, and the file wins over the defaults. Durations are written as 90s, 5m or 1h30m. A key with a dot is a section and
a key in it.

orphan-reaper config check shows whether a file is good, and whether it agrees with the kubelet that runs. orphan-reaper config print shows the value of each
key, and where the value came from.

SIGHUP (systemctl reload orphan-reaper) reads the file again. A file that is not good changes nothing. The journal states that, and names each changed key that
needs a restart.`

const manConfigExample = `mode: observe
log_sources: [file]
log_files:
  - /var/log/kubelet.log
kubeconfig: /etc/kubernetes/kubelet.conf`

// manList is a section of terms.
type manList struct {
	name, about string
	items       [][2]string
}

var manLists = []manList{
	{"Signals", "", [][2]string{
		{"SIGHUP", "run reads the configuration again. The journal names what needs a restart."},
		{"SIGTERM, SIGINT", "The program ends. Even a kill in the middle loses nothing: at the next start the ledger shows what to finish or to put back."},
	}},
	{"Environment", "", [][2]string{
		{"NO_COLOR", "If set, nothing is coloured."},
	}},
	{"Files", "", [][2]string{
		{"/etc/orphan-reaper/config.yaml", "The configuration, see orphan-reaper.yaml(5). It may be missing."},
		{"/var/lib/orphan-reaper", "The state: the ledger of every intent and outcome (ledger.jsonl), holds, places in the logs, archives of CNI " +
			"files (archive), and 2 MiB that are given up when the disk is full (reserve). If the ledger is lost, nothing in quarantine is removed by itself any more."},
		{"/var/lib/kubelet/orphan-reaper", "The quarantine, below the kubelet's root directory. Each entry has a manifest beside it that shows whose it is."},
		{"orphan-reaper.prom", "The metrics, in the node exporter's textfile directory."},
		{"/usr/share/orphan-reaper", "Alert rules for Prometheus and rules for the node problem detector, to copy from."},
	}},
	{"Journal", `Every record is an entry of the journal with these fields beside MESSAGE and PRIORITY. You can rely on the names and meanings: fields
are added, not changed. journalctl -x -t orphan-reaper adds to each record what it means and what to do.

What was removed in the last week, one pod's whole history, and what needs an operator:

journalctl -t orphan-reaper ORPHAN_REAPER_KIND=parked --since -7d

journalctl -t orphan-reaper ORPHAN_REAPER_POD_UID=UID

journalctl -t orphan-reaper ORPHAN_REAPER_NEEDS_PERSON=1`, [][2]string{
		{"MESSAGE_ID", "What kind of record it is, a number that never changes."},
		{"ORPHAN_REAPER_KIND", "The kind of the record, such as kept, parked, put-back, stripped, removed, restored, failed, breaker."},
		{"ORPHAN_REAPER_POD_UID, ORPHAN_REAPER_POD_NAMESPACE, ORPHAN_REAPER_POD_NAME", "The pod, as far as it is known."},
		{"ORPHAN_REAPER_ENTRY", "The name in quarantine."},
		{"ORPHAN_REAPER_LEAF", "The one directory whose content was moved, where it was not the whole pod directory."},
		{"ORPHAN_REAPER_SANDBOX", "The ID of the sandbox that the record is about."},
		{"ORPHAN_REAPER_ARCHIVE, ORPHAN_REAPER_PODS", "Of CNI files: the name of their archive, and some of their pods."},
		{"ORPHAN_REAPER_NEEDS_PERSON", "1 if it stays as it is until an operator acts."},
		{"ORPHAN_REAPER_VERDICT", "wait or keep."},
		{"ORPHAN_REAPER_REASONS, ORPHAN_REAPER_REASON_DETAIL", "Why: reasons of the list below, separated by commas. What " +
			"was seen: one line for each reason."},
		{"ORPHAN_REAPER_TAKEN_ENTRIES, ORPHAN_REAPER_TAKEN_BYTES", "What was removed. The same for each class: ORPHAN_REAPER_TAKEN_CLASS_ENTRIES and _BYTES."},
		{"ORPHAN_REAPER_LEFT", "What stays in quarantine, as JSON."},
		{"ORPHAN_REAPER_VOL_DATA", "Of each vol_data.json that was removed, as JSON: the driver, the handle and the names of the keys."},
		{"ORPHAN_REAPER_UNDO", "The command that undoes it, if there is one."},
		{"ERROR", "The error, of what failed."},
		{"ORPHAN_REAPER_SEQ, ORPHAN_REAPER_BOOT_ID", "The record's number in the ledger, and the boot in which it was written."},
	}},
}
