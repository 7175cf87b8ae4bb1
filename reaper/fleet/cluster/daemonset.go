package cluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// podSpec is the part of a DaemonSet's pod template that determines on which nodes its pods run.
type podSpec struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     struct {
		Node struct {
			Required *struct {
				Terms []term `json:"nodeSelectorTerms"`
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
	} `json:"affinity"`
	Tolerations []toleration `json:"tolerations"`
}

type term struct {
	Labels []requirement `json:"matchExpressions"`
	Fields []requirement `json:"matchFields"` // there is one field, metadata.name
}

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

type toleration struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"`
}

// toleratesAll reports whether the pods tolerate all taints.
func (p *podSpec) toleratesAll() bool {
	return slices.ContainsFunc(p.Tolerations, func(t toleration) bool { return t.Key == "" && t.Operator == "Exists" && t.Effect == "" })
}

// selects reports whether the DaemonSet should have a pod on the node. A term that it does not understand counts as a
// match, so that the node is reported as missing instead of being overlooked.
func (p *podSpec) selects(n *item) bool {
	for key, value := range p.NodeSelector {
		if n.Metadata.Labels[key] != value {
			return false
		}
	}
	if r := p.Affinity.Node.Required; r != nil && !slices.ContainsFunc(r.Terms, func(t term) bool { return t.matches(n) }) {
		return false
	}
	return !slices.ContainsFunc(n.Spec.Taints, func(t taint) bool {
		// Every DaemonSet tolerates the taints of Kubernetes itself, or they are temporary.
		return t.Effect != "PreferNoSchedule" && !strings.HasPrefix(t.Key, "node.kubernetes.io/") && !p.tolerates(t)
	})
}

func (p *podSpec) tolerates(t taint) bool {
	return slices.ContainsFunc(p.Tolerations, func(o toleration) bool {
		if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
			return false
		}
		return o.Operator == "Exists" || o.Key != "" && o.Value == t.Value
	})
}

// matches reports whether a node has all that a term asks for. An empty term matches no node.
func (t *term) matches(n *item) bool {
	for _, r := range t.Labels {
		if !r.matches(n.Metadata.Labels) {
			return false
		}
	}
	for _, r := range t.Fields {
		if !r.matches(labels.Set{r.Key: n.Metadata.Name}) {
			return false
		}
	}
	return len(t.Labels)+len(t.Fields) > 0
}

var operators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
	"Gt": selection.GreaterThan, "Lt": selection.LessThan,
}

func (r *requirement) matches(set labels.Set) bool {
	match, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	return err != nil || match.Matches(set)
}
