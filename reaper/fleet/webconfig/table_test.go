package webconfig_test

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/webconfig"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit/webcases"
)

func gate(path string) *webconfig.Gate {
	return webconfig.New(path, time.Now, slog.New(slog.DiscardHandler))
}

// TestTable: each file and request of the table is answered as the table says.
func TestTable(t *testing.T) {
	webcases.Run(t, webcases.Server{
		Check: func(path string) error { return gate(path).Check() },
		Serve: func(l net.Listener, h *http.Server, path string) error {
			g := gate(path)
			h.Handler = g.Handler(h.Handler)
			c, err := g.TLS()
			if err != nil {
				return err
			}
			if c == nil {
				return h.Serve(l)
			}
			h.TLSConfig = c
			return h.ServeTLS(l, "", "")
		},
	}, func(*webcases.Case) bool { return false })
}
