package judge

import "slices"

// Decision is what is to be done with a pod. The zero value is Keep.
type Decision uint8

// The decisions.
const (
	Keep    Decision = iota // until the node changes or an operator acts
	Wait                    // for something that ends by itself
	Remove                  // this process would move it now
	IsAlive                 // a fact shows it that no pod can fake
)

var decisionNames = [...]string{"keep", "wait", "remove", "alive"}

// String returns the name as in JSON.
func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return decisionNames[Keep]
}

// MarshalText writes the decision as String does.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes. Any other text is Keep.
func (d *Decision) UnmarshalText(b []byte) error {
	*d = Keep
	for i, name := range decisionNames {
		if name == string(b) {
			*d = Decision(i)
		}
	}
	return nil
}

// Verdict is what was decided about a pod, with every reason, in the order of the table of facts.
type Verdict struct {
	Decision Decision `json:"verdict"` // keep, wait, remove or alive
	Reasons  []Reason `json:"reasons,omitempty"`
	// Operator is true if one of the reasons needs an operator.
	Operator bool `json:"operator,omitempty"`
	// Advice is the operator's next step, nil if there is none. It is chosen by all reasons.
	Advice *Advice `json:"advice,omitempty"`
}

// Reason is one thing that keeps a pod.
type Reason struct {
	Reason ReasonName `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	// Operator is true if nothing but an operator's action ends this reason.
	Operator bool `json:"operator,omitempty"`
	// Unknown is true if the fact could not be read, and keeps the pod for that.
	Unknown bool `json:"unknown,omitempty"`
}

// otherThanReported reports whether there is a reason besides that the kubelet does not report the pod.
func (v *Verdict) otherThanReported() bool {
	return slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Reason != NotReported })
}

// keep adds a reason. A decision is never weakened: alive outweighs keep, and keep outweighs wait.
func (v *Verdict) keep(d Decision, name ReasonName, detail string) {
	v.Reasons = append(v.Reasons, Reason{Reason: name, Detail: detail})
	if weight(d) > weight(v.Decision) {
		v.Decision = d
	}
}

// ask adds a reason to keep that only an operator ends.
func (v *Verdict) ask(name ReasonName, detail string) {
	v.keep(Keep, name, detail)
	v.Reasons[len(v.Reasons)-1].Operator, v.Operator = true, true
}

func weight(d Decision) int {
	switch d {
	case Remove:
		return 0
	case Wait:
		return 1
	case IsAlive:
		return 3
	case Keep:
	}
	return 2
}
