package probe

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/cgroup"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/mounts"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/openfiles"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/podlists"
)

// Clock reads both clocks.
type Clock interface {
	Now() policy.Instant
}

// Config has the places of the node. The zero value of a path is its usual place.
type Config struct {
	// NodeRoot is the directory below which the usual places are: default /. What the kernel
	// shows, /dev, ProcDir and SysBlockDir, is not below it.
	NodeRoot      string
	RootDir       string // the kubelet's root directory, default /var/lib/kubelet; may lie behind a symlink
	RootDirSet    bool   // the operator chose it; else it was found when the program started
	QuarantineDir string // where parked pods are, default RootDir/orphan-reaper
	CgroupRoot    string // default /sys/fs/cgroup
	ProcDir       string // default /proc
	SysBlockDir   string // the block devices; default /sys/block
	// NodeNamespacesSelf: this process's own namespaces are the node.
	NodeNamespacesSelf bool
	// Waive: there is no runtime and no kubelet (--runtime-endpoint none).
	Waive           bool
	RuntimeEndpoint string
	// KubeletTokenFile, or KubeletClientCertificate with its key ("": in the same file), let
	// the kubelet be asked at the port at which it asks who is there; "" for none.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string
	// Kubeconfig names the API server that is asked, "" for none, and NodeName this node's
	// name there, "" to find it out.
	Kubeconfig, NodeName string
	Logger               *slog.Logger // for debug messages; nil is silent
	Clock                Clock
}

// Probe reads one node. Looks may follow each other without end; two at once are safe but
// ask everything twice.
type Probe struct {
	cfg    Config
	open   *beneath.Opener
	guard  *bounded.Guard
	mounts *mounts.Reader
	// apart is for what hangs with one process.
	apart bounded.Guard
	// dirs reads the directories of pods.
	dirs *poddir.Reader
}

// podLogs is where the containers' logs usually are.
const podLogs = "/var/log/pods"

// usual is where one of the usual places is.
func (c *Config) usual(path string) string { return filepath.Join("/", c.NodeRoot, path) }

// New returns a Probe. It asks the kernel which ways of opening it has, and reads nothing
// of the node yet.
func New(cfg Config) (*Probe, error) {
	if cfg.Clock == nil {
		return nil, errors.New("cannot probe without a clock")
	}
	for _, d := range []struct {
		path  *string
		usual string
	}{
		{&cfg.RootDir, cfg.usual(kubelet.DefaultRootDir)},
		{&cfg.CgroupRoot, cfg.usual(cgroup.DefaultRoot)},
		{&cfg.ProcDir, "/proc"},
		{&cfg.SysBlockDir, "/sys/block"},
	} {
		if *d.path == "" {
			*d.path = d.usual
		}
	}
	if cfg.QuarantineDir == "" {
		cfg.QuarantineDir = filepath.Join(cfg.RootDir, "orphan-reaper")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	open, err := beneath.New(false)
	if err != nil {
		return nil, err
	}
	guard := &bounded.Guard{}
	return &Probe{
		cfg: cfg, open: open, guard: guard,
		mounts: &mounts.Reader{
			ProcDir: cfg.ProcDir, RootDir: cfg.RootDir, QuarantineDir: cfg.QuarantineDir, CgroupRoot: cfg.CgroupRoot, Guard: guard,
		},
		dirs: &poddir.Reader{
			RootDir: cfg.RootDir, QuarantineDir: cfg.QuarantineDir, Open: open, Guard: guard,
			// A constant of the kubelet's, whatever its root directory is. Distributions have moved it below that.
			DevicePlugins: cfg.usual("/var/lib/kubelet/device-plugins"),
		},
	}, nil
}

// kubelets looks for the node's kubelet.
func (p *Probe) kubelets() *kubelet.Reader {
	c := &p.cfg
	return &kubelet.Reader{
		ProcDir: c.ProcDir, RootDir: c.RootDir, RootDirSet: c.RootDirSet, Waive: c.Waive,
		RuntimeEndpoint: c.RuntimeEndpoint, LogPodsDir: c.usual(podLogs), Guard: p.guard,
	}
}

// Agrees reports whether root directory and socket, as the operator set them, agree with the kubelets that run.
func (p *Probe) Agrees(ctx context.Context) policy.Fact { return p.kubelets().Find(ctx).Agrees }

// lists asks who has which pods.
func (p *Probe) lists() *podlists.Reader {
	c := &p.cfg
	return &podlists.Reader{
		KubeletTokenFile: c.KubeletTokenFile, KubeletClientCertificate: c.KubeletClientCertificate, KubeletClientKey: c.KubeletClientKey,
		Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, RootDir: c.RootDir, Waive: c.Waive,
		Now: func() time.Time { return c.Clock.Now().Wall }, Guard: p.guard,
	}
}

// openFiles asks who uses files of pods.
func (p *Probe) openFiles() *openfiles.Reader {
	c := &p.cfg
	return &openfiles.Reader{
		ProcDir: c.ProcDir, SysBlockDir: c.SysBlockDir, DevDir: "/dev", SelfIsNode: c.NodeNamespacesSelf, CgroupRoot: c.CgroupRoot,
		Open: p.open, Guard: p.guard, Apart: &p.apart,
	}
}

// cgroups reads the cgroup file systems.
func (p *Probe) cgroups() *cgroup.Reader {
	return &cgroup.Reader{Root: p.cfg.CgroupRoot, Guard: p.guard}
}

// readMounts reads the mounts where no look has found the runtime's sockets.
func (p *Probe) readMounts(ctx context.Context, w parsers.PodSet) *mounts.Answer {
	found, _ := p.runtimes().Sockets(ctx) // without them a confined container is not known
	return p.mounts.Read(ctx, w, found.Paths)
}

// Mounts reports for each UID whether a mount of any namespace names it. It returns in
// bounded time; what is not known by then is Unknown.
func (p *Probe) Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return p.mountFacts(ctx, uids, (*mounts.Answer).Fact)
}

// MountsParked reports for each UID whether a mount of any namespace names what lies of the pod
// in quarantine. It returns in bounded time; what is not known by then is Unknown.
func (p *Probe) MountsParked(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return p.mountFacts(ctx, uids, (*mounts.Answer).Parked)
}

func (p *Probe) mountFacts(ctx context.Context, uids []parsers.PodUID, fact func(*mounts.Answer, parsers.PodUID) policy.Fact) map[parsers.PodUID]policy.Fact {
	w := parsers.PodSet{}
	for _, uid := range uids {
		w[uid] = true
	}
	m := p.readMounts(ctx, w)
	facts := make(map[parsers.PodUID]policy.Fact, len(uids))
	for _, uid := range uids {
		facts[uid] = fact(m, uid)
	}
	return facts
}

// MountsBelow reads what is mounted of one pod, for an operator who wants it unmounted. It returns in bounded time; what
// is not known by then is Unknown.
func (p *Probe) MountsBelow(ctx context.Context, uid parsers.PodUID) policy.PodMounts {
	found, _ := p.runtimes().Sockets(ctx) // without them a confined container is not known
	return p.mounts.Below(ctx, uid, found.Paths, p.cfg.NodeNamespacesSelf)
}

// Holders names processes that keep a mount busy.
func (p *Probe) Holders(ctx context.Context, m policy.Mount) []string {
	return p.mounts.Holders(ctx, m)
}
