package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAsked: which of the kubelet and the API server are asked, and whether the silence of
// the latter keeps everything, which a reload changes.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		text, kubeconfig, node, certificate string
		need                                bool
	}{
		{"", "", "", "", false},
		{"api_unreachable: keep\n", "", "", "", false},
		{"kubeconfig: /k\nnode_name: n-1.example\n", "/k", "n-1.example", "", true},
		{"kubeconfig: /k\napi_unreachable: ignore\n", "/k", "", "", false},
		{"kubelet_client_certificate: /c\n", "", "", "/c", false},
	} {
		cfg, err := loadFile(t, c.text)
		testkit.Must(t, err)
		p := probing(cfg, nil, nil)
		if p.Kubeconfig != c.kubeconfig || p.NodeName != c.node || p.KubeletClientCertificate != c.certificate || p.KubeletClientKey != "" ||
			p.KubeletTokenFile != "" {
			t.Errorf("%q: %+v", c.text, p)
		}
		if need := Rules(cfg).NeedAPI; need != c.need {
			t.Errorf("%q: needs the API server: %t", c.text, need)
		}
	}
	was, err := loadFile(t, "kubeconfig: /k\n")
	testkit.Must(t, err)
	next, err := loadFile(t, "kubeconfig: /k\napi_unreachable: ignore\n")
	testkit.Must(t, err)
	live, restart := was.Diff(next)
	if strings.Join(live, " ") != "api_unreachable" || restart != nil || Rules(was.With(next, live)).NeedAPI {
		t.Errorf("a reload changes %v, and a restart %v", live, restart)
	}
}

func loadFile(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(t.Context(), config.Input{File: file})
}
