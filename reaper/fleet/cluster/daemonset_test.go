package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSelects checks that a node counts as missing only if a DaemonSet has a pod on it.
func TestSelects(t *testing.T) {
	var n item
	testkit.Must(t, json.Unmarshal([]byte(`{"metadata":{"name":"n1","labels":{"pool":"gpu","cpus":"8"}},`+
		`"spec":{"taints":[{"key":"gpu","value":"yes","effect":"NoSchedule"},{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"},`+
		`{"key":"x","effect":"PreferNoSchedule"}]}}`), &n))
	affinity := func(terms string) string {
		return fmt.Sprintf(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[%s]}}}`, terms)
	}
	const all = `"tolerations":[{"operator":"Exists"}]`
	for spec, want := range map[string]bool{
		``:  false, // the taint
		all: true,
		`"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`:                                                                                   true,
		`"tolerations":[{"key":"gpu","value":"yes"}]`:                                                                                                               true,
		`"tolerations":[{"key":"gpu","value":"no"}]`:                                                                                                                false,
		`"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoExecute"}]`:                                                                                    false,
		all + `,"nodeSelector":{"pool":"gpu"}`:                                                                                                                      true,
		all + `,"nodeSelector":{"pool":"cpu"}`:                                                                                                                      false,
		all + "," + affinity(`{"matchExpressions":[{"key":"pool","operator":"In","values":["cpu","gpu"]}]}`):                                                        true,
		all + "," + affinity(`{"matchExpressions":[{"key":"pool","operator":"NotIn","values":["gpu"]}]}`):                                                           false,
		all + "," + affinity(`{"matchExpressions":[{"key":"type","operator":"DoesNotExist"},{"key":"cpus","operator":"Gt","values":["4"]}]}`):                       true,
		all + "," + affinity(`{"matchExpressions":[{"key":"type","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}`): true,
		all + "," + affinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}`):                                                           false,
		all + "," + affinity(`{}`): false,
		all + "," + affinity(`{"matchExpressions":[{"key":"pool","operator":"Sometimes"}]}`): true, // unknown operator
	} {
		var p podSpec
		testkit.Must(t, json.Unmarshal([]byte("{"+spec+"}"), &p))
		if got := p.selects(&n); got != want {
			t.Errorf("%s: %t", spec, got)
		}
	}
}
