package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// The names of the custom resource of a node's report. Its definition is in packaging/chart; a test compares the fields
// of both.
const (
	APIGroup   = "orphan-reaper.github.io"
	APIVersion = APIGroup + "/v1alpha1"
	Kind       = "OrphanReport"
	// ResourcePath is the path of all reports at the API server. "/" and a node's name are added for one.
	ResourcePath = "/apis/" + APIVersion + "/orphanreports"
)

// Resource is a report as a Kubernetes object. It has the name of its node.
type Resource struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Report     Report   `json:"report"`
}

// Metadata is the part of a Resource's metadata that is written and read.
type Metadata struct {
	Name   string  `json:"name"`
	Owners []Owner `json:"ownerReferences,omitempty"`
}

// Owner is the object with which the report is deleted.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// The limits of a Resource: a report of 29 KiB cost an API server 30 ms. GET /v1/orphans has the rest.
const (
	mostResource = 8 << 10 // bytes of JSON
	mostLines    = 3       // of Missing and Errors each
	mostDetail   = 80      // bytes of a reason's detail
)

// NewResource returns a report as a Kubernetes object, and its JSON. Pods beyond the limits are only counted.
func NewResource(r Report, m Metadata) (res Resource, text []byte, err error) {
	r.Missing, r.Errors = r.Missing[:min(len(r.Missing), mostLines)], r.Errors[:min(len(r.Errors), mostLines)]
	r.Sums, r.Pods = r.Sums[:min(len(r.Sums), mostSums/2)], slices.Clone(r.Pods)
	for i := range r.Pods {
		p := &r.Pods[i]
		p.Why = slices.Clone(p.Why)
		for j := range p.Why {
			p.Why[j].Detail = clean.Cut(p.Why[j].Detail, mostDetail)
		}
	}
	with := func(n int) []byte {
		res = Resource{APIVersion: APIVersion, Kind: Kind, Metadata: m, Report: r}
		res.Report.Pods, res.Report.More = r.Pods[:n:n], r.More+len(r.Pods)-n
		text, e := res.json()
		err = errors.Join(err, e)
		return text
	}
	if text = with(len(r.Pods)); len(text) > mostResource {
		text = with(sort.Search(len(r.Pods)-1, func(n int) bool { return len(with(n+1)) > mostResource }))
	}
	return res, text, err
}

// json returns the resource as JSON, without the six-byte escapes for web pages.
func (r *Resource) json() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(r)
	return b.Bytes(), err
}
