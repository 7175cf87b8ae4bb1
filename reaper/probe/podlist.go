package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// A pod has some 10 KiB in the kubelet's answer, and at most the 1.5 MiB that etcd takes.
const (
	biggestPodList = 64 << 20
	biggestPod     = 4 << 20 // what is held in memory at once
	biggestHead    = 64 << 10
)

// podList is what the kubelet's read-only port says: /pods has the pods that it wants to
// run, from all of its sources, and no orphans.
//
// Most kubelets have no such port, and another program of this host may listen at it: the
// port is bound on one address, the kubelet may have died. So the answer only ever keeps a
// pod, which is all that a liar could do with it.
type podList struct {
	origin string
	silent string // "", or why the kubelet was not asked or did not answer
	pods   map[parsers.PodUID]bool
	err    error
}

// podList asks the kubelet. It is asked after the listing, like everything else.
func (p *Probe) podList(ctx context.Context, k *kubelet) *podList {
	if k == nil {
		return &podList{origin: p.cfg.ProcDir, silent: "not asked: no kubelet is known"}
	}
	type found struct {
		port int
		err  error
	}
	f, err := guarded(ctx, &p.guard, "read-only port", p.patience, func() found {
		port, err := k.readOnlyPort()
		return found{port, err}
	})
	if err == nil {
		err = f.err
	}
	l := &podList{origin: k.String(), pods: map[parsers.PodUID]bool{}}
	switch {
	case err != nil:
		// Its absence keeps nothing, and the other readers of the same file complain.
		l.silent = fmt.Sprintf("not asked: cannot tell the kubelet's read-only port: %v", err)
		return l
	case f.port == 0:
		l.silent = "not asked: the kubelet was told no read-only port"
		return l
	}
	address := fmt.Sprintf("127.0.0.1:%d", f.port)
	l.origin = "http://" + address + "/pods"
	ctx, cancel := context.WithTimeoutCause(ctx, p.patience, errHangs)
	defer cancel()
	if err := l.ask(ctx, address); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		l.silent = fmt.Sprintf("not answered: %v", err)
		if !errors.Is(err, unix.ECONNREFUSED) { // it may be bound to another address
			l.err = fmt.Errorf("cannot read the kubelet's pod list at %s: %w", l.origin, err)
		}
	}
	return l
}

// ask keeps what was listed even where the answer breaks off. Of HTTP it needs one GET of
// version 1.0, which ends with the connection, has no chunks, and knows neither proxy nor
// redirect; net/http's client would add a tenth to the program.
func (l *podList) ask(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing that matters was written
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "GET /pods HTTP/1.0\r\nHost: "+address+"\r\nAccept: application/json\r\n\r\n"); err != nil {
		return err
	}
	room := &io.LimitedReader{R: conn, N: biggestHead}
	answer := bufio.NewReader(room)
	for first := true; ; first = false {
		line, err := answer.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		switch {
		case err != nil:
			return err
		case first && (!strings.HasPrefix(line, "HTTP/1.") || !strings.Contains(line, " 200 ")):
			return fmt.Errorf("it answers %.60q", line)
		case line == "":
			room.N = math.MaxInt64 // read has its own bounds
			return l.read(answer)
		}
	}
}

// read takes the list one pod at a time: {"kind":"PodList", … "items":[…]}.
func (l *podList) read(r io.Reader) error {
	room := &io.LimitedReader{R: r, N: biggestPod}
	d := json.NewDecoder(room)
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	var kind string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		switch key {
		case "kind":
			err = d.Decode(&kind)
		case "items":
			err = l.items(d, room)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	if err := expect(d, json.Delim('}')); err != nil {
		return err
	}
	if kind != "PodList" {
		return fmt.Errorf("it is no list of pods but %.40q", kind)
	}
	return nil
}

func (l *podList) items(d *json.Decoder, room *io.LimitedReader) error {
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil // Go writes an empty list as null
	case t != json.Delim('['):
		return errors.New("its items are no list")
	}
	for d.More() {
		if room.N = biggestPod; d.InputOffset() > biggestPodList {
			return fmt.Errorf("it is longer than %d bytes", biggestPodList)
		}
		var pod struct {
			Metadata struct {
				UID         string            `json:"uid"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := d.Decode(&pod); err != nil {
			return err
		}
		for _, name := range owner(pod.Metadata.UID, pod.Metadata.Annotations[annotationHash]) {
			if uid, ok := parsers.ParsePodUID(name); ok {
				l.pods[uid] = true
			}
		}
	}
	room.N = biggestPod
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("no list of pods: %v where %v should be", t, want)
	}
	return err
}

func (l *podList) fact(uid parsers.PodUID) policy.Fact {
	switch {
	case l.pods[uid]:
		return policy.Fact{Truth: policy.Yes, Origin: l.origin, Detail: "the kubelet's pod list has it"}
	case l.silent != "":
		return policy.Fact{Origin: l.origin, Detail: l.silent}
	}
	return policy.Fact{Truth: policy.No, Origin: l.origin, Detail: fmt.Sprintf("%d pods listed", len(l.pods))}
}
