package reaper

import (
	"encoding/json"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// manifest is what lies beside a quarantine entry, for a person who has lost our state
// directory.
func manifest(r policy.Record) []byte {
	about := "The directory beside this file was pods/" + string(r.UID) + " of the kubelet; orphan-reaper moved it here. "
	if r.Leaf != "" {
		about = "The directory beside this file holds what lay in pods/" + string(r.UID) + "/" + r.Leaf +
			" of the kubelet, below the same path; orphan-reaper moved it here, and nothing else of the pod. "
	}
	b, err := json.MarshalIndent(struct {
		About string `json:"about"`
		policy.Record
	}{about + "Move it back with: " + r.Undo, r}, "", "  ")
	if err != nil {
		return []byte("{}\n")
	}
	return append(b, '\n')
}
