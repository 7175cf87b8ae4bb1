package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPrintIsAFile: what config print writes is a file with the same meaning.
func TestPrintIsAFile(t *testing.T) {
	code, out, errs := call(t, "config", "print", "--hold", "90s", "--log-file", "/a b", "--log-file", "/c: d#e", "--max-per-look", "3", "--metrics-file", "none")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	c, err := loadText(t, out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := config.Default()
	want.Hold, want.LogFiles, want.MaxPerLook, want.MetricsFile = 90*time.Second, []string{"/a b", "/c: d#e"}, 3, config.None
	if c.Hold != want.Hold || !slices.Equal(c.LogFiles, want.LogFiles) || c.MaxPerLook != want.MaxPerLook || c.MetricsFile != want.MetricsFile {
		t.Errorf("%+v", c)
	}
}

func TestPrintJSON(t *testing.T) {
	_, out, errs := call(t, "config", "print", "-o", "json", "--hold", "90s", "--max-per-look", "3")
	var v struct {
		File     string
		Settings map[string]config.SettingView
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s %s", err, out, errs)
	}
	if len(v.Settings) != len(config.Settings) {
		t.Errorf("%d settings, want %d", len(v.Settings), len(config.Settings))
	}
	if got := v.Settings["hold"]; got != (config.SettingView{Value: "1m30s", Source: "flag --hold", Flag: "--hold", Reload: true}) {
		t.Errorf("%+v", got)
	}
	if got := v.Settings["max_per_look"].Value; got != 3.0 {
		t.Errorf("max_per_look is %v (%T), want a number", got, got)
	}
}

// loadText reads a configuration file's text.
func loadText(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(t.Context(), config.Input{File: file})
}
