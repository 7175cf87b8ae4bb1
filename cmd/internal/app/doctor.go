package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
)

// doctorPeriod is how far back doctor reads the journal: a kubelet that reports one orphan writes 43,200 lines in that
// time.
const doctorPeriod = 24 * time.Hour

// Examine reads the logs and looks once, with the rights of this process. It changes nothing and acquires no lock.
func Examine(ctx context.Context, cfg config.Config) (x summary.Case, err error) {
	defer progress.From(ctx).End()
	log := slog.New(slog.DiscardHandler)
	clock, err := state.NewClock()
	if err != nil {
		return x, err
	}
	x.Rules, x.Root = Rules(cfg), os.Geteuid() == 0
	claims := complaints(ctx, &x, cfg, clock, log)
	if err := ctx.Err(); err != nil {
		return x, err
	}
	x.Daemon = FindDaemon(ctx, cfg)
	if mode := x.Daemon.Mode; mode != "" {
		x.Rules.Observe = mode != config.ModeEnforce // the screen shows what the running daemon removes
	}
	x.Err = examineNode(ctx, &x, cfg, claims)
	if x.Root && !cfg.OtherNodeRoot() {
		x.Refused = deniedBy("/proc/self/attr/current", cfg.PodsDir(), procDir+"/1/root")
	}
	if e, ok := errors.AsType[*exit.Error](x.Err); ok && e.Code == exit.UsageCode || ctx.Err() != nil {
		return x, x.Err
	}
	return x, nil
}

// complaints counts the kubelet's complaints in the logs for x, and returns those that may be evidence.
func complaints(ctx context.Context, x *summary.Case, cfg config.Config, clock reaper.Clock, log *slog.Logger) []reported.Claim {
	now := clock.Now().Wall
	tally := summary.NewTally(now, func(uid parsers.PodUID) bool { return NameThere(cfg, string(uid)) })
	claims := readLogs(ctx, cfg, clock, log, observer{
		back: doctorPeriod,
		note: func(line parsers.Line, s parsers.Sighting, past bool) {
			// The lines of the journal's follower are read back, too, and counted then.
			again := line.Journal != nil && !past
			if line.Journal == nil && s.Time.IsZero() {
				s.Time = klogTime(line.Text, now)
			}
			if !again || !s.CatchUp {
				tally.Add(s, line.Source, parsers.Words(line.Text), again)
			}
		},
		ended: func(states map[string]source.State, since time.Time) { x.Sources = logsRead(states, since) },
	})
	x.Said = tally.Pods()
	if cfg.Waive() {
		return nil
	}
	return claims
}

// klogTime returns the time of a line that has only klog's, without year and zone: the last such moment before now, in the
// local zone. It is only shown: no verdict uses it.
func klogTime(line []byte, now time.Time) time.Time {
	at, ok := parsers.KlogTime(line)
	if !ok {
		return time.Time{}
	}
	at = time.Date(now.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), now.Location())
	if at.After(now.Add(24 * time.Hour)) {
		at = at.AddDate(-1, 0, 0)
	}
	return at
}

func logsRead(states map[string]source.State, since time.Time) []summary.Source {
	var all []summary.Source
	for name, s := range states {
		l := summary.Source{Name: name, Read: s.Reached}
		if s.Err != nil {
			usual := slices.Contains(config.Default().LogFiles, name)
			l.Problem, l.Absent = s.Err.Error(), usual && errors.Is(s.Err, fs.ErrNotExist)
		}
		if name == journaldName {
			l.Since = since
			ctl, err := source.FindJournalctl()
			if closed := source.JournalClosed(ctl.Dirs()...); closed != "" && err == nil {
				l.Read, l.Problem = false, closed+": permission denied"
			}
		}
		if !l.Read && l.Problem == "" {
			l.Problem = "it is long: its end was not reached in time"
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b summary.Source) int { return strings.Compare(a.Name, b.Name) })
	return all
}

const journaldName = "journald"

// examineNode looks as scan does, without CNI's files, and stores the result in x.
func examineNode(ctx context.Context, x *summary.Case, cfg config.Config, claims []reported.Claim) error {
	n, err := open(ctx, cfg, options{})
	if err != nil {
		return err
	}
	defer n.Close()
	n.Reaper.Rules = x.Rules
	rep, err := n.Reaper.Pass(ctx, reaper.Options{DryRun: true, Claims: claims})
	if err != nil {
		if e, ok := errors.AsType[*exit.Error](err); ok && e.Hint == noNodeHint {
			if root := summary.RootNamed(x.Said); root != "" && root != cfg.RootDir {
				e.Hint = "the kubelet's line names " + root + ": try --root-dir " + root // a hint only: any process can write a line
			}
		}
		return err
	}
	rep.Misplaced(n.misplaced)
	if x.Staged, err = n.probe.Staged(ctx); err != nil {
		x.Staged = nil // it is not known which pods they are of
	}
	x.Looked, x.Look, x.Quarantine = true, rep.Look, rep.Quarantine
	x.Node, x.Pods, x.Breaker = rep.Look.Node, rep.Pods, rep.Stopped
	if opened, open := n.Store.Breaker(); open {
		x.Revived = opened.UID
	}
	for _, e := range rep.Entries {
		if e.Phase.InQuarantine() {
			x.Parked = append(x.Parked, e.UID)
		}
		if len(e.Failed) > 0 {
			x.Failed = append(x.Failed, e)
		}
		if e.Phase.OnlyByPerson() && !slices.Contains(x.Conflicts, e.UID) {
			x.Conflicts = append(x.Conflicts, e.UID)
		}
	}
	x.DataPods, x.DataBytes = summary.DataOf(rep.Entries)
	more, _ := unlisted(n.Reaper.Remover, n.Store) // the pass has the error, too
	x.Unlisted = len(more)
	x.Aging = summary.AgingOf(rep.Entries, x.Rules, n.Reaper.Clock.Now(), x.Node.Pressed())
	return nil
}

