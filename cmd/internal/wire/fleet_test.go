package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPasswordInTheClear: a password goes by TLS or stays on this host.
func TestPasswordInTheClear(t *testing.T) {
	open := func(user string, targets ...string) error {
		file := ""
		if user != "" {
			file = filepath.Join(t.TempDir(), "pw")
			testkit.Must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
		}
		_, err := OpenFleet(FleetOptions{Targets: targets, User: user, PasswordFile: file, Parallel: 1, Patience: time.Second})
		return err
	}
	for _, target := range []string{
		"http://10.0.0.1:9477", "n=http://node-1:9477", "http://[::2]:9477", "http://localhost.example.com", "http://127.0.0.1.example.com", "http://0.0.0.0:9477",
	} {
		err := open("sweeper", "https://10.0.0.2", target)
		if err == nil || exit.Code(err) != exit.UsageCode || !strings.Contains(err.Error(), "has no TLS") {
			t.Errorf("%s: %v", target, err)
		}
		if err := open("", target); err != nil {
			t.Errorf("%s without a user: %v", target, err)
		}
	}
	for _, target := range []string{"https://10.0.0.1:9477", "http://127.0.0.1:9477", "http://localhost:9477", "http://[::1]:9477", "http://[::ffff:127.0.0.1]"} {
		if err := open("sweeper", target); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}
