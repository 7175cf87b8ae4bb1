package ui

import (
	"cmp"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// todo lists what an operator has to do: what stops all removal first, then what keeps pods, by reason.
func (v *Doctor) todo(d *summary.Diagnosis) {
	c := v.c
	add := func(text string, commands ...string) { v.Todo = append(v.Todo, Todo{text, commands}) }
	if c.Quarantine != nil {
		add("Nothing is removed before this is mended: " + c.Quarantine.Error() + ".")
	} else if d.Unattended {
		v.unattended = true
		v.Todo = append(v.Todo, unattended(c.Daemon, d.Count[summary.Goes]))
	}
	if d.Stopped && (d.Count[summary.Stopped] > 0 || d.NeedsPerson && d.Stops.Reason != policy.ReasonObserve) {
		brief := BriefOf(d.Stops.Reason)
		add(brief.Do, cmp.Or(brief.Command, "orphan-reaper config check"))
		if last := &v.Todo[len(v.Todo)-1]; d.Stops.Reason == policy.ReasonBreaker && c.Revived != "" {
			last.Commands = append(last.Commands, "orphan-reaper explain "+string(c.Revived))
		}
	}
	at := map[string]int{}
	for i := range d.Pods {
		if d.Pods[i].Fate != summary.Person {
			continue
		}
		text, command := v.todoFor(&d.Pods[i], mainReason(&d.Pods[i]))
		if _, known := at[text]; !known {
			at[text] = len(v.Todo)
			add(text)
		}
		if t := &v.Todo[at[text]]; !slices.Contains(t.Commands, command) {
			t.Commands = append(t.Commands, command)
		}
	}
	if len(c.Conflicts) > 0 {
		t := Todo{Text: "In conflict: a pod lives again, with a directory in quarantine. It stays until you restore, merge or purge it; this shows how:"}
		for _, uid := range c.Conflicts {
			t.Commands = append(t.Commands, "orphan-reaper explain "+string(uid))
		}
		v.Todo = append(v.Todo, t)
	}
	if len(c.Failed) > 0 {
		e := c.Failed[0]
		add(policy.Count(len(c.Failed), "entry")+" in quarantine could not be finished, the first because of "+policy.WhyWords(e.Failed)+
			". Once that is mended, the next run goes on. This shows more:", "orphan-reaper explain "+string(e.UID))
	}
	v.strays(d.Strays)
	if d.Deaf && c.Looked && !c.Rules.Waive {
		add("Find out where the kubelet logs. Name that with --log-file or --journal-unit.", "journalctl --no-pager --lines 3 --unit kubelet")
	}
}

// todoFor returns the action for a pod that is kept until an operator acts.
func (v *Doctor) todoFor(p *summary.Pod, reason policy.Reason) (text, command string) {
	brief := BriefOf(reason)
	then := v.place.Commands(p.Evidence, reason).Then
	switch {
	case len(then) > 0 && then[0] == p.Evidence.Unmount && v.Daemon.Runs == policy.Yes:
		return "If the pod is gone, unmount what is still mounted; the rest follows automatically:", then[0]
	case len(then) > 0 && then[0] == p.Evidence.Unmount:
		return "If the pod is gone, unmount what is still mounted; a sweep can then remove the rest:", then[0]
	case len(then) > 0:
		return brief.Means + " If the pod is not needed, this ends that:", then[0]
	case reason == policy.ReasonStaged && p.Evidence.Facts[policy.FactStaged].Truth == policy.Unknown:
		return "See what could not be read of its volumes, and why:", "orphan-reaper explain " + string(p.UID)
	case reason == policy.ReasonKubeletUnknown && v.c.Node.Kubelet.Truth != policy.Yes:
		return "Check that the kubelet runs. Without it, no pod is known to be released.", "systemctl status kubelet"
	}
	return brief.Do, cmp.Or(brief.Command, "orphan-reaper explain "+string(p.UID))
}

// strays adds the entries of the pods directory whose names are no UIDs.
func (v *Doctor) strays(names []string) {
	if len(names) == 0 {
		return
	}
	t := Todo{Text: human.Count(len(names), "name") + " in the pods directory " + human.Plural(len(names), "is no pod's", "are no pods'") +
		". orphan-reaper never touches such a thing. See whose it is, and move it elsewhere"}
	for _, name := range names { // a name that must not be pasted has no command
		t.Commands = append(t.Commands, v.place.Commands(&policy.Evidence{Name: name}, policy.ReasonInvalidUID).Look...)
	}
	if len(t.Commands) < len(names) || len(names) > mostCommands {
		t.Commands = append(t.Commands[:min(len(t.Commands), mostCommands-1)], "orphan-reaper scan --verdict=keep")
		t.Text += "; the last command shows all of them"
	}
	t.Text += ":"
	v.Todo = append(v.Todo, t)
}

// unattended returns what removes the eligible pods if no daemon is known to run.
func unattended(d summary.Daemon, pods int) Todo {
	state, sweeps := Absent(d)
	if sweeps {
		return Todo{state + " Run this again when it has ended:", []string{"orphan-reaper doctor"}}
	}
	moves, commands := "This moves", []string{"orphan-reaper sweep"}
	if d.Installed {
		moves, commands = "Either of these moves", append(commands, "systemctl enable --now orphan-reaper")
	}
	return Todo{state + " " + moves + " " + human.Plural(pods, "it", "them") + " to quarantine and removes what holds no data:", commands}
}
