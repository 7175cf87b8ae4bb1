package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// answerBytes limits an answer of the API server: the request, and a user with its groups.
const answerBytes = 256 << 10

// errSlow is the error of an API server that does not answer within reviewTime.
var errSlow = errors.New("no answer in time")

// tokenReview is the part that is read of an answer of authentication.k8s.io/v1.
type tokenReview struct {
	Kind   string `json:"kind"`
	Status struct {
		Authenticated bool     `json:"authenticated"`
		User          user     `json:"user"`
		Audiences     []string `json:"audiences"`
	} `json:"status"`
}

// user is a user of the API server.
type user struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// attributes are the nonResourceAttributes of a SubjectAccessReview.
type attributes struct {
	Path string `json:"path"`
	Verb string `json:"verb"`
}

// accessReview is the part that is read of an answer of authorization.k8s.io/v1.
type accessReview struct {
	Kind   string `json:"kind"`
	Status struct {
		Allowed bool `json:"allowed"`
		Denied  bool `json:"denied"`
	} `json:"status"`
}

// ask requests the user of the token, and then whether that user may make the request.
func (r *Reviewer) ask(ctx context.Context, token string, what attributes) (admission, error) {
	server, err := r.open()
	if err != nil {
		return unavailable, err
	}
	defer server.Close()
	var who tokenReview
	asked := map[string]any{"token": token, "audiences": []string{Audience}}
	err = create(ctx, server, "authentication.k8s.io", "tokenreviews", "TokenReview", asked, &who, &who.Kind)
	if err != nil {
		return unavailable, err
	}
	u := &who.Status.User
	// An API server that does not support audiences omits them, and accepts tokens for itself.
	if !who.Status.Authenticated || u.Username == "" || !slices.Contains(who.Status.Audiences, Audience) {
		return unauthorized, nil
	}
	var may accessReview
	spec := map[string]any{"user": u.Username, "uid": u.UID, "groups": u.Groups, "extra": u.Extra, "nonResourceAttributes": what}
	if err := create(ctx, server, "authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", spec, &may, &may.Kind); err != nil {
		return unavailable, err
	}
	if !may.Status.Allowed || may.Status.Denied {
		return admission{http.StatusForbidden, fmt.Sprintf("%s may not %s %s: no ClusterRole that is bound to it has that (nonResourceURLs)",
			clean.Brief(u.Username), what.Verb, what.Path)}, nil
	}
	return allowed, nil
}

// create creates a review and decodes the answer.
func create(ctx context.Context, s *kube.Server, group, resource, kind string, spec, answer any, got *string) error {
	body, err := json.Marshal(map[string]any{"apiVersion": group + "/v1", "kind": kind, "spec": spec})
	if err != nil {
		return err
	}
	err = s.Send(ctx, http.MethodPost, "/apis/"+group+"/v1/"+resource, "application/json", body, func(r io.Reader) error {
		if err := json.NewDecoder(io.LimitReader(r, answerBytes)).Decode(answer); err != nil {
			return err
		}
		if *got != kind {
			return fmt.Errorf("it answers with %.40q", *got)
		}
		return nil
	})
	if kube.Refused(err, http.StatusForbidden) {
		return fmt.Errorf("%w; the daemon's account needs the right to create %s (%s)", err, resource, group)
	}
	if err != nil {
		return fmt.Errorf("cannot create a %s: %w", kind, err)
	}
	return nil
}
