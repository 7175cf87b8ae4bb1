package program

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
)

// poll is how often the node looks for new lines in NODE_CTL.
const poll = 20 * time.Millisecond

type control struct {
	name, args string
	do         func(n *node, line, args string) error
}

func (c control) usage() string { return strings.TrimSpace(c.name + " " + c.args) }

// controls returns the commands of NODE_CTL with their arguments. Times are Go's durations.
func controls() []control {
	return []control{
		// adds a pod: a line of FILE
		{"pod", "NAME UID STATE [WORD…]", (*node).ctlPod},
		// ends its sandbox, containers, cgroup and place in the kubelet's list; the directory stays
		{"gone", "NAME", (*node).ctlGone},
		// starts it again in the kubelet's order: list, cgroup, emptyDir in what lies there, after the time the sandbox
		{"return", "NAME [TIME]", (*node).ctlReturn},
		// begins a NodePublish, which writes vol_data.json and after the time mounts the volume
		{"publish", "NAME TIME", (*node).ctlPublish},
		// ends the pod's mounts, also those elsewhere
		{"unmount", "NAME", (*node).ctlUnmount},
		// the kubelet: restart starts another process, v sets what /debug/flags/v sets
		{"kubelet", "stop|start|restart|v NUMBER", (*node).ctlKubelet},
		// starts another kubelet, with a root directory that is made if it is absent. It logs as the first does, with --log
		// journal to a unit of its own, and to kubelet2.log beside NODE_LOG
		{"kubelet2", "ROOT", (*node).ctlKubelet2},
		// starts a process in a pod's cgroup that looks as this kubelet and reports every pod in a file, fake-kubelet.log
		{"fake-kubelet", "", (*node).ctlFakeKubelet},
		// empty: it lists nothing; hang: it accepts connections and does not answer
		{"runtime", "stop|hang|empty|start", (*node).ctlRuntime},
		// starts another runtime without pods at another usual socket
		{"runtime2", "start|hang", (*node).ctlRuntime2},
		// off: there is no socket; initializing: the kubelet does not know all its sources yet, and so does not sweep
		{"podsapi", "off|hang|initializing|on", (*node).ctlPodsAPI},
		// another program writes a line into the kubelet's log
		{"log", "TEXT", func(n *node, _, text string) error { return n.sink.Other(text) }},
		// the kubelet prints an error with TEXT raw; \n in it is a newline and \0 a NUL (the echo of some shells replaces
		// these, so use printf '%s\n')
		{"quote", "TEXT", (*node).ctlQuote},
		// another boot ID and another /run, which is made now
		{"boot", "", (*node).ctlBoot},
		// sets the clock that the kubelet's lines have ahead of the machine's, or behind
		{"clock", "SECONDS", (*node).ctlClock},
	}
}

// watch carries out what is appended to NODE_CTL, until the node ends.
func (n *node) watch() error {
	for _, path := range []string{n.ctl, n.ctl + ".done"} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Open(n.ctl)
	if err != nil {
		return err
	}
	go func() {
		pending, number := "", 0
		for buffer := make([]byte, 64<<10); ; time.Sleep(poll) {
			count, _ := f.Read(buffer) // the end of the file is an error, too
			pending += string(buffer[:count])
			for {
				line, rest, whole := strings.Cut(pending, "\n")
				if !whole {
					break
				}
				pending = rest
				number++
				n.obey(number, strings.TrimSpace(line))
			}
		}
	}()
	return nil
}

// obey carries out one line and writes the result to NODE_CTL.done.
func (n *node) obey(number int, line string) {
	if line == "" || line[0] == '#' {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.control(line)
	if err == nil {
		n.done("ok " + line)
		return
	}
	n.done(fmt.Sprintf("error %s: %v", line, err))
	fmt.Fprintf(os.Stderr, "node: %s:%d: %v\n", n.ctl, number, err)
}

func (n *node) done(text string) {
	f, err := journal.AppendTo(n.ctl + ".done")
	if err == nil {
		_, _ = f.WriteString(text + "\n")
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
}

func (n *node) control(line string) error {
	name, args, _ := strings.Cut(line, " ")
	args = strings.TrimSpace(args)
	var names []string
	for _, c := range controls() {
		if names = append(names, c.name); c.name != name {
			continue
		}
		if (args == "") != (c.args == "") {
			return fmt.Errorf("want %s", c.usage())
		}
		n.pause()
		err := c.do(n, line, args)
		n.changed()
		if errors.Is(err, errArgs) {
			err = fmt.Errorf("want %s", c.usage())
		}
		return err
	}
	return fmt.Errorf("%q is no command: use one of %s", name, strings.Join(names, ", "))
}

var errArgs = errors.New("wrong arguments")

// later does something after the time and writes that to NODE_CTL.done.
func (n *node) later(after time.Duration, line string, do func() error) {
	time.AfterFunc(after, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.pause()
		err := do()
		n.changed()
		if err != nil {
			n.done(fmt.Sprintf("error %s: %v", line, err))
			return
		}
		n.done("ended " + line)
	})
}

// podAnd returns the pod that the first argument names, and the time that follows it.
func (n *node) podAnd(args string) (*pod, time.Duration, error) {
	name, after, timed := strings.Cut(args, " ")
	i := slices.IndexFunc(n.pods, func(p *pod) bool { return p.Name == name })
	if i < 0 {
		return nil, 0, fmt.Errorf("there is no pod %q", name)
	}
	if !timed {
		return n.pods[i], 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(after))
	if err != nil || d < 0 {
		return nil, 0, fmt.Errorf("%q is no time: use one such as 40s", after)
	}
	return n.pods[i], d, nil
}
