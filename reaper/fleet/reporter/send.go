package reporter

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// requestTime limits one request, and mostAnswer its answer: the report and the managers of its fields.
const (
	requestTime = 30 * time.Second
	mostAnswer  = 1 << 20
)

// manager is the field manager. By server-side apply one request creates or changes the report, so the account needs
// no right to read it.
const manager = "orphan-reaper"

// errSlow is the error of an API server that does not answer in time.
var errSlow = fmt.Errorf("it does not answer within %s", requestTime)

// send writes the report, and then the pending events. It returns the error of the report only.
func (w *Writer) send(ctx context.Context, r report.Report) error {
	server, err := w.cfg.Open()
	if err != nil {
		return err
	}
	node := w.identify(server)
	r.Node = node.name
	_, body, err := report.NewResource(r, node.metadata())
	if err != nil {
		return err
	}
	defer server.Close()
	path := report.ResourcePath + "/" + url.PathEscape(node.name) + "?fieldManager=" + manager + "&force=true"
	answer := func(body io.Reader) error { return isReport(body, node.name) }
	if err := w.ask(ctx, server, http.MethodPatch, path, "application/apply-patch+yaml", body, answer); err != nil {
		return err
	}
	w.sendEvents(ctx, server, node)
	return nil
}

// ask sends one request with a time limit.
func (w *Writer) ask(ctx context.Context, s *kube.Server, method, path, contentType string, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.wait, errSlow)
	defer cancel()
	return s.Send(ctx, method, path, contentType, body, read)
}

// isReport checks that the answer is the stored report.
func isReport(body io.Reader, name string) error {
	var answer struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := json.NewDecoder(io.LimitReader(body, mostAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("its answer is no OrphanReport: %w", err)
	}
	if answer.Kind != report.Kind || answer.Metadata.Name != name {
		return errors.New("its answer is not the OrphanReport that was written: is it an API server?")
	}
	return nil
}

// identity identifies this node for the API server.
type identity struct{ name, uid string }

// identify returns this node's name, from the setting, the credentials or the host; and its UID if the token has both.
func (w *Writer) identify(s *kube.Server) identity {
	bound := nodeOf(s.Token)
	name := cmp.Or(w.cfg.Node, bound.name, s.Node(), w.cfg.Host)
	if name != bound.name {
		bound.uid = ""
	}
	return identity{name, bound.uid}
}

// metadata makes the Node the report's owner, if its UID is known, so that both are deleted together.
func (n identity) metadata() report.Metadata {
	m := report.Metadata{Name: n.name}
	if n.uid != "" {
		m.Owners = []report.Owner{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: n.uid}}
	}
	return m
}

// nodeOf returns the node of the pod to which a service account's token is bound, which the token contains since
// Kubernetes 1.30. It does not verify the token; the API server does.
func nodeOf(token string) identity {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return identity{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return identity{}
	}
	var claims struct {
		Kubernetes struct {
			Node struct{ Name, UID string }
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return identity{}
	}
	n := claims.Kubernetes.Node
	if !plain(n.Name) || !plain(n.UID) {
		return identity{}
	}
	return identity{n.Name, n.UID}
}

// plain reports whether a text may be the name or UID of a node.
func plain(s string) bool {
	return len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

const otherDefinition = "the cluster's definition of OrphanReport may be another version's: upgrade it (orphanReport.crd in the chart)"

// diagnose returns the kind of a failure and what to do about it.
func diagnose(err error) (kind, mend string) {
	for code, mend := range map[int]string{
		http.StatusUnauthorized: "the API server does not know these credentials: check the file that orphan_report names, or the pod's token",
		http.StatusForbidden: "the account needs create and patch on orphanreports.orphan-reaper.github.io, and where the chart's " +
			"ValidatingAdmissionPolicy is, a token that is bound to a pod of this node, whose name node_name then is",
		http.StatusNotFound:              "the cluster has no OrphanReports: apply their definition (orphanReport.crd in the chart), or set orphan_report to none",
		http.StatusRequestEntityTooLarge: "the API server, or a proxy before it, refuses a request of this size",
		http.StatusUnprocessableEntity:   otherDefinition,
		http.StatusInternalServerError:   otherDefinition, // an unknown field
	} {
		if kube.Refused(err, code) {
			return strconv.Itoa(code), mend
		}
	}
	if _, ok := errors.AsType[*kube.RefusedError](err); ok {
		return "credentials", "name other credentials in orphan_report"
	}
	return "other", "see whether the API server can be reached from this node; it may only be busy"
}
