package reading

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestSettingsAgree checks that a kubelet with other settings, or possibly other ones, never counts as agreeing.
func TestSettingsAgree(t *testing.T) {
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	found, set := Settings{RootDir: "/a"}, Settings{RootDir: "/a", RootDirSet: true}
	named := Settings{RootDir: "/a", Endpoint: "unix:///s"}
	with := func(e Endpoint) []Kubelet { return []Kubelet{{Words: "a", PID: 42, Endpoint: e}} }
	a, b, c := Kubelet{Words: "a", PID: 42}, Kubelet{Words: "b", PID: 43}, Kubelet{Words: "c", PID: 44}
	for name, c := range map[string]struct {
		s            Settings
		ours, others []Kubelet
		doubt        error
		want         policy.Truth
		words        string
		moved        bool
	}{
		"waived":                   {Settings{Waive: true}, nil, []Kubelet{b}, errors.New("x"), yes, "no kubelet to agree with", false},
		"none runs":                {found, nil, nil, nil, yes, "no kubelet runs", false},
		"found":                    {found, []Kubelet{a}, nil, nil, yes, "no setting contradicts a", false},
		"found, and another runs":  {found, []Kubelet{a}, []Kubelet{b}, nil, no, "several kubelets run, and --root-dir names none of them: a; b", false},
		"set, and another runs":    {set, []Kubelet{a}, []Kubelet{b}, nil, yes, "a", false},
		"set to another":           {set, nil, []Kubelet{b}, nil, no, "--root-dir is /a, and the kubelet that runs has another: b", false},
		"set, and k3s hides":       {set, nil, []Kubelet{{Words: "k3s", Hidden: true}}, nil, unknown, "kubelet-arg: [root-dir=/a]", false},
		"it came with another":     {found, nil, []Kubelet{b}, nil, no, "restart orphan-reaper", true},
		"it has another tree":      {found, nil, []Kubelet{{Words: "b", Apart: true}}, nil, no, "a mount namespace of its own", false},
		"two came":                 {found, nil, []Kubelet{b, c}, nil, no, "several kubelets run", false},
		"a doubt":                  {found, []Kubelet{a}, nil, errors.New("x"), unknown, "root directory: x; set --root-dir", false},
		"a doubt, set":             {set, []Kubelet{a}, nil, errors.New("x"), unknown, "agrees with --root-dir /a: x", false},
		"kubelet without endpoint": {named, []Kubelet{a}, nil, nil, yes, "", false},
		"the same endpoint":        {named, with(Endpoint{Told: "s", Same: true}), nil, nil, yes, "", false},
		"another endpoint":         {named, with(Endpoint{Told: "t"}), nil, nil, no, "the kubelet (PID 42) uses t", false},
		"an endpoint in no file":   {named, with(Endpoint{Err: errors.New("x")}), nil, nil, unknown, "x; put that right", false},
		"an endpoint not reached":  {named, with(Endpoint{Told: "t", Err: errors.New("x")}), nil, nil, unknown, "t: x", false},
		"endpoint was found":       {found, with(Endpoint{Told: "t"}), nil, nil, yes, "", false},
		"one of two uses another":  {named, append(with(Endpoint{Told: "s", Same: true}), with(Endpoint{Told: "t"})...), nil, nil, no, "uses t", false},
	} {
		f := c.s.Agree("/proc", c.ours, c.others, c.doubt)
		if f.Truth != c.want || !strings.Contains(f.Detail, c.words) || f.Detail == "" || f.Origin == "" {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.words)
		}
		if got := c.s.Moved(c.ours, c.others); got != c.moved {
			t.Errorf("%s: moved %v", name, got)
		}
	}
}
