// Package kubelet is the stand-in of a kubelet: what a kubelet of one version removes from the directories of orphaned pods,
// and what it prints. Its process has no other state than what the node sends it (State).
package kubelet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Env is the variable that has a kubelet's Config.
const Env = "NODE_KUBELET"

// Config is what does not change while a kubelet runs.
type Config struct {
	Version string
	JSON    bool
	Root    string
	Every   time.Duration
	PodsAPI bool // it serves the PodsAPI
	Forge   bool // it reports every pod (fake-kubelet)
}

// Message is what the node sends a kubelet. It answers each with its number.
type Message struct {
	Number byte
	State  *State `json:",omitempty"`
	Quote  string `json:",omitempty"` // a text to print raw in an error
	Sweep  bool   `json:",omitempty"`
	Pause  bool   `json:",omitempty"` // no sweep until the next state: the node changes directories
}

// State is what a kubelet learns from its sources and its runtime.
type State struct {
	Listed    []Listed // in its sources
	Running   []string // UIDs
	Cgroups   []string // UIDs
	Manager   []Managed
	NoRuntime bool    // no answer of the runtime
	Level     int     // its -v
	Offset    float64 // seconds that its clock is ahead
	PodsAPI   string  // PodsAPIOn and so on
}

// Listed is a pod of its sources.
type Listed struct {
	UID, Name, Namespace string
	Annotations          map[string]string
}

// Managed is a pod with a volume in the volume manager, whose teardown fails.
type Managed struct {
	UID, Volume, UniqueName, Error string
	Data                           string // vol_data.json, if it is a CSI volume
}

// kubelet is the stand-in of a kubelet.
type kubelet struct {
	Config
	klog
	places
	retries map[string]*retry // of teardowns, by UID
	pods    *grpc.Server      // of the PodsAPI
	calls   chan struct{}     // of ListPods

	mu     sync.Mutex // the PodsAPI reads state
	state  State
	paused bool
}

// retry is the exponential back-off of an operation.
type retry struct {
	next time.Time
	wait time.Duration
}

// Run is a kubelet. Its messages come at fd 4, and it answers at fd 5. It ends when it is killed, or with an error.
func Run() error {
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv(Env)), &c); err != nil {
		return fmt.Errorf("cannot read %s: %w", Env, err)
	}
	k := &kubelet{
		Config: c, klog: klog{version: c.Version, json: c.JSON, level: 2}, places: placesOf[c.Version],
		retries: map[string]*retry{}, calls: make(chan struct{}),
	}
	messages, acks := make(chan Message), os.NewFile(5, "acks")
	go func() {
		defer close(messages)
		for in := json.NewDecoder(os.NewFile(4, "messages")); ; {
			var m Message
			if in.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	k.run(messages, acks)
	return nil
}

// reconcile is how often the volume manager tries again (reconcilerLoopSleepPeriod).
const reconcile = 100 * time.Millisecond

// run is the kubelet's main loop. The first sweep follows the first message.
func (k *kubelet) run(messages <-chan Message, acks io.Writer) {
	sweeps, teardowns := time.NewTicker(k.Every), time.NewTicker(reconcile)
	for started := false; ; {
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			k.receive(m)
			if !started {
				started = true
				k.start()
			}
			_, _ = acks.Write([]byte{m.Number})
		case <-k.calls:
			k.info(0, k.places.listPods, "ListPods called")
		case <-sweeps.C:
			if started {
				k.sweep()
			}
		case <-teardowns.C:
			k.teardown()
		}
	}
}

func (k *kubelet) start() {
	if k.version == "1.19" {
		k.text('I', 0, k.mainLoop, "Starting kubelet main sync loop.")
	} else {
		k.info(0, k.mainLoop, "Starting kubelet main sync loop")
	}
	k.sweep()
}

