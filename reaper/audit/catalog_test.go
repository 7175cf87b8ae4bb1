package audit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const catalogFile = "../../packaging/orphan-reaper.catalog"

// always returns the fields that every record of kind k has: those of the smallest record that policy makes.
func always(t *testing.T, k policy.Kind) map[string]bool {
	t.Helper()
	action := func(kind policy.ActionKind, r policy.Result) policy.Record {
		a := policy.Action{Kind: kind, UID: testUID, ByPerson: k == policy.KindRestored}
		switch kind {
		case policy.Clear:
			a.Leaf = "volumes/kubernetes.io~nfs/v"
			fallthrough
		case policy.Park, policy.PutBack, policy.Strip, policy.Purge:
			a.Entry = testUID + ".leaf"
		}
		if k == policy.KindFailed {
			a.Entry = ""
		}
		o := policy.Outcome{Action: a, Result: r}
		if k == policy.KindConflict {
			o.Conflict = testUID + ".conflict"
		}
		rs := policy.Recorded(o, policy.Node{}, policy.Instant{})
		return rs[len(rs)-1]
	}
	bare := map[policy.Kind]policy.Record{
		policy.KindKept:         {Kind: policy.KindKept, UID: testUID, Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonHold}}},
		policy.KindParked:       action(policy.Park, policy.Done),
		policy.KindNotParked:    action(policy.Park, policy.Gone),
		policy.KindCleared:      action(policy.Clear, policy.Done),
		policy.KindNotCleared:   action(policy.Clear, policy.Refused),
		policy.KindPutBack:      action(policy.PutBack, policy.Done),
		policy.KindStripped:     action(policy.Strip, policy.Partly),
		policy.KindRemoved:      action(policy.Purge, policy.Done),
		policy.KindRestored:     action(policy.PutBack, policy.Done),
		policy.KindUnmounted:    {Kind: policy.KindUnmounted, UID: testUID},
		policy.KindNotUnmounted: {Kind: policy.KindNotUnmounted, UID: testUID},
		policy.KindForgotten:    {Kind: policy.KindForgotten, UID: testUID, Entry: testUID},
		policy.KindConflict:     action(policy.PutBack, policy.Conflict),
		policy.KindFailed:       action(policy.Park, policy.Failed),
		policy.KindQuiet:        {Kind: policy.KindQuiet, Lines: 1, PodCount: 1, LastLine: noon},
		policy.KindStillNamed:   {Kind: policy.KindStillNamed, UID: testUID, Lines: 1, LastLine: noon, Gone: noon},
		policy.KindBreaker:      {Kind: policy.KindBreaker, UID: testUID},
		policy.KindCNIRemoved:   cni.RemovedRecord("cni-1", nil, policy.Node{}, policy.Instant{}),
		policy.KindCNIRestored:  new(cni.Restored).Record("cni-1", policy.Instant{}),
	}
	r, ok := bare[k]
	if !ok {
		r = policy.Record{Kind: k} // started, stopped, resumed; and intents, which are not logged
	}
	if r.Kind != k {
		t.Fatalf("the smallest %s has the kind %s", k, r.Kind)
	}
	fields := map[string]bool{"MESSAGE": true, "PRIORITY": true}
	for name := range Fields(r) {
		fields[name] = true
	}
	return fields
}

type catalogEntry struct {
	headers map[string][]string
	body    string
}

// parseCatalog parses the format of https://systemd.io/CATALOG as systemd does: an entry begins with "-- " and its
// ID, headers end at an empty line, and lines that begin with # are ignored.
func parseCatalog(t *testing.T, text string) map[string]catalogEntry {
	t.Helper()
	entries := map[string]catalogEntry{}
	for part := range strings.SplitSeq("\n"+regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, ""), "\n-- ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		id, rest, _ := strings.Cut(part, "\n")
		head, body, ok := strings.Cut(rest, "\n\n")
		if !ok || strings.TrimSpace(body) == "" {
			t.Errorf("%s has no text", id)
		}
		if _, twice := entries[id]; twice {
			t.Errorf("%s occurs twice", id)
		}
		e := catalogEntry{headers: map[string][]string{}, body: body}
		for line := range strings.Lines(head) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				t.Errorf("%s: %q is not a header", id, line)
			}
			e.headers[name] = append(e.headers[name], value)
		}
		entries[id] = e
	}
	return entries
}

// TestCatalog checks that every MESSAGE_ID has an explanation, that no other does, and that an explanation uses only
// fields that every such record has: journalctl shows the bare name of a missing one.
func TestCatalog(t *testing.T) {
	text, err := os.ReadFile(catalogFile)
	testkit.Must(t, err)
	entries := parseCatalog(t, string(text))
	for _, m := range policy.Kinds() {
		k := m.Kind
		e, ok := entries[m.ID]
		if !ok {
			t.Errorf("%s (%s) is not in the catalog", k, m.ID)
			continue
		}
		delete(entries, m.ID)
		for name, most := range map[string]int{"Subject": 1, "Defined-By": 1, "Support": 1, "Documentation": 3} {
			if n := len(e.headers[name]); n < 1 || n > most {
				t.Errorf("%s has %d headers %s", k, n, name)
			}
		}
		for _, doc := range e.headers["Documentation"] {
			if name, ok := strings.CutPrefix(doc, "https://github.com/orphan-reaper/orphan-reaper/blob/main/"); ok {
				checkLink(t, "../..", name)
			}
		}
		fields := always(t, k)
		whole := strings.Join(e.headers["Subject"], " ") + "\n" + e.body
		for _, m := range regexp.MustCompile(`@([^@\s]+)@`).FindAllStringSubmatch(whole, -1) {
			if !fields[m[1]] {
				t.Errorf("%s uses %s, which some of these records lack", k, m[1])
			}
		}
		for line := range strings.Lines(whole) {
			if n := len(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d bytes: %s", k, n, line)
			}
		}
	}
	for id := range entries {
		t.Errorf("the catalog explains %s, which no record has", id)
	}
}

// checkLink checks that the file and the heading exist.
func checkLink(t *testing.T, root, link string) {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Errorf("%s: %v", link, err)
		return
	}
	for line := range strings.Lines(string(b)) {
		if h := strings.TrimLeft(line, "#"); h != line && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(h)), " ", "-") == anchor {
			return
		}
	}
	if anchor != "" {
		t.Errorf("%s: no such heading", link)
	}
}
