package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// Handler writes log lines to the journal: the message with its attributes as MESSAGE, and each attribute as its own
// field, such as ORPHAN_REAPER_PATH.
type Handler struct {
	out      *sender
	level    slog.Leveler
	fallback slog.Handler
	groups   []string
	attrs    []field // resolved attributes of WithAttrs
}

// field is one attribute with its full name.
type field struct{ name, value string }

// NewHandler returns a Handler for lines of level and above. If there is no journal, lines go to fallback, which may be
// nil.
func NewHandler(level slog.Leveler, fallback slog.Handler) *Handler {
	return &Handler{out: &sender{send: journal.Send, timeout: sendTimeout}, level: level, fallback: fallback}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		n.attrs = appendAttr(n.attrs, h.groups, a)
	}
	if h.fallback != nil {
		n.fallback = h.fallback.WithAttrs(attrs)
	}
	return &n
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.groups = append(slices.Clip(h.groups), name)
	if h.fallback != nil {
		n.fallback = h.fallback.WithGroup(name)
	}
	return &n
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	fields := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fields = appendAttr(fields, h.groups, a)
		return true
	})
	vars := map[string]string{"SYSLOG_IDENTIFIER": Identifier}
	if !r.Time.IsZero() {
		// The journal may get the line late.
		vars[prefix+"TIME"] = r.Time.UTC().Format(time.RFC3339Nano)
	}
	var text strings.Builder
	text.WriteString(r.Message)
	for _, f := range fields {
		vars[prefix+fieldName(f.name)] = strings.ToValidUTF8(f.value, "\uFFFD")
		fmt.Fprintf(&text, " %s=%s", f.name, quoted(f.value))
	}
	err := h.out.do(clean.Cut(clean.Text(text.String()), maxText), priority(r.Level), vars) //nolint:contextcheck // it is sent even if the caller is canceled
	if err == nil || h.fallback == nil || errors.Is(err, ErrStuck) {
		return err // if journald is stuck, so is the fallback's stderr
	}
	return h.fallback.Handle(ctx, r)
}

// quoted quotes a value that is empty or contains spaces, quotes or "=".
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"\n\t") {
		return strconv.Quote(s)
	}
	return s
}

// appendAttr resolves an attribute and adds it, or the attributes of a group, under its full name. It omits empty
// attributes and groups, as slog.Handler requires.
func appendAttr(fields []field, groups []string, a slog.Attr) []field {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return fields
	}
	if a.Value.Kind() != slog.KindGroup {
		name := strings.Join(append(slices.Clip(groups), a.Key), "_")
		value := a.Value.String()
		if a.Value.Kind() == slog.KindTime {
			value = a.Value.Time().Format(time.RFC3339Nano)
		}
		return append(fields, field{name, value})
	}
	if a.Key != "" {
		groups = append(slices.Clip(groups), a.Key)
	}
	for _, sub := range a.Value.Group() {
		fields = appendAttr(fields, groups, sub)
	}
	return fields
}

func priority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}
