package journal

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reader is the stand-in of journalctl.
type reader struct {
	output       string
	fields       []string
	since        int64  // microseconds
	after        string // a cursor
	cursor       string // where to begin
	passed       bool   // the entry of cursor was read
	grep         *regexp.Regexp
	follow       bool
	reverse      bool
	lines        int // the last ones, -1 for all
	groups       [][]string
	quiet, found bool
}

// Journalctl is journalctl, and returns its exit code.
func Journalctl(args []string) int {
	r, err := parseJournalctl(args)
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if r.grep != nil && !r.found {
		return 1
	}
	return 0
}

// longOf are the long forms of short options. valued are those with a value, ignored those that change nothing here.
var (
	longOf  = map[string]string{"-f": "--follow", "-o": "--output", "-u": "--unit", "-n": "--lines", "-g": "--grep", "-q": "--quiet", "-a": "--all", "-S": "--since", "-D": "--directory", "-r": "--reverse"}
	valued  = []string{"--output", "--output-fields", "--since", "--cursor", "--after-cursor", "--grep", "--unit", "--lines"}
	ignored = []string{"--no-tail", "--no-pager", "--all", "--namespace", "--directory", "--case-sensitive", "--utc", "--no-hostname", "--boot", "--system"}
)

func parseJournalctl(args []string) (*reader, error) {
	r := &reader{output: "short", lines: -1, groups: [][]string{nil}}
	noTail, since := false, false
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		if short := args[i][:min(2, len(args[i]))]; longOf[short] != "" {
			name, value, inline = longOf[short], args[i][2:], len(args[i]) > 2
		}
		if !strings.HasPrefix(args[i], "-") {
			r.match(args[i])
			continue
		}
		if slices.Contains(valued, name) && !inline {
			if i++; i == len(args) {
				return nil, fmt.Errorf("journalctl: option '%s' requires an argument", name)
			}
			value = args[i]
		}
		noTail, since = noTail || name == "--no-tail" || name == "--lines" && value == "all", since || name == "--since"
		if err := r.option(name, value); err != nil {
			return nil, err
		}
	}
	if r.follow && !noTail && !since && r.lines < 0 {
		r.lines = 10
	}
	return r, nil
}

func (r *reader) option(name, value string) (err error) {
	switch name {
	case "--follow":
		r.follow = true
	case "--reverse":
		r.reverse = true
	case "--quiet":
		r.quiet = true
	case "--output":
		if r.output = value; !slices.Contains([]string{"json", "export", "cat", "short"}, value) {
			err = fmt.Errorf("unknown output format: %s", value)
		}
	case "--output-fields":
		r.fields = strings.Split(value, ",")
	case "--since":
		r.since, err = parseSince(value)
	case "--cursor":
		r.cursor = value
	case "--after-cursor":
		r.after = value
	case "--grep":
		r.grep, err = regexp.Compile(value)
	case "--unit":
		if !strings.Contains(value, ".") {
			value += ".service"
		}
		r.match("_SYSTEMD_UNIT=" + value)
	case "--lines":
		if r.lines = -1; value != "all" {
			r.lines, err = strconv.Atoi(value)
		}
	default:
		if !slices.Contains(ignored, name) {
			err = fmt.Errorf("journalctl: unrecognized option '%s'", name)
		}
	}
	return err
}

// match adds a match, or begins another group of them.
func (r *reader) match(text string) {
	if text == "+" {
		r.groups = append(r.groups, nil)
		return
	}
	last := len(r.groups) - 1
	r.groups[last] = append(r.groups[last], text)
}

// parseSince parses @SECONDS, a time span before now such as -10s, and a local time.
func parseSince(text string) (int64, error) {
	if at, ok := strings.CutPrefix(text, "@"); ok {
		seconds, err := strconv.ParseFloat(at, 64)
		return int64(seconds * 1e6), err
	}
	if span, ok := strings.CutPrefix(text, "-"); ok {
		d, err := time.ParseDuration(strings.TrimSuffix(strings.TrimSuffix(span, "in"), "ec"))
		return time.Now().Add(-d).UnixMicro(), err
	}
	t, err := time.ParseInLocation(time.DateTime, text, time.Local)
	if err != nil {
		return 0, errors.New("failed to parse timestamp: " + text)
	}
	return t.UnixMicro(), nil
}

