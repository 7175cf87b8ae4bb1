package webconfig

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/exporter-toolkit/web"

	ours "github.com/orphan-reaper/orphan-reaper/reaper/fleet/webconfig"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit/webcases"
)

func check(path string) error {
	return ours.New(path, time.Now, slog.New(slog.DiscardHandler)).Check()
}

// TestTheirs: the toolkit answers as the table says that we do, but where the table says that it does not.
func TestTheirs(t *testing.T) {
	webcases.Run(t, webcases.Server{
		Check: web.Validate,
		Serve: func(l net.Listener, h *http.Server, path string) error {
			return web.Serve(l, h, &web.FlagConfig{WebConfigFile: &path}, slog.New(slog.DiscardHandler))
		},
	}, func(c *webcases.Case) bool { return c.Theirs != "" })
}

// TestTheirFiles: what the toolkit's own tests take is taken, and what they refuse is refused.
func TestTheirFiles(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/exporter-toolkit").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "web", "testdata", "*.y*ml"))
	if err != nil || len(files) < 30 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if theirs, err := web.Validate(file), check(file); (theirs == nil) != (err == nil) {
			t.Errorf("%s: theirs %v, ours %v", filepath.Base(file), theirs, err)
		}
	}
}

// keys are those that a file can have, each in its section.
var keys = []string{
	"tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: %s}",
	"tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: %s}",
	"tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAnyClientCert, client_ca_file: %s}",
	"tls_server_config: {cert_file: %s, key_file: server.key}",
	"tls_server_config: {cert_file: server.crt, key_file: %s}",
	"tls_server_config: {cert: %s}",
	"tls_server_config: {min_version: %s}",
	"tls_server_config: {max_version: %s}",
	"tls_server_config: {cipher_suites: [%s]}",
	"tls_server_config: {cipher_suites: %s}",
	"tls_server_config: {curve_preferences: [%s]}",
	"tls_server_config: {client_allowed_sans: [%s]}",
	"tls_server_config: {client_allowed_sans: %s}",
	"tls_server_config: {prefer_server_cipher_suites: %s}",
	"tls_server_config: {%s: a}",
	"tls_server_config: %s",
	"http_server_config: {http2: %s}",
	"http_server_config: {headers: {X-Frame-Options: %s}}",
	"http_server_config: {headers: {X-XSS-Protection: %s}}",
	"http_server_config: {headers: {%s: deny}}",
	"http_server_config: {headers: %s}",
	"rate_limit: {burst: %s}",
	"rate_limit: {interval: %s}",
	"basic_auth_users: {alice: %s}",
	"basic_auth_users: {%s: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G}",
	"basic_auth_users: %s",
	"%s: {}",
}

// plain are the values that are written without quotes; so what YAML takes for numbers, durations and words of other types comes, too.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.+/$-]+$`)

// FuzzBoth: any value of any key is taken by both or by none.
func FuzzBoth(f *testing.F) {
	for key := range keys {
		for _, value := range []string{
			"", "true", "yes", "off", "null", "0", "1", "-1", "1.5", "1e3", "0x10", "010", "1_000", "1s", "2026-01-01", "deny", "TLS12", "server.crt", "empty.crt",
			"none", "NoClientCert", "CurveP256", "TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "9223372036854775808", ".inf", "a b", "[]",
		} {
			f.Add(uint8(key), value)
		}
	}
	dir := f.TempDir()
	for name, text := range webcases.PEMs(f) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, key uint8, value string) {
		if !plain.MatchString(value) && value != "[]" {
			value = strconv.QuoteToASCII(strings.ToValidUTF8(value, "?"))
		}
		line := keys[int(key)%len(keys)]
		if strings.HasPrefix(line, "basic_auth_users: {%s") && strings.EqualFold(value, "null") {
			return // the table has it
		}
		text := strings.Replace(line, "%s", value, 1) + "\n"
		path := filepath.Join(dir, "web.yml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, err := web.Validate(path), check(path)
		if (theirs == nil) != (err == nil) {
			t.Errorf("%s: theirs %v, ours %v", text, theirs, err)
		}
	})
}
