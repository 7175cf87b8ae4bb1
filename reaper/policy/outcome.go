package policy

// Result is how one action ended.
type Result string

// Done: as planned. Gone: somebody else was faster (the kubelet removes what it can), no
// error; look again. Refused: it was left, or put back, as it was, with a reason. Partly:
// something is left in quarantine that may not go, or of a cleared leaf cannot go back. Failed: an error that a person should
// see. Conflict: put back by exchange, since the directory had been made again.
const (
	Done     Result = "done"
	Gone     Result = "gone"
	Refused  Result = "refused"
	Partly   Result = "partly"
	Failed   Result = "failed"
	Conflict Result = "conflict"
)

// Tally counts directory entries and allocated bytes.
type Tally struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Add adds o to t.
func (t *Tally) Add(o Tally) { t.Entries += o.Entries; t.Bytes += o.Bytes }

// Outcome is what one action did to the disk.
type Outcome struct {
	Action Action
	Result Result
	Why    []Why  // for Refused and Failed: what stopped it
	Err    string // for Refused and Failed: the error in words, with the path
	// Taken is what was removed, by class; Left is what is still there.
	Taken map[Class]Tally
	Left  []Residue
	// VolData holds each removed vol_data.json's content by its path.
	VolData map[string]string
	// ID is the directory that Clear has made in quarantine, or that stays there.
	ID DirID
	// Conflict is the quarantine name of the directory that had been made again. Where it is
	// the action's own entry, that one stays as the conflict, and the newer is left alone.
	Conflict string
}

// Ended reports whether the action reached its goal: nothing is left to do for it.
func (o Outcome) Ended() bool {
	return o.Result == Done || o.Result == Gone || o.Result == Conflict
}

// NotBegun reports whether the runtime took too long for the sandboxes before this one.
func (o Outcome) NotBegun() bool {
	return o.Result == Refused && len(o.Why) > 0 && o.Why[0].Reason == ReasonLimit
}