const unitFile = "orphan-reaper.service"

// unitDirs are the directories of units of packages and administrators, systemd.unit(5).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// FindDaemon returns whether a daemon runs here, and its mode.
func FindDaemon(ctx context.Context, cfg config.Config) summary.Daemon {
	d, err := reading(cfg, func(s *state.Store) (summary.Daemon, error) { return findDaemon(ctx, cfg, s), nil })
	if err != nil {
		d.Problem = err.Error()
	}
	return d
}

// findDaemon is FindDaemon for an open state directory. A sweep that holds the daemon's lock is no daemon.
func findDaemon(ctx context.Context, cfg config.Config, store *state.Store) (d summary.Daemon) {
	for _, dir := range unitDirs {
		if _, err := os.Stat(filepath.Join(cfg.NodeRoot, dir, unitFile)); err == nil {
			d.Installed = true
		}
	}
	pid, since, err := store.Runner()
	switch {
	case err != nil:
		d.Problem = err.Error()
	case pid == 0:
		d.Runs = policy.No
	default:
		d.PID, d.Since = pid, since
		args, err := commandOf(pid)
		if err != nil {
			d.Problem = fmt.Sprintf("PID %d holds the daemon's lock, and its command line cannot be read: %v", pid, err)
			return d
		}
		describeHolder(ctx, &d, args)
	}
	return d
}

// describeHolder sets in d whether the holder of the daemon's lock is the daemon, by its command line. It sets the mode by the
// flags and the current configuration file, if they can be read.
func describeHolder(ctx context.Context, d *summary.Daemon, args []string) {
	command, in, err := parseCommandLine(args)
	if err != nil {
		d.Problem = fmt.Sprintf("PID %d holds the daemon's lock, and its command line cannot be read: %v", d.PID, err)
		return
	}
	if d.Runs = policy.No; command != "run" {
		return
	}
	d.Runs = policy.Yes
	in.Usual, in.Theirs = config.DefaultFile, true
	if cfg, err := config.Load(ctx, in); err == nil {
		d.Mode = cfg.Mode
	}
}

// commandOf returns the command line of a process, beginning with the program's name.
func commandOf(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/cmdline", procDir, pid))
	if err != nil {
		return nil, fmt.Errorf("cannot read the command line of PID %d: %w", pid, err)
	}
	return kubelet.SplitCmdline(text), nil
}

// parseCommandLine returns the command and the configuration of a command line of this program.
func parseCommandLine(args []string) (command string, in config.Input, err error) {
	if len(args) < 2 {
		return "", in, errors.New("it shows no command")
	}
	flags, given := pflag.NewFlagSet("", pflag.ContinueOnError), map[string][]string{}
	flags.ParseErrorsAllowlist.UnknownFlags = true
	config.AddFlags(flags, given)
	file := flags.String("config", "", "")
	flags.StringP("output", "o", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return "", in, err
	}
	return flags.Arg(0), config.Input{File: *file, Given: given}, nil
}

// ConfigOf returns the configuration that the daemon with this PID would load again. usual is the file of a daemon without
// --config. An error with exit code 2 means that the configuration is wrong.
func ConfigOf(
	ctx context.Context, pid int, usual string, discover func(context.Context) (dir, origin string, ok bool),
) (config.Config, error) {
	args, err := commandOf(pid)
	if err != nil {
		return config.Config{}, err
	}
	command, in, err := parseCommandLine(args)
	if err != nil {
		return config.Config{}, fmt.Errorf("cannot read the command line of PID %d: %w", pid, err)
	}
	if command != "run" {
		return config.Config{}, fmt.Errorf("PID %d is no daemon: it does not show the command run", pid)
	}
	in.Usual, in.Discover, in.Theirs = usual, discover, true
	return config.Load(ctx, in)
}

// deniedBy returns which security label keeps this process, which is root, from reading one of the places, "" if none is known
// to. attr is the file with the label, /proc/self/attr/current.
func deniedBy(attr string, places ...string) string {
	for _, place := range places {
		f, err := os.Open(place)
		if err == nil {
			_ = f.Close()
		}
		if errors.Is(err, fs.ErrPermission) {
			return labelHint(attr, place)
		}
	}
	return ""
}

// labelHint returns that the label may not read the place, and the setting that helps. Labels are, for example:
//
//	system_u:system_r:container_t:s0:c12,c40
//	cri-containerd.apparmor.d (enforce)
func labelHint(attr, place string) string {
	text, err := os.ReadFile(attr)
	if err != nil {
		return ""
	}
	label := strings.TrimRight(string(text), "\x00\n")
	if profile, ok := strings.CutSuffix(label, " (enforce)"); ok {
		return fmt.Sprintf("AppArmor: this runs with the profile %s, which may not read %s; set the pod's appArmorProfile to Unconfined", profile, place)
	}
	if context := strings.Split(label, ":"); len(context) > 2 {
		return fmt.Sprintf("SELinux: this runs as %s, which may not read %s; set seLinuxOptions.type to spc_t", context[2], place)
	}
	return ""
}
