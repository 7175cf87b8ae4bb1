package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// klog writes lines as the kubelets' logger does, with klog's header or as JSON (k8s.io/klog/v2, and
// k8s.io/component-base/logs/json).
type klog struct {
	version string
	json    bool
	level   int
	offset  time.Duration // of this node's clock
}

// base returns the file's name without its directory.
func (p place) base() string { return p.file[strings.LastIndexByte(p.file, '/')+1:] }

func (l *klog) now() time.Time { return time.Now().Add(l.offset) }

// write writes one line with one write(2), as klog does.
func (l *klog) write(text string) { _, _ = os.Stderr.WriteString(text) }

func (l *klog) header(severity byte, at place) string {
	return fmt.Sprintf("%c%s %7d %s:%d] ", severity, l.now().Format("0102 15:04:05.000000"), os.Getpid(), at.base(), at.line)
}

// text writes a line without keys, as klog.Infof and Errorf do. A text may have newlines.
func (l *klog) text(severity byte, level int, at place, text string) {
	switch {
	case level > l.level:
	case l.json && severity == 'E' && l.version != "1.19":
		l.fields(at, text+"\n", nil)
	case l.json: // klog does not pass the level on
		l.fields(at, text+"\n", []any{"v", 0})
	default:
		l.write(l.header(severity, at) + strings.TrimSuffix(text, "\n") + "\n")
	}
}

// info writes a message with keys and values, as klog.InfoS does.
func (l *klog) info(level int, at place, msg string, keys ...any) {
	switch {
	case level > l.level:
	case l.json:
		l.fields(at, msg, append([]any{"v", level}, keys...))
	default:
		l.write(l.header('I', at) + strconv.Quote(msg) + pairs(keys) + "\n")
	}
}

// error writes a message with an error, as klog.ErrorS does. In JSON the error comes last.
func (l *klog) error(err string, at place, msg string, keys ...any) {
	if l.json {
		l.fields(at, msg, append(keys, "err", err))
		return
	}
	l.write(l.header('E', at) + strconv.Quote(msg) + pairs([]any{"err", err}) + pairs(keys) + "\n")
}

func pairs(keys []any) string {
	var b strings.Builder
	for i := 0; i < len(keys); i += 2 {
		if text, ok := keys[i+1].(string); ok {
			fmt.Fprintf(&b, " %s=%q", keys[i], text)
		} else {
			fmt.Fprintf(&b, " %s=%v", keys[i], quoted(keys[i+1]))
		}
	}
	return b.String()
}

// quoted writes lists of strings as klog does.
func quoted(v any) any {
	if list, ok := v.([]string); ok {
		return marshal(list)
	}
	return v
}

// fields writes a line of JSON. Kubelets of 1.19 have no caller.
func (l *klog) fields(at place, msg string, keys []any) {
	var b strings.Builder
	now := l.now()
	fmt.Fprintf(&b, `{"ts":%s`, strconv.FormatFloat(float64(now.UnixMicro())/1000, 'f', -1, 64))
	if l.version != "1.19" {
		keys = append([]any{"caller", fmt.Sprintf("%s:%d", at.file, at.line), "msg", msg}, keys...)
	} else {
		keys = append([]any{"msg", msg}, keys...)
	}
	for i := 0; i < len(keys); i += 2 {
		fmt.Fprintf(&b, `,%q:%s`, keys[i], marshal(keys[i+1]))
	}
	l.write(b.String() + "}\n")
}

// marshal encodes strings, numbers and lists of strings. The loggers do not escape <, > and &.
func marshal(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // these have no errors
	return strings.TrimSuffix(b.String(), "\n")
}