// run prints what is there, and with --follow what is added.
func (r *reader) run() error {
	paths, err := filepath.Glob(dir + "/*/*.journal")
	if err != nil || len(paths) == 0 {
		return errors.New("no journal files were found")
	}
	f, err := os.Open(paths[0])
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(os.Stdout)
	in := bufio.NewReader(f)
	var rest string
	var last []journalEntry
	for began := false; ; {
		text, err := in.ReadString('\n')
		rest += text
		if err == nil {
			var e journalEntry
			if err := json.Unmarshal([]byte(rest), &e); err != nil {
				return err
			}
			rest = ""
			switch {
			case !r.wants(&e):
			case began || r.lines < 0 && !r.reverse:
				r.print(out, &e)
			default:
				last = append(last, e)
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if !began {
			began = true
			if r.lines >= 0 {
				last = last[max(0, len(last)-r.lines):]
			}
			if r.reverse {
				slices.Reverse(last)
			}
			for i := range last {
				r.print(out, &last[i])
			}
		}
		if err := out.Flush(); err != nil || !r.follow {
			return err
		}
		time.Sleep(poll)
	}
}

// poll is how often --follow looks for new entries.
const poll = 20 * time.Millisecond

// wants reports whether the entry is one to print. Matches of one field are alternatives, those of several must all hold.
func (r *reader) wants(e *journalEntry) bool {
	if r.after != "" {
		if e.Cursor == r.after {
			r.after = ""
		}
		return false
	}
	if r.cursor != "" {
		before := r.passed
		r.passed = before || e.Cursor == r.cursor
		if r.reverse && before || !r.reverse && !r.passed {
			return false
		}
	}
	if e.Realtime < r.since || r.grep != nil && !r.grep.MatchString(e.get("MESSAGE")) {
		return false
	}
	return slices.ContainsFunc(r.groups, func(group []string) bool {
		held := map[string]bool{}
		for _, match := range group {
			name, value, _ := strings.Cut(match, "=")
			held[name] = held[name] || e.get(name) == value
		}
		for _, ok := range held {
			if !ok {
				return false
			}
		}
		return len(group) > 0 || len(r.groups) == 1
	})
}

func (r *reader) print(out *bufio.Writer, e *journalEntry) {
	r.found = true
	at := time.UnixMicro(e.Realtime)
	switch r.output {
	case "cat":
		fmt.Fprintln(out, e.get("MESSAGE"))
	case "short":
		fmt.Fprintf(out, "%s %s %s[%s]: %s\n", at.Format(time.Stamp), e.get("_HOSTNAME"), e.get("SYSLOG_IDENTIFIER"), e.get("_PID"), e.get("MESSAGE"))
	case "json":
		object := map[string]any{}
		for _, f := range r.selected(e) {
			object[f.Name] = f.value()
		}
		text, _ := json.Marshal(object) // strings and numbers
		fmt.Fprintf(out, "%s\n", text)
	case "export":
		for _, f := range r.selected(e) {
			if strings.ContainsAny(string(f.Value), "\n\x00") {
				_, _ = out.WriteString(f.Name + "\n")
				_ = binary.Write(out, binary.LittleEndian, uint64(len(f.Value)))
				_, _ = out.Write(append(f.Value, '\n'))
				continue
			}
			fmt.Fprintf(out, "%s=%s\n", f.Name, f.Value)
		}
		fmt.Fprintln(out)
	}
}

// selected returns the fields to print. Those of the entry itself and _BOOT_ID are always printed.
func (r *reader) selected(e *journalEntry) []field {
	realtime := strconv.FormatInt(e.Realtime, 10)
	all := []field{
		{"__CURSOR", []byte(e.Cursor)}, {"__REALTIME_TIMESTAMP", []byte(realtime)}, {"__MONOTONIC_TIMESTAMP", []byte(realtime)},
	}
	for _, f := range e.Fields {
		if len(r.fields) == 0 || f.Name == "_BOOT_ID" || slices.Contains(r.fields, f.Name) {
			all = append(all, f)
		}
	}
	return all
}
