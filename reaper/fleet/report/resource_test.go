package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestResourceIsBounded checks that the API server gets a bounded resource for any node: as many pods as fit, and the
// number of the others.
func TestResourceIsBounded(t *testing.T) {
	for _, name := range []string{"x", `"`, "<", "\n"} {
		long := strings.Repeat(name, mostText)
		r := Report{Node: "n1", More: 7}
		for range mostErrors {
			r.Errors, r.Missing = append(r.Errors, long), append(r.Missing, long)
		}
		for range mostPods {
			p := Pod{UID: string(uidOf(1)), Namespace: long, Name: long, Verdict: policy.Keep}
			for range mostReasons {
				p.Why = append(p.Why, policy.Why{Reason: policy.ReasonMounted, Detail: long})
			}
			r.Pods = append(r.Pods, p)
		}
		res, text, err := NewResource(r, Metadata{Name: "n1"})
		testkit.Must(t, err)
		if n := len(res.Report.Pods); len(text) > mostResource || n == 0 || n+res.Report.More != mostPods+7 {
			t.Errorf("%q: %d bytes, %d pods and %d more", name, len(text), n, res.Report.More)
		}
		more := res
		more.Report.Pods = r.Pods[:len(res.Report.Pods)+1]
		if text, err := more.json(); err != nil || len(text) <= mostResource {
			t.Errorf("%q: another pod would fit: %d bytes, %v", name, len(text), err)
		}
		var back Resource
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, res) {
			t.Errorf("%q: %v, %+v", name, err, back)
		}
		if len(r.Pods) != mostPods || r.More != 7 {
			t.Errorf("%q: the report itself was changed", name)
		}
	}
}

// TestResourceFits checks that a report that fits is unchanged.
func TestResourceFits(t *testing.T) {
	r := New(Report{Node: "n1"}, passWith(because(policy.Keep, policy.ReasonMounted)))
	res, text, err := NewResource(r, Metadata{Name: "n1", Owners: []Owner{{"v1", "Node", "n1", "u"}}})
	if err != nil || !reflect.DeepEqual(res.Report, r) {
		t.Errorf("%v, %+v", err, res)
	}
	for _, want := range []string{
		`{"apiVersion":"orphan-reaper.github.io/v1alpha1","kind":"OrphanReport","metadata":{"name":"n1",` +
			`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u"}]},`,
		`"report":{"node":"n1",`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %s", text, want)
		}
	}
	if ResourcePath != "/apis/orphan-reaper.github.io/v1alpha1/orphanreports" {
		t.Error(ResourcePath)
	}
}
