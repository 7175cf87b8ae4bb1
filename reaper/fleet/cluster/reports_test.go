package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// reportOf returns an OrphanReport in JSON, written that long ago.
func reportOf(node string, ago time.Duration) string {
	return fmt.Sprintf(`{"apiVersion":"orphan-reaper.github.io/v1alpha1","kind":"OrphanReport","metadata":{"name":%q,"managedFields":[{}]},`+
		`"report":{"node":%q,"at":%q,"mode":"enforce","counts":{"keep":1},"pods":[]}}`, node, node, now.Add(-ago).Format(time.RFC3339))
}

func nodeOf(name, system string) string {
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/os":%q}},"status":{"images":[{}]}}`, name, system)
}

func itemsOf(kind, more string, items ...string) string {
	return fmt.Sprintf(`{"kind":%q,"metadata":{"continue":%q},"items":[%s]}`, kind, more, strings.Join(items, ","))
}

// seen collects the results as text.
type seen []string

func (l *seen) each(at report.Target, r *report.Report, err error) {
	text := at.Node
	switch {
	case err != nil:
		text += " silent: " + err.Error()
	case !at.Named || r.Node != at.Node || r.Counts.Keep != 1:
		text += fmt.Sprintf(" %+v", r)
	}
	*l = append(*l, text)
}

// clusterOf serves as an API server with these pages of reports and these nodes ("": not permitted).
func clusterOf(t *testing.T, nodes string, pages ...http.HandlerFunc) (list seen, doubt Doubt, err error) {
	t.Helper()
	asked := 0
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/nodes" && strings.HasPrefix(r.Header.Get("Accept"), "application/json;as=PartialObjectMetadataList"):
			if nodes == "" {
				testkit.Refuse(403, "forbidden")(w, r)
				return
			}
			testkit.Answer(nodes)(w, r)
		case r.URL.Path == "/apis/apps/v1/daemonsets":
			testkit.Refuse(403, "forbidden")(w, r)
		case r.URL.Path == report.ResourcePath && r.URL.Query().Get("limit") == "500":
			asked++
			pages[min(asked, len(pages))-1](w, r)
		default:
			t.Errorf("request for %s", r.URL)
		}
	})
	doubt, err = Reports(t.Context(), serverOf(t, s), now, labels.Everything(), func() { list = nil }, list.each)
	return list, doubt, err
}

