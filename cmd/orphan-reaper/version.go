package main

import (
	"cmp"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // the commit's, not the build's
	Modified bool   `json:"modified"`       // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// stamped is the version from packaging/version.sh, set through the linker by make build. A plain go build leaves it empty:
// Go's own version then has the tags, but not the next version.
var stamped string

// version reads the build information that the Go linker puts into every binary.
func version() versionView {
	v := versionView{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(stamped, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersionCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program",
		Example:     "  orphan-reaper version -o json",
		Annotations: annotations(noSettings), Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			return a.write(v, func(p *ui.Printer) {
				p.Printf("orphan-reaper %s %s %s\n", v.Version, v.Go, v.Platform)
				if v.Revision != "" {
					changed := ""
					if v.Modified {
						changed = ", with changes"
					}
					p.Printf("commit %s of %s%s\n", v.Revision, v.Time, changed)
				}
			})
		},
	}
}

var shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":  func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
}

func newCompletionCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "Write a shell's completion script",
		Long: "Write a completion script for a shell.",
		Example: "  orphan-reaper completion bash >/etc/bash_completion.d/orphan-reaper\n  orphan-reaper completion zsh " +
			">\"${fpath[1]}/_orphan-reaper\"\n  orphan-reaper completion fish >~/.config/fish/completions/orphan-reaper.fish",
		Annotations: annotations(noSettings, noOutput),
		ValidArgs:   []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return exit.Usagef("", "name one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p := a.printer(a.stdout)
			if err := ui.QuietPipe(shells[args[0]](cmd.Root(), p)); err != nil {
				return err
			}
			return p.Flush()
		},
	}
}
