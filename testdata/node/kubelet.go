package main

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

// envKubelet has a kubelet's kubeletConfig.
const envKubelet = "NODE_KUBELET"

// kubeletConfig is what does not change while a kubelet runs.
type kubeletConfig struct {
	Version string
	JSON    bool
	Root    string
	Every   time.Duration
	PodsAPI bool // it serves the PodsAPI
	Forge   bool // it reports every pod (fake-kubelet)
}

// message is what the node sends a kubelet. It answers each with its number.
type message struct {
	Number byte
	State  *kubeletState `json:",omitempty"`
	Quote  string        `json:",omitempty"` // a text to print raw in an error
	Sweep  bool          `json:",omitempty"`
	Pause  bool          `json:",omitempty"` // no sweep until the next state: the node changes directories
}

// kubeletState is what a kubelet learns from its sources and its runtime.
type kubeletState struct {
	Listed    []listedPod
	Running   []string // UIDs
	Cgroups   []string // UIDs
	Manager   []managedPod
	NoRuntime bool // no answer of the runtime
	Level     int
	Offset    float64 // seconds
	PodsAPI   string
}

type listedPod struct {
	UID, Name string
	FromNode  bool
}

// managedPod is a pod with a volume in the volume manager, whose teardown fails.
type managedPod struct {
	UID, Volume, UniqueName, Error string
	Data                           string // vol_data.json, if it is a CSI volume
}

// managed returns what the volume manager has of the pod: its first volume.
func (p *pod) managed(version string) managedPod {
	v := p.volumes[0]
	m := managedPod{UID: p.UID, Volume: v.name, UniqueName: v.uniqueName(p.UID)}
	if !v.isCSI() {
		m.Error = "remove " + p.dir + "/" + v.target + ": directory not empty"
		return m
	}
	m.Data = p.dir + "/" + strings.TrimSuffix(v.target, "mount") + "vol_data.json"
	who := "Unmounter.TearDownAt"
	if version == "1.19" {
		who = "mounter.SetUpAt" // as it says
	}
	m.Error = "kubernetes.io/csi: " + who + " failed to get CSI client: driver name " + csiDriver + " not found in the list of registered CSI drivers"
	return m
}

// kubelet is the stand-in of a kubelet.
type kubelet struct {
	kubeletConfig
	klog
	places
	retries map[string]*retry // of teardowns, by UID
	pods    *grpc.Server      // of the PodsAPI
	calls   chan struct{}     // of ListPods

	mu     sync.Mutex // the PodsAPI reads state
	state  kubeletState
	paused bool
}

// retry is the exponential back-off of an operation.
type retry struct {
	next time.Time
	wait time.Duration
}

func runKubelet() int {
	var c kubeletConfig
	if err := json.Unmarshal([]byte(os.Getenv(envKubelet)), &c); err != nil {
		return fail(fmt.Errorf("cannot read %s: %w", envKubelet, err))
	}
	k := &kubelet{
		kubeletConfig: c, klog: klog{version: c.Version, json: c.JSON, level: 2}, places: placesOf[c.Version],
		retries: map[string]*retry{}, calls: make(chan struct{}),
	}
	messages, acks := make(chan message), os.NewFile(5, "acks")
	go func() {
		defer close(messages)
		for in := json.NewDecoder(os.NewFile(4, "messages")); ; {
			var m message
			if in.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	return k.run(messages, acks)
}

// reconcile is how often the volume manager tries again (reconcilerLoopSleepPeriod).
const reconcile = 100 * time.Millisecond

// run is the kubelet's main loop. The first sweep follows the first message.
func (k *kubelet) run(messages <-chan message, acks io.Writer) int {
	sweeps, teardowns := time.NewTicker(k.Every), time.NewTicker(reconcile)
	for started := false; ; {
		select {
		case m, ok := <-messages:
			if !ok {
				return 0
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

func (k *kubelet) receive(m message) {
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

func (k *kubelet) noData(m managedPod, about string) {
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
