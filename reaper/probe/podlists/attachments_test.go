package podlists

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAttachments checks that each volume is requested by the name that the kubelet gives its VolumeAttachment, and
// that a response that is refused, late or unexpected is unknown.
func TestAttachments(t *testing.T) {
	// printf vol-1ebs.csi.aws.comnode-1 | sha256sum
	const path = "/apis/storage.k8s.io/v1/volumeattachments/csi-58932ddfc9a6504f794af09a26429db947138ba3d683dee3d975aa932cb39f48"
	const of = `{"metadata":{"name":"x"},"spec":{"nodeName":"node-1"},"status":{"attached":true}}`
	with := func(old, text string) http.HandlerFunc { return testkit.Answer(strings.Replace(of, old, text, 1)) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   policy.Truth
		detail string
	}{
		"attached":       {testkit.Answer(of), policy.Yes, "is attached"},
		"being detached": {with(`"name":"x"`, `"deletionTimestamp":"2026-11-01T00:00:00Z"`), policy.Yes, "being detached"},
		"not yet":        {with("true", "false"), policy.Yes, "not attached yet"},
		"another node's": {with("node-1", "node-2"), policy.Unknown, "another node"},
		"none":           {testkit.Refuse(404, "not found"), policy.No, "no VolumeAttachment"},
		"no right":       {testkit.Refuse(403, "no relationship\x1b[2J"), policy.Unknown, "403 Forbidden"},
		"no JSON":        {testkit.Answer("<html>"), policy.Unknown, "cannot read"},
		"too long":       {testkit.Answer(`{"x":"` + strings.Repeat("x", 2<<20)), policy.Unknown, "unexpected EOF"},
		"it hangs":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, policy.Unknown, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{path: c.answer}))
			r := newReader(Reader{Kubeconfig: testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "token: s3cret")})
			if name == "it hangs" {
				r.Guard.Patience = 100 * time.Millisecond
			}
			all := []policy.GlobalMount{{Driver: "ebs.csi.aws.com", Handle: "vol-1"}, {Driver: "ebs.csi.aws.com"}}
			r.Attachments(t.Context(), "node-1", all)
			if f := all[0].Attached; f.Truth != c.want || !strings.Contains(f.Detail, c.detail) || strings.Contains(f.Detail, "\x1b") {
				t.Errorf("%+v", f)
			}
			if f := all[1].Attached; f.Truth != policy.Unknown || !strings.Contains(f.Detail, "volume handle are not known") {
				t.Errorf("without a handle: %+v", f)
			}
			all = []policy.GlobalMount{{}}
			if r.Attachments(t.Context(), "", all); !strings.Contains(all[0].Attached.Detail, "name at the API server is not known") {
				t.Errorf("%+v", all)
			}
			r.Kubeconfig = ""
			if r.Attachments(t.Context(), "node-1", all); !strings.Contains(all[0].Attached.Detail, "no API server was named") {
				t.Errorf("%+v", all)
			}
		})
	}
}
