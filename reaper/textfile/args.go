package textfile

import (
	"regexp"
	"strings"
)

// textfileFlag is the node exporter's flag for the directory of its textfile collector.
const textfileFlag = "collector.textfile.directory"

// directoryIn returns the directory that a node exporter's arguments give to its
// textfile collector, "" where they give none. Of several, and from version 1.6 on of
// patterns, the first that is one plain path counts.
func directoryIn(args []string) string {
	for i, arg := range args {
		name, dir, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || name != textfileFlag {
			continue
		}
		if !found && i+1 < len(args) {
			dir = args[i+1]
		}
		if strings.HasPrefix(dir, "/") && !strings.ContainsAny(dir, "*?[\\") {
			return dir
		}
	}
	return ""
}

// argsAssignment is a variable of an environment file that systemd reads (EnvironmentFile=
// in systemd.exec(5)) or a shell sources, such as ARGS="--a --b".
var argsAssignment = regexp.MustCompile(`(?m)^\s*(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=(.*)$`)

// directoryOf does the same for the text of such a file. Arguments are taken to be
// split at white space and without quotes of their own, as a directory's name needs none.
func directoryOf(text string) string {
	for _, m := range argsAssignment.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
		if dir := directoryIn(strings.Fields(strings.NewReplacer(`"`, " ", `'`, " ").Replace(m[1]))); dir != "" {
			return dir
		}
	}
	return ""
}