func TestReports(t *testing.T) {
	linux := func(names ...string) string {
		var items []string
		for _, name := range names {
			items = append(items, nodeOf(name, "linux"))
		}
		return itemsOf("PartialObjectMetadataList", "", append(items, nodeOf("win", "windows"))...)
	}
	page := func(more string, items ...string) http.HandlerFunc {
		return testkit.Answer(itemsOf("OrphanReportList", more, items...))
	}
	bad := strings.Replace(reportOf("bad", 0), `"keep":1`, `"keep":-1`, 1)
	const old = " silent: its last report is of 2026-05-01T09:00:00Z, 3h0m0s ago"
	const ahead = " silent: its last report is of 2026-05-01T15:00:00Z, which lies in the future"
	for name, c := range map[string]struct {
		nodes string
		pages []http.HandlerFunc
		want  []string
		note  string // a part of the note, if there is one
	}{
		"two pages": {linux("a", "b"), []http.HandlerFunc{page("2", reportOf("a", 0)), page("", reportOf("b", 2*time.Hour))}, []string{"a", "b"}, ""},
		"none, old, ahead, broken, gone": {
			linux("a", "none", "old", "ahead", "bad", "text"),
			[]http.HandlerFunc{page("",
				reportOf("a", 0), reportOf("old", 3*time.Hour), reportOf("ahead", -3*time.Hour), bad,
				`{"metadata":{"name":"text"},"report":"x"}`, reportOf("gone", 3*time.Hour), reportOf("new", 0))},
			[]string{
				"a", "new", "ahead" + ahead + ": check its clock",
				"bad silent: cannot read its report: it counts less than nothing, or more than a node has",
				"none silent: it has written no report", "old" + old,
				"text silent: cannot read its report: a JSON string is at byte 3, where another type is expected",
			},
			"",
		},
		"no right to nodes": {
			"", []http.HandlerFunc{page("", reportOf("a", 0), reportOf("old", 3*time.Hour))}, []string{"a", "old" + old}, "somebody may not list nodes",
		},
		"nobody":                        {linux("a"), []http.HandlerFunc{page("")}, []string{"a silent: it has written no report"}, ""},
		"nobody, and no right to nodes": {"", []http.HandlerFunc{page("")}, nil, "No node has written a report"},
		"nobody, and no node is for us": {linux(), []http.HandlerFunc{page("")}, nil, ""},
		"begun again": {
			linux("a"), []http.HandlerFunc{page("2", reportOf("a", 0), reportOf("x", 0)), testkit.Refuse(410, "too old"), page("", reportOf("a", 0))}, []string{"a"}, "",
		},
	} {
		got, doubt, err := clusterOf(t, c.nodes, c.pages...)
		notes, nobody := strings.Join(doubt.Notes, ""), c.nodes == "" && len(c.want) == 0
		if err != nil || !slices.Equal(got, c.want) || (notes != "") != (c.note != "") || !strings.Contains(notes, c.note) || doubt.NoReport != nobody {
			t.Errorf("%s: %v, %+v\n%s\nwant\n%s", name, err, doubt, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestReportsNotRead checks that each invalid response is an error with a reason.
func TestReportsNotRead(t *testing.T) {
	nodes := itemsOf("PartialObjectMetadataList", "")
	for name, c := range map[string]struct {
		nodes string
		h     http.HandlerFunc
		want  string
	}{
		"no definition": {nodes, testkit.Refuse(404, "the server could not find the requested resource"), "apply their CustomResourceDefinition"},
		"no right":      {nodes, testkit.Refuse(403, "forbidden"), "somebody needs the right to list orphanreports (orphan-reaper.github.io)"},
		"twice":         {nodes, testkit.Answer(itemsOf("OrphanReportList", "", reportOf("a", 0), reportOf("a", 0))), `"a" stands twice`},
		"no name":       {nodes, testkit.Answer(itemsOf("OrphanReportList", "", reportOf("", 0))), "has no name"},
		"no nodes":      {`{"kind":"Status"}`, testkit.Answer(""), "cannot list the nodes"},
	} {
		if _, _, err := clusterOf(t, c.nodes, c.h); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadReports checks the output of kubectl, in any order of its arguments.
func TestReadReports(t *testing.T) {
	for text, want := range map[string][]string{
		itemsOf("List", "", nodeOf("a", "linux"), nodeOf("b", "linux"), reportOf("a", 0)):     {"a", "b silent: it has written no report"},
		itemsOf("List", "", reportOf("a", 0), nodeOf("b", "linux"), nodeOf("win", "windows")): {"a", "b silent: it has written no report"},
		itemsOf("List", "", reportOf("a", 0)):                                                 {"a", "note"},
		itemsOf("OrphanReportList", "", reportOf("a", 0)):                                     {"a", "note"},
		itemsOf("List", "", nodeOf("win", "windows")):                                         nil,
		itemsOf("List", "", reportOf("a", 3*time.Hour)): {
			"a silent: its last report is of 2026-05-01T09:00:00Z, 3h0m0s ago", "note",
		},
		itemsOf("List", ""): {"note", "nobody"},
	} {
		var got seen
		doubt, err := ReadReports(strings.NewReader(text), now, labels.Everything(), got.each)
		if len(doubt.Notes) > 0 {
			got = append(got, "note")
		}
		if doubt.NoReport {
			got = append(got, "nobody")
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                       "kubectl may have printed the cause",
		"NAME   MODE\na  enforce\n":              "invalid character",
		itemsOf("List", "", `{"kind":"Secret"}`): `"Secret", which is neither`,
		strings.TrimSuffix(itemsOf("List", "", reportOf("a", 0)), "]}"): "unexpected EOF",
	} {
		if _, err := ReadReports(strings.NewReader(text), now, labels.Everything(), new(seen).each); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	failing := io.MultiReader(strings.NewReader(`{"kind":"List"`), errReader{})
	if _, err := ReadReports(failing, now, labels.Everything(), new(seen).each); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

var errBroken = errors.New("broken pipe")

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBroken }

// TestSelected checks that nodes that no DaemonSet selects do not count as silent, and that a selector omits nodes
// and their reports.
func TestSelected(t *testing.T) {
	node := func(name, pool string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"pool":%q}},"spec":{"taints":[{"key":"own","effect":"NoSchedule"}]}}`, name, pool)
	}
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/apps/v1/daemonsets":
			if r.URL.Query().Get("labelSelector") != chartSelector {
				t.Errorf("request for %s", r.URL)
			}
			testkit.Answer(itemsOf("DaemonSetList", "", `{"spec":{"template":{"spec":{"nodeSelector":{"pool":"a"},"tolerations":[{"key":"own","operator":"Exists"}]}}}}`))(w, r)
		case "/api/v1/nodes":
			if r.Header.Get("Accept") != "application/json" {
				t.Errorf("the taints are not in %s", r.Header.Get("Accept"))
			}
			testkit.Answer(itemsOf("NodeList", "", node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "b")))(w, r)
		default:
			testkit.Answer(itemsOf("OrphanReportList", "", reportOf("n1", 0), reportOf("n4", 0)))(w, r)
		}
	})
	for text, want := range map[string][]string{
		"":       {"n1", "n4", "n2 silent: it has written no report"},
		"pool=a": {"n1", "n2 silent: it has written no report"},
		"pool=b": {"n4"},
		"pool=c": nil,
	} {
		selector, err := labels.Parse(text)
		testkit.Must(t, err)
		var got seen
		doubt, err := Reports(t.Context(), serverOf(t, s), now, selector, func() { got = nil }, got.each)
		unselected := strings.Contains(strings.Join(doubt.Notes, ""), "no DaemonSet selects them")
		if err != nil || !slices.Equal(got, want) || unselected != (text == "" || text == "pool=b") {
			t.Errorf("%q: %q, want %q; %v, %+v", text, got, want, err, doubt)
		}
	}
}
