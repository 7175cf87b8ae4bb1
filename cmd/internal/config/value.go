package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
)

// set sets the field of the setting to the values. If it has one value only, the last one counts.
func (s *Setting) set(in *Settings, values ...string) error {
	values = slices.Clone(values)
	for i, v := range values {
		if slices.Contains(s.Words, v) {
			if len(values) > 1 && s.List {
				return fmt.Errorf("%s stands alone: remove it, or all other values", v)
			}
			continue
		}
		if err := s.check(v); err != nil {
			return err
		}
		if filepath.IsAbs(v) {
			values[i] = filepath.Clean(v) // paths are compared by name
		}
	}
	last := values[len(values)-1]
	field := reflect.ValueOf(in).Elem().Field(s.index)
	if slices.Contains(s.Words, last) && last == s.Default {
		field.SetZero()
		return nil
	}
	switch p := field.Addr().Interface().(type) {
	case *string:
		*p = last
	case *[]string:
		*p = values
	case *bool:
		*p = last == "on"
	case *int:
		*p, _ = strconv.Atoi(last) // checked
	case *time.Duration:
		*p, _ = time.ParseDuration(last) // checked
	case *slog.Level:
		return p.UnmarshalText([]byte(last))
	}
	return nil
}

// values returns the values of the setting as flags and the file have them.
func (s *Setting) values(in *Settings) []string {
	field := reflect.ValueOf(in).Elem().Field(s.index)
	if field.IsZero() && slices.Contains(s.Words, s.Default) {
		return []string{s.Default}
	}
	switch v := field.Interface().(type) {
	case []string:
		return v
	case bool:
		if v {
			return []string{"on"}
		}
		return []string{"off"}
	case time.Duration:
		return []string{span(v)}
	case slog.Level:
		return []string{strings.ToLower(v.String())}
	default:
		return []string{fmt.Sprint(v)}
	}
}

// span returns a duration as it is usually written: 5m, not 5m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// check returns what is wrong with one value.
func (s *Setting) check(v string) error {
	switch s.Type {
	case "DIR", "FILE":
		return checkPath(v)
	case "PROM_FILE":
		if err := checkPath(v); err != nil {
			return err
		}
		if !strings.HasSuffix(v, ".prom") {
			return fmt.Errorf("%q does not end in .prom: the node exporter reads no other file", v)
		}
	case "DURATION":
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is not a duration: write one such as 90s, 5m or 48h", v)
		}
		if d < 0 {
			return fmt.Errorf("%s is negative", v)
		}
		if least, err := time.ParseDuration(s.Least); err == nil && d < least {
			return fmt.Errorf("%s is less than %s: this is the time in which a pod can show that it is alive", v, s.Least)
		}
	case "N":
		if n, err := strconv.Atoi(v); err != nil || n < 0 {
			return fmt.Errorf("%q is not a whole number from 0", v)
		}
	case "URL":
		if path, ok := strings.CutPrefix(v, "unix://"); !ok || checkPath(path) != nil {
			return fmt.Errorf("%q is not unix:///PATH", v)
		}
	case "UNIT":
		// systemd.unit(5): a name without a suffix is the name of no unit, and journald compares whole names.
		if !strings.Contains(v, ".") || strings.ContainsAny(v, "/ \t*?[") || len(v) > 255 {
			return fmt.Errorf("%q is not the name of a unit, such as kubelet.service", v)
		}
	case "HOST:PORT":
		if _, err := fleet.ParseListen(v); err != nil {
			return err
		}
	default:
		if !slices.Contains(strings.Split(s.Type, "|"), v) {
			return fmt.Errorf("%q is not one of %s", v, strings.ReplaceAll(s.Type, "|", ", "))
		}
	}
	return nil
}

// checkPath returns an error for a path that depends on a working directory, or that a screen or log cannot show.
func checkPath(v string) error {
	switch {
	case v == "":
		return errors.New("the path is empty")
	case !filepath.IsAbs(v):
		return fmt.Errorf("%q is not an absolute path", v)
	case strings.ContainsFunc(v, func(r rune) bool { return !strconv.IsPrint(r) }):
		return fmt.Errorf("%q has a character that cannot be printed", v)
	}
	return nil
}
