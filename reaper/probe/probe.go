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

// Config has the paths of the node and the settings. The zero value of a path is its default.
type Config struct {
	// NodeRoot is the directory of the node's files, default /. ProcDir, SysBlockDir and /dev are
	// not below it.
	NodeRoot      string
	RootDir       string // the kubelet's root directory, which may be a symlink; default /var/lib/kubelet
	RootDirSet    bool   // the operator chose it; else it was found when the program started
	QuarantineDir string // the directory of parked pods, default RootDir/orphan-reaper
	CgroupRoot    string // default /sys/fs/cgroup
	ProcDir       string // default /proc
	SysBlockDir   string // default /sys/block
	// NodeNamespacesSelf means that this process's own namespaces are the node.
	NodeNamespacesSelf bool
	// Waive means that there is no runtime and no kubelet (--runtime-endpoint none).
	Waive           bool
	RuntimeEndpoint string
	// The credentials of podlists.Reader.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string
	Kubeconfig, NodeName                                         string

	Logger *slog.Logger // for debug messages; may be nil
	Clock  Clock
}

// Probe reads one node. Several looks at once are safe, but read everything several times.
type Probe struct {
	cfg    Config
	open   *beneath.Opener
	guard  *bounded.Guard
	mounts *mounts.Reader
	apart  bounded.Guard // for reads that may hang with one process
	dirs   *poddir.Reader
}

func (c *Config) below(path string) string { return filepath.Join("/", c.NodeRoot, path) }

// New returns a Probe. It finds out how the kernel can open files, and reads nothing of the node.
func New(cfg Config) (*Probe, error) {
	if cfg.Clock == nil {
		return nil, errors.New("cannot probe without a clock")
	}
	for _, d := range []struct {
		path  *string
		usual string
	}{
		{&cfg.RootDir, cfg.below(kubelet.DefaultRootDir)},
		{&cfg.CgroupRoot, cfg.below(cgroup.DefaultRoot)},
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
		},
	}, nil
}

func (p *Probe) kubelets() *kubelet.Reader {
	c := &p.cfg
	return &kubelet.Reader{
		ProcDir: c.ProcDir, RootDir: c.RootDir, RootDirSet: c.RootDirSet, Waive: c.Waive,
		RuntimeEndpoint: c.RuntimeEndpoint, Guard: p.guard,
	}
}

// Agrees reports whether the settings of root directory and socket agree with the running kubelets.
func (p *Probe) Agrees(ctx context.Context) policy.Fact { return p.kubelets().Find(ctx).Agrees }

func (p *Probe) lists() *podlists.Reader {
	c := &p.cfg
	return &podlists.Reader{
		KubeletTokenFile: c.KubeletTokenFile, KubeletClientCertificate: c.KubeletClientCertificate, KubeletClientKey: c.KubeletClientKey,
		Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, RootDir: c.RootDir, Waive: c.Waive,
		Now: func() time.Time { return c.Clock.Now().Wall }, Guard: p.guard,
	}
}

func (p *Probe) openFiles() *openfiles.Reader {
	c := &p.cfg
	return &openfiles.Reader{
		ProcDir: c.ProcDir, SysBlockDir: c.SysBlockDir, DevDir: "/dev", SelfIsNode: c.NodeNamespacesSelf, CgroupRoot: c.CgroupRoot,
		Open: p.open, Guard: p.guard, Apart: &p.apart,
	}
}

func (p *Probe) cgroups() *cgroup.Reader {
	return &cgroup.Reader{Root: p.cfg.CgroupRoot, Guard: p.guard}
}

// readMounts reads the mounts outside of a look.
func (p *Probe) readMounts(ctx context.Context, w parsers.PodSet) *mounts.Answer {
	found, _ := p.runtimes().Sockets(ctx) // without them no container is known to be confined
	return p.mounts.Read(ctx, w, found.Paths)
}

// Mounts reports for each UID whether a mount of any namespace names it. It returns in
// bounded time; what is unread by then is Unknown.
func (p *Probe) Mounts(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return p.mountFacts(ctx, uids, (*mounts.Answer).Fact)
}

// MountsParked reports for each UID whether a mount of any namespace names the pod's entry in
// quarantine. It returns in bounded time; what is unread by then is Unknown.
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

// MountsBelow reads the mounts of one pod, for an operator who wants to unmount them. It returns in bounded time; what is
// unread by then is Unknown.
func (p *Probe) MountsBelow(ctx context.Context, uid parsers.PodUID) policy.PodMounts {
	found, _ := p.runtimes().Sockets(ctx) // without them no container is known to be confined
	return p.mounts.Below(ctx, uid, found.Paths, p.cfg.NodeNamespacesSelf)
}

// Holders lists processes that keep a mount busy.
func (p *Probe) Holders(ctx context.Context, m policy.Mount) []string {
	return p.mounts.Holders(ctx, m)
}
