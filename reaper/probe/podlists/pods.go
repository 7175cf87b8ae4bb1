package podlists

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
)

const (
	biggestPodList = 64 << 20 // a pod usually has 10 KiB, its metadata 1 KiB
	biggestPod     = 4 << 20  // etcd accepts 1.5 MiB
)

// listedPod has the fields that are read of one pod of a list.
type listedPod struct {
	Metadata struct {
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// names returns the possible names of the pod's directory: its UID, and for a mirror pod the
// UID of the static pod.
func (p *listedPod) names() []string {
	return cri.Distinct(p.Metadata.UID, p.Metadata.Annotations[cri.AnnotationHash])
}

// addTo adds the pod's UIDs to the set.
func (p *listedPod) addTo(set map[parsers.PodUID]bool) {
	for _, name := range p.names() {
		if uid, ok := parsers.ParsePodUID(name); ok {
			set[uid] = true
		}
	}
}

// podReader reads a list of pods one at a time: {"kind":"PodList", … "items":[…]}.
type podReader struct {
	each func(*listedPod)
	// more is the list's metadata.continue, "" on the last page.
	more string

	kind  string
	items bool
	room  *io.LimitedReader
	json  *json.Decoder
}

// read calls each for every pod, also for those before an error. It returns nil only for a complete list.
func (p *podReader) read(r io.Reader) error {
	p.room = &io.LimitedReader{R: r, N: biggestPod}
	p.json = json.NewDecoder(p.room)
	if err := p.expect(json.Delim('{')); err != nil {
		return err
	}
	for p.json.More() {
		if err := p.field(); err != nil {
			return err
		}
	}
	switch err := p.expect(json.Delim('}')); {
	case err != nil:
		return err
	case p.kind != "PodList" && p.kind != "PartialObjectMetadataList":
		return fmt.Errorf("it is not a list of pods: its kind is %.40q", p.kind)
	case !p.items:
		return errors.New("it is a list of pods without items")
	}
	return nil
}

func (p *podReader) field() error {
	key, err := p.json.Token()
	if err != nil {
		return err
	}
	switch key {
	case "kind":
		return p.json.Decode(&p.kind)
	case "items":
		p.items = true
		return p.list()
	case "metadata":
		var meta struct {
			Continue string `json:"continue"`
		}
		err = p.json.Decode(&meta)
		p.more = meta.Continue
		return err
	}
	var skipped json.RawMessage
	return p.json.Decode(&skipped)
}

func (p *podReader) list() error {
	switch t, err := p.json.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil // Go writes an empty list as null
	case t != json.Delim('['):
		return errors.New("its items are no list")
	}
	for p.json.More() {
		if p.room.N = biggestPod; p.json.InputOffset() > biggestPodList {
			return fmt.Errorf("it is longer than %d bytes", biggestPodList)
		}
		var pod listedPod
		if err := p.json.Decode(&pod); err != nil {
			return err
		}
		p.each(&pod)
	}
	p.room.N = biggestPod
	return p.expect(json.Delim(']'))
}

func (p *podReader) expect(want json.Delim) error {
	t, err := p.json.Token()
	if err == nil && t != want {
		err = fmt.Errorf("it is not a list of pods: it has %v instead of %v", t, want)
	}
	return err
}