func (k *kubelet) receive(m Message) {
	if m.State != nil {
		k.mu.Lock()
		k.state, k.paused = *m.State, false
		k.mu.Unlock()
		k.level, k.offset = m.State.Level, time.Duration(m.State.Offset*float64(time.Second))
		if err := k.switchPodsAPI(); err != nil {
			k.error(err.Error(), k.mainLoop, "Failed to serve the PodsAPI")
		}
	}
	if m.Quote != "" {
		k.quote(m.Quote)
	}
	if m.Pause {
		k.paused = true
	}
	if m.Sweep {
		k.sweep()
	}
}

// quote prints errors of a mount that fails. A pod chooses a part of its arguments, and the kubelet prints it raw.
func (k *kubelet) quote(text string) {
	const uid = "9d1c0f6e-2b7a-4c35-8e14-6a5b3f0d7c21"
	target := k.Root + "/pods/" + uid + "/volumes/kubernetes.io~nfs/share"
	failed := "exit status 32\nMounting command: mount\nMounting arguments: -t nfs 10.0.0.1:" + text + " " + target +
		"\nOutput: mount.nfs: mounting 10.0.0.1 failed, reason given by server: No such file or directory\n"
	k.text('E', 0, k.mountFailed, "Mount failed: "+failed)
	k.operationFailed(uid, "kubernetes.io/nfs/"+uid+"-share", 500*time.Millisecond,
		fmt.Sprintf("MountVolume.SetUp failed for volume \"share\" (UniqueName: \"kubernetes.io/nfs/%s-share\") pod \"web-1\" (UID: %q) : mount failed: %s",
			uid, uid, failed))
}

// operationFailed prints that a volume operation failed and when it is tried again.
func (k *kubelet) operationFailed(uid, volume string, wait time.Duration, err string) {
	key := fmt.Sprintf("{volumeName:%s podName:%s nodeName:}", volume, uid)
	if k.version == "1.19" {
		err = fmt.Sprintf("%q", err)
	}
	k.text('E', 0, k.operation, fmt.Sprintf("Operation for %q failed. No retries permitted until %v (durationBeforeRetry %v). Error: %s",
		key, k.now().Add(wait), wait, err))
}

// longestWait is the longest back-off (maxDurationBeforeRetry).
const longestWait = 2*time.Minute + 2*time.Second

// teardown tries to unmount the volumes of the manager, and fails. Without vol_data.json an operation does not begin, and
// so has no back-off.
func (k *kubelet) teardown() {
	for _, m := range k.state.Manager {
		about := fmt.Sprintf("for volume %q (UniqueName: %q) pod %q (UID: %q)", m.Volume, m.UniqueName, m.UID, m.UID)
		if k.version == "1.37" {
			about = fmt.Sprintf("for volume %q (UniqueName: %q) pod %q (UID: %q)", m.UniqueName, m.UniqueName, m.UID, m.UID)
		}
		if _, err := os.Stat(m.Data); m.Data != "" && err != nil {
			k.noData(m, about)
			continue
		}
		r := k.retries[m.UID]
		if r == nil {
			r = &retry{wait: 250 * time.Millisecond}
			k.retries[m.UID] = r
		}
		if time.Now().Before(r.next) {
			continue
		}
		r.wait = min(2*r.wait, longestWait)
		r.next = time.Now().Add(r.wait)
		k.operationFailed(m.UID, m.UniqueName, r.wait, "UnmountVolume.TearDown failed "+about+" : "+m.Error)
	}
}

func (k *kubelet) noData(m Managed, about string) {
	dir := strings.TrimSuffix(m.Data, "/vol_data.json")
	err := fmt.Sprintf("UnmountVolume.NewUnmounter failed %s : kubernetes.io/csi: unmounter failed to load volume data file [%s/mount]: "+
		"kubernetes.io/csi: failed to open volume data file [%s]: open %s: no such file or directory", about, dir, m.Data, m.Data)
	msg := "operationExecutor.UnmountVolume failed (controllerAttachDetachEnabled true) " + about + " : " + err
	if k.version == "1.19" {
		k.text('E', 0, k.unmountFailed, msg)
		return
	}
	k.error(err, k.unmountFailed, msg)
}
