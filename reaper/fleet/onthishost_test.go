package fleet

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPasswordOnThisHost: where the file names users, clients by loopback and by a Unix socket need a password as well.
func TestPasswordOnThisHost(t *testing.T) {
	config := testkit.File(t, "web.yaml", "basic_auth_users:\n  sweeper: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G\n")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		s, _, _ := newTestServer(t, config)
		ctx, cancel := context.WithCancel(t.Context())
		l, err := new(net.ListenConfig).Listen(ctx, network, address)
		testkit.Must(t, err)
		done := make(chan error)
		go func() { done <- s.serve(ctx, l) }()
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		}}}
		for password, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "secret": http.StatusAccepted} {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/sweep", http.NoBody)
			testkit.Must(t, err)
			if password != "" {
				r.SetBasicAuth("sweeper", password)
			}
			answer, err := client.Do(r)
			testkit.Must(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			testkit.Must(t, err)
			testkit.Must(t, answer.Body.Close())
			if answer.StatusCode != want {
				t.Errorf("%s, password %q: %d, want %d", network, password, answer.StatusCode, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
